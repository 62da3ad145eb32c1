"""A saved decoder goes on bit for bit, and a bad state is refused and changes nothing."""

import pytest
import torch

from multipool.decode import SequenceDecoder


@pytest.fixture
def logits(classes_of, logits_of):
    return logits_of(classes_of(400, 6, 0.95, 1), 6, 2.0, 2)


@pytest.mark.parametrize("split", [1, 100, 300])
def test_a_saved_decoder_goes_on_bit_for_bit(logits, split):
    first = SequenceDecoder(6)
    first(logits[:split])
    saved = first.state_dict()
    second = SequenceDecoder(6)
    second(logits[300:])
    second.load_state_dict(saved)
    for piece in logits[split:].split(33):
        assert torch.equal(first(piece), second(piece))
    assert (first.estimate, first.gate, repr(first)) == (second.estimate, second.gate, repr(second))


def test_a_saved_state_does_not_follow_the_decoder(logits):
    decoder = SequenceDecoder(6)
    decoder(logits[:50])
    saved = decoder.state_dict()
    kept = {name: value.clone() for name, value in saved.items()}
    decoder(logits[50:])
    assert all(torch.equal(saved[name], kept[name]) for name in kept)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("lag", lambda old: torch.tensor(9), "lag"),
        ("seen", lambda old: torch.tensor(-1), "count"),
        ("seen", lambda old: old + 1, "confidence"),
        ("confidence", lambda old: old + 1, r"\[0, 1\]"),
        ("evidence", lambda old: old * float("nan"), "finite"),
        ("evidence", lambda old: old[1:], "shape"),
        ("evidence", lambda old: old.float(), "float64"),
        ("filtered", lambda old: old * 2, "sum to 1"),
        ("marginal", lambda old: -old, "sum to 1"),
        ("marginal", lambda old: "words", "tensor"),
        ("marginal", lambda old: old.to("meta"), "plain"),
        ("unknown", lambda old: torch.zeros(1), "unknown"),
    ],
)
def test_a_bad_state_is_refused_and_changes_nothing(logits, name, change, words):
    decoder = SequenceDecoder(6)
    decoder(logits[:100])
    good = decoder.state_dict()
    with pytest.raises(ValueError, match=words):
        decoder.load_state_dict({**good, name: change(good.get(name))})
    assert all(torch.equal(value, good[key]) for key, value in decoder.state_dict().items())


def test_a_state_of_other_classes_or_with_something_missing_is_refused(logits):
    decoder = SequenceDecoder(6)
    with pytest.raises(ValueError, match="number of classes"):
        decoder.load_state_dict(SequenceDecoder(7).state_dict())
    short = decoder.state_dict()
    del short["recent"]
    with pytest.raises(ValueError, match="recent"):
        decoder.load_state_dict(short)
