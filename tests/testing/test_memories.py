"""The contract tests find what is broken; that they pass for our own is tested with the memory."""

import dataclasses

import pytest
import torch

from multipool.memory import FifoPool
from multipool.testing import ContractError, check_memory


class OffByOne(FifoPool):
    def retrieve(self, n=64):
        found = super().retrieve(n)
        return dataclasses.replace(found, ages=found.ages + 1)


class Leaks(FifoPool):
    def clear(self):
        if not hasattr(self, "_groups"):
            super().clear()


class ForgetsLabels(FifoPool):
    def state_dict(self):
        state = super().state_dict()
        return {**state, "labels": torch.full_like(state["labels"], -1)}

    def load_state_dict(self, state):
        super().load_state_dict({k: v for k, v in state.items() if k != "extra"})


class Counts(FifoPool):
    @property
    def events(self):
        return {"added": 1}


def test_a_whole_memory_passes():
    check_memory(FifoPool)
    check_memory("mcm", capacity=8)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (OffByOne, "OffByOne breaks 'what it hands back is what it was given'"),
        (Leaks, r"Leaks breaks 'clear is the beginning': clear\(\) leaves samples behind"),
        (ForgetsLabels, "a state with an unknown entry is taken"),
        (Counts, "Counts breaks 'it counts what happens': events must be added, spawned"),
    ],
)
def test_a_broken_promise_is_one_sentence(kind, sentence):
    with pytest.raises(ContractError, match=sentence):
        check_memory(kind)


def test_a_class_without_a_seed_is_refused():
    with pytest.raises(ValueError, match="memory Odd must take seed as arguments"):
        check_memory(type("Odd", (), {"__init__": lambda self, num_classes: None}))
