"""An answer told before it is learned from is the answer, and nothing else changes by it."""

import pytest
import torch


def same_state(one, other):
    one, other = one.state_dict(), other.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("name", ["multipool", "rotta", "source", "bn", "tribe"])
@pytest.mark.parametrize("decode", ["none", "sequence"])
def test_what_is_told_early_is_what_the_call_returns(build, make_images, name, decode):
    telling, other = build(name, decode=decode), build(name, decode=decode)
    told = []
    for t in range(6):
        x = make_images(24, seed=t)
        answer = telling.step(x, lambda logits, estimate: told.append((logits, estimate)))
        assert torch.equal(answer, other(x))
        assert len(told) == t + 1
        assert torch.equal(told[-1][0], answer)
        assert told[-1][1] == telling.estimate == other.estimate
    assert same_state(telling, other)


def test_nothing_is_learned_before_it_is_told(build, make_images):
    adapter = build("multipool")
    adapter(make_images(24))
    found = []

    def look(logits, estimate):
        found.append((adapter.method.numbers["seen"], len(adapter.method.banks()["bank0"])))

    before = adapter.method.numbers["seen"], len(adapter.method.banks()["bank0"])
    adapter.step(make_images(24, seed=1), look)
    assert found == [before]
    assert adapter.method.numbers["seen"] == before[0] + 24


def test_an_answer_that_a_look_for_a_collapse_may_change_is_not_told(build, make_images):
    adapter, told = build("tent"), []
    adapter.stepper.recovery.every = 1
    adapter.step(make_images(24), lambda *answer: told.append(answer))
    assert told == []


def test_rows_that_are_masked_keep_a_batch_from_being_told_in_parts(build, make_images):
    adapter, told = build("multipool", bad_input="mask"), []
    spoilt = make_images(8)
    spoilt[2, 0, 0, 0] = float("nan")
    answer = adapter.step(spoilt, lambda *early: told.append(early))
    assert (len(answer), told) == (8, [])


def test_what_was_told_once_is_not_told_again_when_learning_fails(build, make_images, monkeypatch):
    adapter, told = build("multipool"), []
    take = adapter.method.router.take

    def fail(other):
        monkeypatch.setattr(adapter.method.router, "take", take)
        raise RuntimeError("once")

    monkeypatch.setattr(adapter.method.router, "take", fail)
    answer = adapter.step(make_images(24), lambda logits, _: told.append(logits))
    assert len(told) == 1
    assert torch.equal(told[0], answer)  # the second try says the same
    assert adapter.counts["skipped"] == 1


def test_a_plain_call_tells_nobody(build, make_images):
    adapter, told = build("multipool"), []
    adapter.step(make_images(8), lambda *answer: told.append(answer))
    adapter(make_images(8, seed=1))
    assert len(told) == 1
