"""The decoder as a whole: what it must not change, what it must take away, and its manners."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multipool.decode import SequenceDecoder

BATCH = 64


def in_batches(decoder, logits, size=BATCH):
    return torch.cat([decoder(piece) for piece in logits.split(size)])


def error(scores, labels):
    return (scores.argmax(dim=1) != labels).float().mean().item()


@settings(max_examples=30)
@given(
    classes=st.integers(2, 7),
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    scale=st.sampled_from([0.0, 1.0, 30.0, 1e4]),
    seed=st.integers(0, 1000),
)
def test_rows_are_finite_log_probabilities(classes, sizes, scale, seed):
    generator = torch.Generator().manual_seed(seed)
    decoder = SequenceDecoder(classes)
    for size in sizes:
        answer = decoder(scale * torch.randn(size, classes, generator=generator))
        assert answer.shape == (size, classes)
        assert answer.dtype == torch.float32
        assert answer.isfinite().all()
        torch.testing.assert_close(answer.exp().sum(dim=1), torch.ones(size))


@settings(max_examples=20)
@given(seed=st.integers(0, 200), shift=st.floats(-50, 50), stay=st.sampled_from([0.0, 0.9]))
def test_a_constant_added_to_a_sample_changes_nothing(stream_of, seed, shift, stay):
    logits = stream_of(stay, seed)
    moved = logits + shift * torch.linspace(-1, 1, len(logits), dtype=torch.float64)[:, None]
    torch.testing.assert_close(
        in_batches(SequenceDecoder(5), moved), in_batches(SequenceDecoder(5), logits)
    )


@settings(max_examples=20)
@given(seed=st.integers(0, 200), order=st.permutations(range(5)), stay=st.sampled_from([0.0, 0.9]))
def test_classes_have_no_order(stream_of, seed, order, stay):
    logits = stream_of(stay, seed)
    torch.testing.assert_close(
        in_batches(SequenceDecoder(5), logits[:, order]),
        in_batches(SequenceDecoder(5), logits)[:, order],
    )


@pytest.fixture(scope="module")
def stream_of(classes_of, logits_of):
    def make(stay, seed):
        return logits_of(classes_of(100, 5, stay, seed), 5, 2.0, seed).double()

    return make


@pytest.mark.parametrize("size", [1, 64])
@pytest.mark.parametrize(("sharp", "bias"), [(1.0, 1.0), (4.0, 1.5)])  # unsure, and too sure
@pytest.mark.parametrize("classes", [10, 200])
def test_a_weak_biased_model_on_samples_without_order_is_left_alone(
    classes_of, logits_of, classes, sharp, bias, size
):
    labels = classes_of(1500, classes, 0.0, 3)
    logits = sharp * logits_of(labels, classes, 2.5, 4, bias)
    decoder = SequenceDecoder(classes)
    answer = in_batches(decoder, logits, size)
    assert abs(error(answer, labels) - error(logits, labels)) <= 0.002
    assert decoder.persistence == 0.0
    torch.testing.assert_close(answer[-64:], logits[-64:].log_softmax(dim=1))


def test_a_sure_model_with_many_classes_on_samples_without_order_is_left_alone(
    classes_of, logits_of
):
    labels = classes_of(600, 1000, 0.0, 5)
    logits = logits_of(labels, 1000, 9.0, 6)
    decoder = SequenceDecoder(1000)
    answer = in_batches(decoder, logits)
    torch.testing.assert_close(answer, logits.log_softmax(dim=1))


def test_a_new_bias_does_not_look_like_order(classes_of, logits_of):
    labels = classes_of(2048, 10, 0.0, 7)
    logits = 4 * logits_of(labels, 10, 2.0, 8)
    for domain in range(4):
        logits[512 * domain : 512 * (domain + 1), domain] += 6.0
    answer = in_batches(SequenceDecoder(10), logits)
    assert error(answer, labels) <= error(logits, labels) + 0.001


def test_an_unsure_model_that_sees_another_class_in_each_domain_is_left_alone(
    classes_of, logits_of
):
    labels = classes_of(6000, 10, 0.0, 60)
    logits = logits_of(labels, 10, 1.0, 61)
    for domain in range(6):  # as a smoothed model under noise: half of all answers are one class
        logits[1000 * domain : 1000 * (domain + 1), domain] += 2.5
    answer = in_batches(SequenceDecoder(10), logits)
    assert error(answer, labels) <= error(logits, labels) + 0.005


@pytest.mark.parametrize("classes", [10, 100])
def test_most_errors_go_where_classes_stay(classes_of, logits_of, classes):
    labels = classes_of(1500, classes, 0.95, 9)
    logits = logits_of(labels, classes, 2.5, 10)
    decoder = SequenceDecoder(classes)
    answer = in_batches(decoder, logits)
    assert error(answer, labels) < 0.3 * error(logits, labels)
    assert decoder.gate > 0.99
    assert 0.9 < decoder.persistence < 0.99
    causal = in_batches(SequenceDecoder(classes), logits, 1)
    assert error(answer, labels) < error(causal, labels) < 0.5 * error(logits, labels)


def test_persistence_is_found_lost_and_found_again(classes_of, logits_of):
    parts = [classes_of(1024, 10, stay, 11 + i) for i, stay in enumerate((0.97, 0.0, 0.97))]
    labels = torch.cat(parts)
    logits = logits_of(labels, 10, 2.5, 14)
    decoder, opened = SequenceDecoder(10), []
    for piece in logits.split(BATCH):
        decoder(piece)
        opened.append(decoder.persistence > 0)
    assert all(opened[1:16])
    assert not any(opened[26:32])  # after ten batches of 64, two and a half windows
    assert all(opened[34:])


@pytest.mark.parametrize("cameras", [2, 5, 8])
def test_cameras_that_take_turns_are_found_by_their_lag(classes_of, logits_of, cameras):
    each = [classes_of(240, 10, 0.96, 20 + camera) for camera in range(cameras)]
    labels = torch.stack(each, dim=1).flatten()
    logits = logits_of(labels, 10, 2.5, 30)
    decoder = SequenceDecoder(10)
    answer = in_batches(decoder, logits)
    assert f"lag {cameras}" in repr(decoder)
    assert error(answer, labels) < 0.5 * error(logits, labels)


def test_peek_answers_alike_and_changes_nothing(classes_of, logits_of):
    logits = logits_of(classes_of(192, 10, 0.95, 40), 10, 2.5, 41)
    decoder = SequenceDecoder(10)
    in_batches(decoder, logits[:128])
    before = decoder.state_dict()
    answer = decoder.peek(logits[128:])
    assert all(torch.equal(value, before[name]) for name, value in decoder.state_dict().items())
    assert torch.equal(answer, decoder(logits[128:]))


def test_reset_forgets_the_stream(classes_of, logits_of):
    logits = logits_of(classes_of(128, 10, 0.95, 42), 10, 2.5, 43)
    decoder = SequenceDecoder(10)
    first = decoder(logits)
    assert not torch.equal(decoder(logits), first)
    decoder.reset()
    assert decoder.estimate is None
    assert torch.equal(decoder(logits), first)


def test_a_large_batch_is_decoded_piece_by_piece(classes_of, logits_of):
    logits = logits_of(classes_of(1200, 10, 0.95, 44), 10, 2.5, 45)
    assert torch.equal(SequenceDecoder(10)(logits), in_batches(SequenceDecoder(10), logits, 512))


def test_no_samples_change_nothing():
    decoder = SequenceDecoder(3)
    assert decoder(torch.zeros(0, 3)).shape == (0, 3)
    assert decoder.estimate is None


def test_the_estimate_is_near_the_accuracy_of_a_calibrated_model(classes_of):
    labels = classes_of(2000, 10, 0.9, 46)
    generator = torch.Generator().manual_seed(47)
    # With Gaussian noise of variance v, logits x / v are the exact log likelihoods.
    noise = 0.5 * torch.randn(2000, 10, generator=generator)
    seen = torch.nn.functional.one_hot(labels, 10) + noise
    decoder = SequenceDecoder(10, window=2000)
    answer = in_batches(decoder, seen / 0.25)
    assert decoder.estimate == pytest.approx(1 - error(answer, labels), abs=0.02)
    assert decoder.estimate == pytest.approx(answer.exp().amax(dim=1).mean().item(), abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_any_floating_point_is_taken(dtype):
    logits = torch.tensor([[1.0, 2.0, 3.0]], dtype=dtype, requires_grad=True)
    answer = SequenceDecoder(3)(logits)
    assert not answer.requires_grad
    torch.testing.assert_close(answer, logits.detach().float().log_softmax(dim=1))


def test_logits_at_the_end_of_float32_stay_finite():
    logits = torch.tensor([[3e38, -3e38, 0.0]]).repeat(100, 1)
    decoder = SequenceDecoder(3)
    for _ in range(3):
        assert decoder(logits).isfinite().all()


@pytest.mark.parametrize(
    ("logits", "words"),
    [
        (torch.zeros(3), "shape"),
        (torch.zeros(2, 4), r"\(B, 3\).*\(2, 4\)"),
        (torch.zeros(2, 3, dtype=torch.long), "floating point, got torch.int64"),
        (torch.tensor([[0.0, float("nan"), 0.0]]), "finite"),
        (torch.zeros(2, 3, device="meta"), "plain"),
        ([[0.0, 1.0, 2.0]], "tensor of floating point, got list"),
    ],
)
def test_bad_logits_are_refused_and_change_nothing(logits, words):
    decoder = SequenceDecoder(3)
    with pytest.raises(ValueError, match=words):
        decoder(logits)
    assert decoder.estimate is None


@pytest.mark.parametrize("wrong", [{"num_classes": 1}, {"num_classes": 2.0}, {"window": 1}])
def test_bad_options_are_refused(wrong):
    with pytest.raises(ValueError, match="whole number"):
        SequenceDecoder(**{"num_classes": 3, **wrong})
