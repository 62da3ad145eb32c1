"""Thousands of calls of every bank, right and wrong: a right answer, or a sentence and no change.

``pytest tests/fuzz -m slow -s`` shows the counts of the long version.
"""

import random
from collections import Counter

import pytest
import torch
from arguments import (
    BAD_IMAGES,
    CLASSES,
    FEATURES,
    GOOD_IMAGES,
    NUMBERS_BAD,
    NUMBERS_GOOD,
    OTHER_SHAPES,
    column,
    damaged_state,
    is_sentence,
    pixels,
)  # fmt: skip
from reader import same

from multipool.memory import MEMORIES, build
from multipool.memory.consolidations import CONSOLIDATIONS
from multipool.memory.retrievals import RETRIEVALS

SESSION, FEW, MANY = 50, 1000, 20_000


class Session:
    """A bank, and its twin that hears of nothing but the right calls."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.name = draw.choice(["mcm", "mcm", "mcm", "mcm+", *MEMORIES])
        self.options = _options(self.name, draw)
        self.bank, self.twin = self.fresh(), self.fresh()
        self.found: Counter[str] = Counter()
        self.saved = [self.bank.state_dict()]
        self.added = 0

    def fresh(self):
        return build(self.name, CLASSES, **self.options)

    def call(self) -> None:
        """Make one call, and check what came of it."""
        before, events = self.bank.state_dict(), self.bank.events
        act = self.draw.choices(
            (self.add, self.retrieve, self.load, self.clear, self.move), (60, 20, 14, 2, 4)
        )[0]
        error, right = None, False
        try:
            right = act()
        except ValueError as caught:
            error = caught
        if error is not None:
            assert is_sentence(error), repr(error)
            assert same(before, self.bank.state_dict()), f"the state changed: {error}"
            assert events == self.bank.events, f"events changed: {error}"
            self.found["refused in a sentence"] += 1
            return
        assert right, f"{act.__name__} took a wrong argument"
        self.found["done"] += 1
        self.check()

    def add(self) -> bool:
        draw, count = self.draw, self.draw.choice((1, 2, 5, 9, 33))
        x, right = pixels(draw, count), True
        if draw.random() < 0.85:
            images = draw.choice(GOOD_IMAGES)(x)
        else:
            shapes = OTHER_SHAPES if len(self.bank) else ()
            images, right = draw.choice((*BAD_IMAGES, *shapes))(x), False
        doubt, good = column(draw, count, "uncertainty")
        labels, sound = column(draw, count, "labels")
        features = None
        if self.options.get("descriptor") == "feature":
            features = torch.rand(count, FEATURES)
            if draw.random() < 0.1:
                wrong = (None, features * float("nan"), features[:, 0], features[:-1], [1.0])
                features, right = draw.choice(wrong), False
        with torch.inference_mode(draw.random() < 0.2):
            self.bank.add(images, doubt, labels, features)
        if not (right and good and sound):
            return False
        self.twin.add(images, doubt, labels, features)
        self.added += count
        return True

    def retrieve(self) -> bool:
        right = self.draw.random() < 0.7
        n = self.draw.choice(NUMBERS_GOOD if right else NUMBERS_BAD)
        batch = self.bank.retrieve(n)
        if right:
            other = self.twin.retrieve(n)
            assert same(list(vars(batch).values()), list(vars(other).values()))
            assert ((batch.images >= 0) & (batch.images <= 1)).all()
            assert (batch.ages >= 1).all()
            assert not batch.images.requires_grad
            assert not batch.images.is_inference()
        return right

    def load(self) -> bool:
        """Take over a state: an earlier one, a stranger's, or a damaged one."""
        kind = self.draw.random()
        if kind < 0.4:
            self.saved.append(self.bank.state_dict())
            state = self.draw.choice(self.saved)
        elif kind < 0.6:
            other = Session(self.draw.randrange(10**6))
            other.bank.add(pixels(other.draw, 7), features=torch.rand(7, FEATURES))
            state = other.bank.state_dict()
        else:
            state = damaged_state(self.bank.state_dict(), self.draw)
        self.bank.load_state_dict(state)
        self.twin = self.fresh()  # what was accepted must be good enough to go on from
        self.twin.load_state_dict(self.bank.state_dict())
        self.added = int(self.bank.state_dict()["now"])
        return True

    def clear(self) -> bool:
        self.bank.clear()
        self.twin.clear()
        self.saved, self.added = [self.bank.state_dict()], 0
        return True

    def move(self) -> bool:
        """Go on in a new bank, as after a restart."""
        state, self.bank = self.bank.state_dict(), self.fresh()
        self.bank.load_state_dict(state)
        assert same(state, self.bank.state_dict())
        return True

    def check(self) -> None:
        """Hold the bank to what is true of every bank at any time."""
        state, everything = self.bank.state_dict(), self.bank.retrieve(None)
        assert len(self.bank) == len(state["images"]) == len(everything)
        if self.options.get("age_unit") != "step":
            assert len(everything.ages.unique()) == len(everything)
            assert int(state["now"]) == self.added
        assert not len(everything) or int(everything.ages.max()) <= int(state["now"])
        clusters = getattr(self.bank, "clusters", None)
        if clusters is None:
            assert len(self.bank) <= self.bank.capacity
            return
        assert int(clusters.sizes.sum()) == len(self.bank)
        assert len(clusters) <= self.bank.options.clusters
        if len(clusters):
            assert 1 <= int(clusters.sizes.min()) <= int(clusters.sizes.max()) <= self.bank.capacity
            members = state["descriptors"].split(clusters.sizes.tolist())
            means = torch.stack([points.mean(dim=0) for points in members])
            torch.testing.assert_close(clusters.centroids, means, rtol=0, atol=1e-12)


def _options(name: str, draw: random.Random) -> dict[str, object]:
    options: dict[str, object] = {"capacity": draw.choice((1, 2, 5, 16)), "seed": draw.randrange(9)}
    options["storage"] = draw.choice(("uint8", "float"))
    if not name.startswith("mcm"):
        return options
    options["max_clusters"] = draw.choice((None, 1, 2, 4))
    options["consolidation"] = draw.choice([*CONSOLIDATIONS])
    options["retrieval"] = draw.choice([*RETRIEVALS])
    options["distance"] = draw.choice(("l2", "l1", "cosine", "mahalanobis"))
    options["descriptor"] = draw.choice(("pixel", "pixel", "spatial_mean", "histogram", "feature"))
    options["threshold"] = draw.choice((0.02, 0.1, 0.5))
    options["replacement"] = draw.choice(("always", "if_worse"))
    options["age_unit"] = draw.choice(("sample", "sample", "step"))
    options["fill"] = draw.random() < 0.5
    options["draw"] = draw.choice(("random", "newest"))
    options["class_quota"] = draw.choice((None, None, 2))
    options["run_share"] = draw.choice((None, None, 0.6))
    return options


def run(calls: int, seed: int) -> Counter[str]:
    """Make many calls in sessions of a bank each; return how they ended."""
    found: Counter[str] = Counter()
    for number in range(calls // SESSION):
        session = Session(seed + number)
        for step in range(SESSION):
            try:
                session.call()
            except Exception as error:
                what = f"{session.name} {session.options}"
                raise AssertionError(f"session {seed + number}, call {step}, {what}") from error
        assert same(session.bank.state_dict(), session.twin.state_dict()), session.options
        found += session.found
    return found


def test_a_thousand_calls_of_the_banks_end_well_or_in_a_sentence():
    found = run(FEW, seed=0)
    assert found.total() == FEW
    assert min(found.values()) > FEW // 8


@pytest.mark.slow
def test_twenty_thousand_calls_of_the_banks(capsys):
    found = run(MANY, seed=10_000)
    assert found.total() == MANY
    with capsys.disabled():
        print(f"\nbanks: {MANY} calls, " + ", ".join(f"{n} {how}" for how, n in found.items()))


WRONG = (None, -1, 0, 1.5, float("nan"), float("inf"), "x", True, [], {}, 2**70, -(2**70), b"", ())


@pytest.mark.parametrize("name", MEMORIES)
def test_every_option_of_every_bank_takes_a_value_or_says_what_it_wants(name):
    for option in (*MEMORIES[name].known(), "seed", "num_classes", "nonsense"):
        for value in WRONG:
            bank, error = None, None
            try:
                bank = MEMORIES[name](**{"num_classes": CLASSES, option: value})
            except ValueError as caught:
                error = caught
            if bank is None:
                assert is_sentence(error), repr(error)
                assert option in str(error) or option in ("capacity", "max_clusters"), error
            else:
                bank.add(pixels(random.Random(0), 3), features=torch.rand(3, FEATURES))
                assert len(bank.retrieve(2)) <= 3
