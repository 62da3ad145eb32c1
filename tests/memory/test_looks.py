"""The compiled passes over pixels against numpy's, which say what they must find."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from multipool.memory import build, switch
from multipool.memory.descriptors import from_moments, on_grid, pixel
from multipool.memory.pixels import eight_bits, look, moments
from multipool.memory.store import ImageStore

pytestmark = pytest.mark.skipif(not switch.has_passes(), reason="no compiled passes")
SHAPES = [(1, 1, 1, 1), (3, 2, 5, 7), (64, 3, 32, 32), (5, 3, 33, 31), (4, 3, 64, 64)]


def images(shape, seed=0):
    """Return float images in [0, 1], some pixels halfway between two levels, some at the ends."""
    rng = np.random.default_rng(seed)
    values = rng.random(shape, dtype=np.float32)
    odd = rng.random(shape)
    values[odd < 0.1] = ((rng.integers(0, 255, shape) + 0.5) / 255).astype(np.float32)[odd < 0.1]
    values[odd > 0.95] = rng.integers(0, 2, shape).astype(np.float32)[odd > 0.95]
    return torch.from_numpy(values)


@pytest.mark.parametrize("shape", SHAPES)
def test_one_pass_finds_what_numpy_finds(shape):
    given = images(shape)
    before = given.clone()
    found = look(given)
    rows = given.numpy().reshape(shape[0] * shape[1], -1)
    sums, squares = moments(rows)
    assert np.array_equal(found.levels, eight_bits(given.numpy()).reshape(shape[0], -1))
    assert np.allclose(found.sums, sums, rtol=1e-13, atol=0)
    assert np.allclose(found.squares, squares, rtol=1e-13, atol=0)
    described = from_moments(found.sums, found.squares, given.shape)
    assert np.array_equal(on_grid(described.numpy()), on_grid(pixel(given).numpy()))
    assert torch.equal(given, before)


def test_every_level_is_rounded_and_read_back_alike():
    levels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    given = levels.float() / 255
    assert np.array_equal(look(given).levels, levels.view(1, -1).numpy())
    made, plain = ImageStore(2, "uint8"), ImageStore(2, "uint8")
    plain._compiled = False
    for store in (made, plain):
        store.prepare(given)
        store.write([1], given, [0], store.look(given))
    assert torch.equal(made.read([1, 0]), plain.read([1, 0]))
    assert torch.equal(made.read([1])[0], given[0])


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf"), -1e-9, 1.0000002])
@pytest.mark.parametrize("place", [0, 40, 1023])
def test_pixels_out_of_range_are_left_to_the_sentence(wrong, place):
    given = images((2, 3, 32, 32))
    given[1, 2].view(-1)[place] = wrong
    assert look(given) is None
    memory = build("mcm", 10)
    with pytest.raises(ValueError, match="float images must lie in"):
        memory.add(given)
    assert len(memory) == 0


def test_what_it_does_not_know_is_left_to_numpy():
    given = images((4, 3, 8, 8))
    assert look(given.double()) is None
    assert look((given * 255).byte()) is None
    assert look(given.to(memory_format=torch.channels_last)) is None
    assert look(given[:, :, ::2]) is None
    assert look(given) is not None


@pytest.mark.parametrize("preset", ["mcm", "mcm+"])
@pytest.mark.parametrize("side", [8, 33])
def test_a_memory_is_the_same_bit_for_bit(preset, side):
    fast = build(preset, 100, seed=1)
    with switch.by_numpy():
        slow = build(preset, 100, seed=1)
    for step in range(12):
        given = images((16, 3, side, side), step) * (0.2 + 0.2 * (step % 5))
        labels = torch.arange(16) % 7
        for memory in (fast, slow):
            memory.add(given, torch.rand(16, generator=torch.Generator().manual_seed(step)), labels)
        one, two = fast.retrieve(24), slow.retrieve(24)
        for name in ("images", "ages", "uncertainty", "labels", "clusters"):
            assert torch.equal(getattr(one, name), getattr(two, name)), name
    assert fast.events == slow.events
    mine, theirs = fast.state_dict(), slow.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


def test_other_versions_are_refused_with_a_warning():
    class Old:
        VERSION = 0

    with pytest.warns(RuntimeWarning, match="passes over pixels are of version 0, not 1, so numpy"):
        assert not switch.is_current(Old, switch.PIXELS_VERSION, "passes over pixels")


def _spoiled(array, draw):
    """Return something like the array that is not quite it."""
    ways = [
        lambda: array.astype(np.float64 if array.dtype != np.float64 else np.float32),
        lambda: array.astype(array.dtype.newbyteorder()),
        lambda: array[:0].copy(),
        lambda: np.concatenate((array, array)),
        lambda: array.ravel()[:-1].copy(),
        lambda: array[None],
        lambda: np.repeat(array, 2, axis=0)[::2],
        lambda: np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape),
        lambda: array.tobytes(),
        lambda: None,
        lambda: 7,
    ]
    return draw.choice(ways)()


def test_whoever_calls_it_otherwise_gets_an_error():
    """Under ``make sanitize`` this shows that nothing outside of the arrays is touched."""
    draw = random.Random(0)
    refused = 0
    for _ in range(1500):
        rows, size = draw.randint(1, 4), draw.choice((1, 31, 32, 33, 70))
        x, levels = np.full((rows, size), 0.5, np.float32), np.zeros((rows, size), np.uint8)
        if draw.random() < 0.5:
            call, given = switch.passes.look, [x, levels, np.zeros((rows, 2))]
        else:
            slots = np.array([draw.choice((-1, 0, rows - 1, rows, 2**62))] * rows)
            call, given = switch.passes.read, [levels, slots, x]
        if draw.random() < 0.7:
            place = draw.randrange(3)
            given[place] = _spoiled(given[place], draw)
        try:
            call(*given)
        except (ValueError, TypeError, BufferError):
            refused += 1
    assert 500 < refused < 1400
