"""Thousands of calls of adapters, right and wrong: a prediction, or a sentence and no change.

``pytest tests/fuzz -m slow -s`` shows the counts of the long version.
"""

import random
from collections import Counter

import pytest
import torch
from arguments import (
    BAD_IMAGES,
    CLASSES,
    GOOD_IMAGES,
    damaged_state,
    is_sentence,
    pixels,
)
from reader import same
from tensor_readers import small

import multipool
from multipool.memory import MEMORIES
from multipool.methods import METHODS

SHORT, LONG, FEW, MANY = 12, 40, 252, 20_000
TAKERS = [name for name, kind in METHODS.items() if kind.takes_memory]


class Session:
    """An adapter, and its twin that hears of nothing but the right calls."""

    def __init__(self, number: int, folder) -> None:
        self.draw = draw = random.Random(number)
        self.folder = folder
        # Every method in turn, and methods with a memory more often.
        self.name = [*METHODS, *TAKERS][number % (len(METHODS) + len(TAKERS))]
        bank = draw.choice([None, "mcm", "mcm+", *MEMORIES]) if self.name in TAKERS else None
        self.settings = {
            "method": self.name, "memory": bank, "seed": draw.randrange(5),
            "guard": draw.random() < 0.7, "reset_every": draw.choice((None, None, 3)),
        }  # fmt: skip
        if self.settings["guard"] and draw.random() < 0.3:
            self.settings["fallback"] = "source"
        if bank is not None:
            self.settings["memory_options"] = {"capacity": draw.choice((3, 16))}
        self.source = [(pixels(random.Random(5), 24), torch.arange(24) % CLASSES)]
        self.adapter, self.twin = self.fresh(), self.fresh()
        self.saved = [self.adapter.state_dict()]
        self.found: Counter[str] = Counter()

    def fresh(self):
        return multipool.adapt(small(), source=self.source, **self.settings)

    def call(self, act=None) -> None:
        """Make one call, and check what came of it."""
        before = self.adapter.state_dict()
        acts = (self.step, self.predict, self.load, self.reset, self.restart, self.misuse)
        act = act or self.draw.choices(acts, (50, 15, 15, 3, 5, 12))[0]
        error, right = None, False
        try:
            right = act()
        except (ValueError, FileNotFoundError) as caught:
            error = caught
        if error is not None:
            assert is_sentence(error), repr(error)
            assert same(before, self.adapter.state_dict()), f"the state changed: {error}"
            self.found["refused in a sentence"] += 1
            return
        assert right, f"{act.__name__} took a wrong argument"
        self.found["done"] += 1

    def images(self) -> tuple[object, bool]:
        x = pixels(self.draw, self.draw.choice((1, 2, 7, 16)))
        if self.draw.random() < 0.7:
            return self.draw.choice(GOOD_IMAGES)(x), True
        return self.draw.choice(BAD_IMAGES)(x), False

    def step(self) -> bool:
        images, right = self.images()
        with torch.inference_mode(self.draw.random() < 0.2):
            logits = self.adapter(images)
        if right:
            self.sound(logits, len(images))
            assert torch.equal(logits, self.twin(images))
        return right

    def predict(self) -> bool:
        images, right = self.images()
        before = self.adapter.state_dict()
        logits = self.adapter.predict(images)
        assert same(before, self.adapter.state_dict()), "predict changed the state"
        if right:
            self.sound(logits, len(images))
        return right

    def sound(self, logits, count: int) -> None:
        assert logits.shape == (count, CLASSES)
        assert logits.isfinite().all()
        assert not logits.requires_grad

    def load(self) -> bool:
        """Take over a state: an earlier one, a stranger's, or a damaged one."""
        kind = self.draw.random()
        if kind < 0.4:
            self.saved.append(self.adapter.state_dict())
            state = self.draw.choice(self.saved)
            self.adapter.load_state_dict(state)
            self.twin.load_state_dict(state)
            return True
        if kind < 0.6:
            other = Session(self.draw.randrange(1000), self.folder)
            other.adapter(pixels(other.draw, 8))
            state = other.adapter.state_dict()
        else:  # of names and shapes; see below for values and kinds
            state = self.adapter.state_dict()
            key = self.draw.choice([k for k in sorted(state) if not k.startswith("generator.")])
            if self.draw.random() < 0.5:
                del state[key]
            else:
                state[key + "x"] = state[key]
        before = self.adapter.state_dict()
        self.adapter.load_state_dict(state)
        self.adapter.load_state_dict(before)  # it was one of the same kind
        return True

    def load_damaged(self) -> bool:
        before = self.adapter.state_dict()
        self.adapter.load_state_dict(damaged_state(before, self.draw))
        self.adapter.load_state_dict(before)  # another number is a state like any other
        return True

    def reset(self) -> bool:
        self.adapter.reset()
        self.twin.reset()
        return True

    def restart(self) -> bool:
        """Go on in a new adapter, from a file."""
        path = self.folder / "state.safetensors"
        self.adapter.save(path)
        self.adapter = multipool.load(path, small(), source=self.source)
        return True

    def misuse(self) -> bool:
        """Ask for what cannot be."""
        model, folder = small(), self.folder
        (folder / "here").mkdir(exist_ok=True)
        self.adapter.save(folder / "good.safetensors")
        self.draw.choice((
            lambda: self.adapter.half(),
            lambda: self.adapter.to("cpu:99"),
            lambda: self.adapter.to("meta"),
            lambda: multipool.load(folder / "absent", model),
            lambda: multipool.load(folder / "here", model),
            lambda: multipool.load(folder / "good.safetensors", torch.nn.Linear(3, CLASSES)),
            lambda: multipool.load(folder / "good.safetensors", None),
            lambda: multipool.adapt(model, "nothing"),
            lambda: multipool.adapt(model, None),
            lambda: multipool.adapt(model, ["rotta"]),
            lambda: multipool.adapt(None, self.name),
            lambda: multipool.adapt(model, self.name, memory=self.draw.choice((3, "x", [], {}))),
            lambda: multipool.adapt(model, self.name, options={"nonsense": 1}),
            lambda: multipool.adapt(model, "tent", options={"lr": "fast"}),
            lambda: multipool.adapt(model, "petta", source=self.draw.choice((3, "x", None, [3]))),
            lambda: multipool.adapt(model, "rmt", source=None),
            lambda: multipool.adapt(model, num_classes=self.draw.choice((0, 1, -1))),
            lambda: multipool.adapt(model, "tent", seed=self.draw.choice((-1, "x", 1.5))),
            lambda: multipool.adapt(model, "tent", precision="fp8"),
            lambda: multipool.adapt(model, "tent", reset_every=self.draw.choice((0, -1))),
            lambda: multipool.adapt(model, "tent", fallback="nothing"),
            lambda: multipool.adapt(model, "tent", bad_input="nothing"),
            lambda: multipool.adapt(model, "rotta", "mcm", memory_options={"capacity": -1}),
            lambda: multipool.adapt(model, "rotta", "mcm", memory_options={"nonsense": 1}),
        ))()  # fmt: skip
        return False


def run(calls: int, each: int, seed: int, folder) -> Counter[str]:
    """Make many calls in sessions of an adapter each; return how they ended."""
    found: Counter[str] = Counter()
    for number in range(seed, seed + calls // each):
        session = Session(number, folder)
        for step in range(each):
            try:
                session.call()
            except Exception as error:
                said = f"session {number}, call {step}, {session.settings}"
                raise AssertionError(said) from error
        assert same(session.adapter.state_dict(), session.twin.state_dict()), session.settings
        found += session.found
    return found


def test_hundreds_of_calls_of_adapters_end_well_or_in_a_sentence(tmp_path):
    found = run(FEW, SHORT, 0, tmp_path)
    assert found.total() == FEW
    assert min(found.values()) > FEW // 8


def test_damaged_states_are_refused_in_a_sentence_and_change_nothing(tmp_path):
    for number in range(len(METHODS)):
        session = Session(number, tmp_path)
        session.call(session.step)
        for _ in range(8):
            session.call(session.load_damaged)


def test_images_of_another_number_of_channels_are_refused_in_a_sentence(tmp_path):
    session = Session(0, tmp_path)
    with pytest.raises(ValueError, match="channels"):
        session.adapter(pixels(session.draw, 4)[:, :2])


@pytest.mark.parametrize("name", ["reset_every", "num_classes"])
def test_a_word_for_a_number_is_refused_in_a_sentence(name):
    with pytest.raises(ValueError, match=name):
        multipool.adapt(small(), "tent", **{name: "x"})


@pytest.mark.slow
def test_twenty_thousand_calls_of_adapters(tmp_path, capsys):
    found = run(MANY, LONG, 1000, tmp_path)
    assert found.total() == MANY
    with capsys.disabled():
        print(f"\nadapters: {MANY} calls, " + ", ".join(f"{n} {how}" for how, n in found.items()))
