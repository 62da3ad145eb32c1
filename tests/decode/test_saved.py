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
        ("lag", lambda old: torch.tensor(2), "slots"),
        ("seen", lambda old: torch.tensor(-1), "count"),
        ("seen", lambda old: old + 1, "confidence"),
        ("confidence", lambda old: old + 1, r"\[0, 1\]"),
        ("evidence", lambda old: old * float("nan"), "finite"),
        ("evidence", lambda old: old[1:], "shape"),
        ("evidence", lambda old: old.float(), "float64"),
        ("filtered", lambda old: old * 2, "sum to 1"),
        ("begun", lambda old: old - 1e9, "counts of 0"),
        ("read", lambda old: old + 1e308, "counts of 0"),
        ("within", lambda old: old - 1e9, "below 0"),
        ("filtered", lambda old: torch.cat([old, old]), "slots"),
        ("filtered", lambda old: old[0], "shape"),
        ("last", lambda old: old * 2, "sum to 1"),
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


def as_older(state):
    """Return a state as it was saved when each chain had one stay probability."""
    old = {name: value for name, value in state.items() if name not in NEW}
    return {
        **old,
        "agreement": torch.zeros(8, dtype=torch.float64),
        "filtered": torch.full((8, 11, 6), 1 / 6, dtype=torch.float64),
        "evidence": torch.full((11,), 300.0, dtype=torch.float64),
    }


NEW = ("begun", "within", "read", "last")


def test_a_state_of_before_runs_had_kinds_goes_on_with_its_gate_open(logits):
    decoder = SequenceDecoder(6)
    for piece in logits.split(64):
        decoder(piece)
    other = SequenceDecoder(6)
    other.load_state_dict(as_older(decoder.state_dict()))
    assert other.gate > 0.9
    labels = other(logits[:64]).argmax(dim=1)
    assert (labels == decoder(logits[:64]).argmax(dim=1)).float().mean() > 0.9


def test_the_evidence_of_before_is_that_of_chains_that_took_the_model_literally(logits):
    older = as_older(SequenceDecoder(6).state_dict())
    older["evidence"] = torch.tensor([-5.0] * 6 + [3.0] + [90.0] * 4, dtype=torch.float64)
    decoder = SequenceDecoder(6)
    decoder.load_state_dict(older)
    assert decoder.state_dict()["evidence"].tolist() == [3.0] * 3


def test_chains_of_another_lag_than_one_begin_with_no_evidence(logits):
    older = {**as_older(SequenceDecoder(6).state_dict()), "lag": torch.tensor(3)}
    decoder = SequenceDecoder(6)
    decoder.load_state_dict(older)
    assert decoder.gate == 0.0
    assert not decoder.state_dict()["evidence"].any()


@pytest.mark.parametrize("name", ["evidence", "lag"])
def test_a_state_of_before_that_is_no_plain_tensor_is_refused(name):
    older = as_older(SequenceDecoder(6).state_dict())
    with pytest.raises(ValueError, match="plain"):
        SequenceDecoder(6).load_state_dict({**older, name: older[name].to("meta")})


def test_a_damaged_state_of_before_is_told_what_is_missing(logits):
    older = as_older(SequenceDecoder(6).state_dict())
    older["evidence"] = older["evidence"][:5]
    with pytest.raises(ValueError, match="begun"):
        SequenceDecoder(6).load_state_dict(older)
