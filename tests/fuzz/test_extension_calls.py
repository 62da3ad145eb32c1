"""Thousands of calls of the extension's own function: a sound answer, or an error and no change.

The memory calls it with arrays of its own; whoever calls it otherwise must not crash the
interpreter. ``make sanitize`` runs this under the address and undefined-behaviour sanitizers.
"""

import random
from collections import Counter

import numpy as np
import pytest

from multipool.memory import switch

pytestmark = pytest.mark.skipif(not switch.available(), reason="no compiled decisions")
CALLS = 6000
NAMES = (
    "timely", "points", "uncertainty", "serials", "indices", "labels", "count", "sizes",
    "created", "last_used", "members", "totals", "new points", "new uncertainty", "new labels",
    "doubtful", "counted", "written",
)  # fmt: skip
WHOLE = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 8, 2**20, 2**31, 2**53, 2**62, 2**63 - 1)
REAL = (float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 1e300, -1e308, 5e-324)
ERRORS = (ValueError, TypeError, OverflowError, BufferError, MemoryError)


class Call:
    """The arguments of one call that is right, on a state that earlier calls made."""

    def __init__(self, draw: random.Random) -> None:
        rng = np.random.default_rng(draw.randrange(2**32))
        capacity, most, width = draw.randint(1, 9), draw.randint(1, 5), draw.randint(1, 7)
        quota, self.classes = draw.choice((0, 0, 1, 2)), draw.randint(1, 6)
        flags = (draw.random() < 0.5, draw.random() < 0.5, draw.random() < 0.3)
        numbers = (draw.choice((0.0, 0.1, 0.5)), 1.0, 0.7, draw.choice((0.0, 1.0)))
        self.options = [capacity, most, quota, self.classes, *flags, *numbers]
        self.width, self.serial, self.by_call = width, 0, False
        slots = capacity * most
        self.arrays = {
            "timely": np.linspace(0.5, 1.0, draw.randint(1, 40)),
            "points": np.zeros((slots, width)),
            "uncertainty": np.zeros(slots),
            **{name: np.zeros(slots, dtype=np.int64) for name in ("serials", "indices", "labels")},
            "count": np.zeros(1, dtype=np.int64),
            **{name: np.zeros(most, dtype=np.int64) for name in ("sizes", "created", "last_used")},
            "members": np.zeros((most, capacity), dtype=np.int64),
            "totals": np.zeros((most, width)),
            "counted": np.zeros(4, dtype=np.int64),
        }
        for _ in range(draw.randint(0, 3)):
            self.offer(rng, draw.randint(1, 30))
            self.make()
            self.serial += len(self.arrays["new labels"])
        self.offer(rng, draw.randint(1, 30))

    def offer(self, rng: np.random.Generator, size: int) -> None:
        self.arrays |= {
            "new points": np.round(rng.random((size, self.width)) * 64) / 64,
            "new uncertainty": rng.random(size),
            "new labels": rng.integers(-1, self.classes, size),
            "doubtful": rng.integers(0, 2, size),
            "written": np.zeros((2, size), dtype=np.int64),
        }

    def make(self) -> int:
        arrays = (self.arrays[name] for name in NAMES)
        return switch.decide.take(
            tuple(self.options), self.width, *arrays, self.serial, self.serial, self.by_call
        )

    def check(self, number: int) -> None:
        """Hold the arrays to what is true after every batch."""
        a, (capacity, most) = self.arrays, self.options[:2]
        sizes = a["sizes"][: a["count"][0]]
        assert 0 <= number <= len(a["new labels"])
        assert 0 < len(sizes) <= most
        assert ((sizes > 0) & (sizes <= capacity)).all()
        held = np.concatenate([row[:n] for row, n in zip(a["members"], sizes, strict=False)])
        assert len(set(held.tolist())) == len(held)
        slots, rows = a["written"][:, :number]
        assert ((slots >= 0) & (slots < capacity * most)).all()
        assert len(set(slots.tolist())) == number
        assert ((rows >= 0) & (rows < len(a["new labels"]))).all()
        assert (a["labels"][held] < self.classes).all()


def _spoil_array(array: np.ndarray, draw: random.Random) -> object:
    """Return something like the array that is not quite it."""
    other = np.int64 if array.dtype == np.float64 else np.float64
    unaligned = np.zeros(array.nbytes + 1, dtype=np.uint8)[1:].view(array.dtype)
    ways = [
        lambda: array.astype(other),
        lambda: array.astype(np.int32 if other == np.float64 else np.float32),
        lambda: array.view(np.uint64),
        lambda: array.astype(array.dtype.newbyteorder()),
        lambda: array.ravel()[:-1].copy(),
        lambda: array[:0].copy(),
        lambda: np.concatenate((array, array)),
        lambda: array[None],
        lambda: np.repeat(array, 2, axis=0)[::2],
        lambda: array[::-1],
        lambda: unaligned.reshape(array.shape),
        lambda: array.tobytes(),
        lambda: bytearray(array.tobytes()),
        lambda: memoryview(array.tobytes()),
        lambda: array.tolist(),
        lambda: None,
        lambda: 7,
        lambda: np.array(3),
    ]
    return draw.choice(ways)()


def _spoil_value(array: np.ndarray, draw: random.Random) -> None:
    values = WHOLE if array.dtype == np.int64 else REAL
    for _ in range(draw.choice((1, 1, 3))):
        array.flat[draw.randrange(array.size)] = draw.choice(values)


def spoil(call: Call, draw: random.Random) -> None:
    """Make one argument wrong, or perhaps still right by chance."""
    name = draw.choice(NAMES)
    kind = draw.choices(
        ("value", "array", "option", "alias", "number", "width"), (8, 4, 4, 2, 2, 1)
    )
    match kind[0]:
        case "value":
            _spoil_value(call.arrays[name], draw)
        case "array":
            call.arrays[name] = _spoil_array(call.arrays[name], draw)
        case "option":
            worse = (*WHOLE, *REAL, 2**70, None, "x", True)
            call.options[draw.randrange(len(call.options))] = draw.choice(worse)
        case "alias":
            call.arrays[name] = call.arrays[draw.choice(NAMES)]
        case "number":
            call.serial = draw.choice((*WHOLE, 2**70, None, 1.5))
        case _:
            call.width = draw.choice((*WHOLE, 2**61, 2**70, None))


def snapshot(call: Call) -> list[bytes]:
    arrays = (call.arrays[name] for name in NAMES if name != "written")
    return [array.tobytes() for array in arrays if isinstance(array, np.ndarray)]


def test_thousands_of_wrong_calls_end_in_an_error_and_change_nothing():
    draw, found = random.Random(0), Counter()
    for _ in range(CALLS):
        call = Call(draw)
        spoil(call, draw)
        before, error = snapshot(call), None
        try:
            number = call.make()
        except ERRORS as caught:
            error = caught
        if error is None:
            call.check(number)
            found["done"] += 1
        else:
            assert str(error), repr(error)
            assert snapshot(call) == before, error
            found[type(error).__name__] += 1
    assert found["ValueError"] > CALLS // 3
    assert found["done"] > CALLS // 20


def test_right_calls_keep_the_arrays_sound():
    draw = random.Random(1)
    for _ in range(500):
        call = Call(draw)
        call.check(call.make())


def changed(name, value, where=0):
    """A right call, but for one number."""
    draw = random.Random(5)
    call = Call(draw)
    while call.arrays["count"][0] < 2:
        call = Call(draw)
    call.arrays[name].flat[where] = value
    return call


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("members", 2**40, "members must be in slots"),
        ("members", -1, "members must be in slots"),
        ("sizes", 10**6, "1 to N members"),
        ("labels", 2**40, "of known labels"),
        ("new labels", 2**40, "labels must be -1 to L-1"),
        ("new labels", -2, "labels must be -1 to L-1"),
        ("indices", -(2**63), "of the past"),
        ("count", 10**9, "0 to K_max clusters"),
        ("uncertainty", float("nan"), "must be finite"),
        ("new uncertainty", float("nan"), "must be finite"),
        ("totals", float("inf"), "must be finite"),
    ],
)
def test_wrong_contents_are_named(name, value, sentence):
    call = changed(name, value)
    if name in ("labels", "indices", "uncertainty"):  # of a slot in use
        call = changed(name, value, where=int(changed("timely", 0.5).arrays["members"][0, 0]))
    with pytest.raises(ValueError, match=sentence):
        call.make()


def test_two_members_in_one_slot_are_refused():
    call = changed("timely", 0.5)
    call.arrays["members"][1, 0] = call.arrays["members"][0, 0]
    with pytest.raises(ValueError, match="each in its own"):
        call.make()


@pytest.mark.parametrize(("capacity", "most"), [(2**32, 2**32), (2**62, 4), (2**20, 2), (0, 3)])
def test_sizes_whose_product_overflows_are_refused(capacity, most):
    call = changed("timely", 0.5)
    call.options[:2] = capacity, most
    with pytest.raises(ValueError, match=r"must be 1 to 2\^20"):
        call.make()


def test_an_array_that_is_passed_twice_is_refused():
    call = changed("timely", 0.5)
    call.arrays["indices"] = call.arrays["serials"]
    with pytest.raises(ValueError, match="serials shares its memory"):
        call.make()
