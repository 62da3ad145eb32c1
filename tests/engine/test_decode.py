"""The decoder in the engine: fed once a batch with what is answered, whatever the method does."""

import copy

import pytest
import torch

from multipool.core import Retrieved
from multipool.decode import SequenceDecoder
from multipool.memory import build
from multipool.methods import adapt, load


@pytest.fixture
def runs(make_net, make_images):
    """Return batches of images in runs of ten that the source model takes for one class."""
    images = make_images(400, seed=5)
    with torch.no_grad():
        labels = make_net()(images).argmax(dim=1)
    tens = [piece for label in range(5) for piece in (labels == label).nonzero()[:, 0].split(10)]
    order = torch.randperm(len(tens), generator=torch.Generator().manual_seed(1))
    ordered = images[torch.cat([tens[i] for i in order])]
    return list(ordered[:160].split(20))


def same_state(one, other):
    one, other = one.state_dict(), other.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("name", ["source", "neo", "bn"])
def test_answers_are_the_decoder_run_by_hand(make_net, runs, name):
    decoding = adapt(make_net(), name, decode="sequence")
    plain = adapt(make_net(), name)
    by_hand = SequenceDecoder(5)
    changed = False
    for x in runs:
        logits, answer = plain(x), decoding(x)
        assert torch.equal(answer, by_hand(logits))
        assert torch.equal(decoding.undecoded, logits)
        assert decoding.estimate == by_hand.estimate
        changed |= not torch.allclose(answer, logits.log_softmax(dim=1))
    assert changed, "the decoder had nothing to say"


@pytest.mark.parametrize("name", ["rotta", "tent"])
def test_a_method_that_learns_is_decoded_after_it_has_answered(make_net, runs, name):
    adapter, by_hand = adapt(make_net(), name, decode="sequence"), SequenceDecoder(5)
    for x in runs:
        answer = adapter(x)
        assert torch.equal(answer, by_hand(adapter.undecoded))


def test_a_method_without_memory_learns_the_same_whether_it_is_decoded_or_not(make_net, runs):
    one, other = adapt(make_net(), "tent", decode="sequence"), adapt(make_net(), "tent")
    for x in runs:
        one(x)
        assert torch.equal(one.undecoded, other(x))


def test_without_a_decoder_there_are_logits_and_no_estimate(make_net, runs):
    adapter = adapt(make_net(), "source")
    assert adapter.undecoded is None
    assert torch.equal(adapter(runs[0]), adapter.undecoded)
    assert adapter.estimate is None
    assert adapter.decoder is None
    assert adapter.pools == []


def test_the_estimate_is_the_mean_of_the_highest_posteriors(make_net, runs):
    adapter = adapt(make_net(), "source", decode="sequence")
    assert adapter.estimate is None  # nothing to estimate from
    answers = torch.cat([adapter(x) for x in runs[:3]])
    expected = float(answers.double().exp().amax(dim=1).mean())
    assert adapter.estimate == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", ["source", "rotta", "tent"])
def test_looking_does_not_move_the_decoder(make_net, runs, name):
    looking, other = (adapt(make_net(), name, decode="sequence") for _ in range(2))
    for x in runs[:5]:
        before = looking.state_dict()
        first, again = looking.predict(x), looking.predict(x)
        assert torch.equal(first, again)
        now = looking.state_dict()
        assert all(torch.equal(before[k], now[k]) for k in before)
        expected = other(x)
        assert torch.equal(looking(x), expected)
        if name == "source":
            assert torch.equal(first, expected)
    assert same_state(looking, other)


@pytest.mark.parametrize("failures", [1, 2])
def test_an_update_that_fails_feeds_it_once(make_net, runs, monkeypatch, failures):
    adapter, by_hand = adapt(make_net(), "tent", decode="sequence"), SequenceDecoder(5)
    adapter(runs[0])
    by_hand(adapter.undecoded)
    train, left = adapter.method.train, [failures]

    def fails_at_first(images):
        if left[0]:
            left[0] -= 1
            raise RuntimeError("not now")
        return train(images)

    monkeypatch.setattr(adapter.method, "train", fails_at_first)
    for x in runs[1:4]:
        answer = adapter(x)
        assert torch.equal(answer, by_hand(adapter.undecoded))
    assert left == [0]
    assert int(adapter.state_dict()["decoder.seen"]) == 80


def test_a_second_chance_feeds_it_once(make_net, runs, monkeypatch):
    adapter, other = (adapt(make_net(), "rotta", decode="sequence") for _ in range(2))
    predict, tries = adapter.method.predict, []

    def fails_at_first(images):
        tries.append(len(images))
        if len(tries) == 1:
            raise RuntimeError("not now")
        return predict(images)

    monkeypatch.setattr(adapter.method, "predict", fails_at_first)
    for x in runs[:4]:
        assert torch.equal(adapter(x), other(x))
    assert tries == [20] * 5
    now, expected = adapter.state_dict(), other.state_dict()
    assert all(torch.equal(now[k], expected[k]) for k in now if k.startswith("decoder."))


def test_where_a_prediction_fails_the_source_model_is_decoded_once(make_net, runs, monkeypatch):
    adapter, source = adapt(make_net(), "rotta", decode="sequence"), adapt(make_net(), "source")
    by_hand = SequenceDecoder(5)
    predict = adapter.method.predict

    def spoiled(images):
        found = predict(images)
        return found.with_logits(found.logits * float("nan"))

    monkeypatch.setattr(adapter.method, "predict", spoiled)
    for x in runs[:2]:
        assert torch.equal(adapter(x), by_hand(source(x)))
    assert int(adapter.state_dict()["decoder.seen"]) == 40


@pytest.mark.parametrize("name", ["source", "rotta"])
def test_saved_and_loaded_it_goes_on_bit_for_bit(make_net, runs, tmp_path, name):
    adapter = adapt(make_net(), name, decode="sequence", seed=1)
    for x in runs[:4]:
        adapter(x)
    adapter.save(tmp_path / "state.safetensors")
    loaded, copied = load(tmp_path / "state.safetensors", make_net()), copy.deepcopy(adapter)
    assert loaded.estimate == copied.estimate == adapter.estimate
    for x in runs[4:]:
        expected = adapter(x)
        assert torch.equal(loaded(x), expected)
        assert torch.equal(copied(x), expected)
    assert same_state(adapter, loaded)
    assert same_state(adapter, copied)


def test_reset_forgets_the_stream(make_net, runs):
    adapter = adapt(make_net(), "source", decode="sequence")
    first = [adapter(x) for x in runs[:3]]
    adapter.reset()
    assert adapter.estimate is None
    assert all(torch.equal(a, adapter(x)) for a, x in zip(first, runs[:3], strict=True))


def test_a_bad_state_of_the_decoder_is_refused_and_changes_nothing(make_net, runs):
    adapter = adapt(make_net(), "rotta", decode="sequence")
    adapter(runs[0])
    before, bad = adapter.state_dict(), adapter.state_dict()
    bad["decoder.seen"] = torch.tensor(-3)
    with pytest.raises(ValueError, match="decoder's"):
        adapter.load_state_dict(bad)
    now = adapter.state_dict()
    assert all(torch.equal(before[k], now[k]) for k in before)


class SpyBank:
    """A bank that keeps nothing but what it was told."""

    num_classes, capacity, events = 5, 8, {}

    def __init__(self):
        self.told = []
        self.inner = build("fifo", 5, capacity=8)

    def add(self, images, uncertainty=None, labels=None, features=None):
        self.told.append((labels.clone(), uncertainty.clone()))
        self.inner.add(images, uncertainty, labels)

    def retrieve(self, n=64) -> Retrieved:
        return self.inner.retrieve(n)

    def clear(self):
        self.inner.clear()

    def __len__(self):
        return len(self.inner)

    def state_dict(self):
        return self.inner.state_dict()

    def load_state_dict(self, state):
        self.inner.load_state_dict(state)


def test_banks_are_told_what_the_decoder_says(make_net, runs):
    bank = SpyBank()
    adapter = adapt(make_net(), "rotta", bank, decode="sequence")
    differs = False
    for x in runs:
        bank.told.clear()
        answer = adapter(x)
        labels, doubt = (torch.cat(parts) for parts in zip(*bank.told, strict=True))
        assert torch.equal(labels, answer.argmax(dim=1))
        shares = answer.exp()
        expected = -(shares * answer).sum(dim=1)  # nats
        torch.testing.assert_close(doubt, expected, rtol=1e-4, atol=1e-4)
        differs |= not torch.equal(labels, adapter.undecoded.argmax(dim=1))
    assert differs, "the decoder never disagreed"


def test_an_unknown_decoder_is_one_sentence_that_lists_the_known(make_net):
    with pytest.raises(ValueError, match="decoder.*'sequense'.*sequence") as caught:
        adapt(make_net(), "source", decode="sequense")
    assert "\n" not in str(caught.value)


def test_only_multipool_is_decoded_unless_asked(make_net):
    assert adapt(make_net()).setup.decode == "sequence"
    assert adapt(make_net(), decode="none").decoder is None
    assert adapt(make_net(), "rotta").decoder is None


def test_masked_images_do_not_reach_the_decoder(make_net, runs):
    adapter = adapt(make_net(), "source", decode="sequence", bad_input="mask")
    plain, by_hand = adapt(make_net(), "source"), SequenceDecoder(5)
    x = runs[0].clone()
    x[3] = float("nan")
    good = torch.arange(20) != 3
    answer = adapter(x)
    assert torch.equal(answer[good], by_hand(plain(x[good])))
    assert answer[3].isfinite().all()
    assert int(adapter.state_dict()["decoder.seen"]) == 19
