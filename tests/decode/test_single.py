"""One sample by itself: the same posteriors and the same state as a batch of one, bit for bit."""

from dataclasses import fields

import numpy as np
import pytest

from multipool.decode.decoder import advance
from multipool.decode.single import advance_one
from multipool.decode.state import State


def stream(classes, run, scale, cameras, length, seed=0):
    """Yield logits ``(1, L)`` of cameras that take turns, each with runs of one class."""
    rng = np.random.default_rng(seed)
    shown = [rng.integers(classes, size=length).repeat(run) for _ in range(cameras)]
    for t in range(length):
        logits = rng.standard_normal(classes)
        logits[shown[t % cameras][t // cameras]] += 2.5
        yield scale * logits[None]


@pytest.mark.parametrize("compiled", ["1", "0"])
@pytest.mark.parametrize("classes", [2, 7, 8, 9, 100, 129, 300])
@pytest.mark.parametrize(
    ("run", "scale", "cameras", "window"),
    [(1, 1.0, 1, 256), (20, 4.0, 1, 16), (40, 0.05, 1, 256), (5, 8.0, 3, 256), (30, 300.0, 1, 2)],
)
def test_a_sample_alone_is_a_batch_of_one(
    monkeypatch, compiled, classes, run, scale, cameras, window
):
    monkeypatch.setenv("MULTIPOOL_COMPILED", compiled)
    state, lags, changed = State.fresh(classes), set(), 0
    for logits in stream(classes, run, scale, cameras, length=160):
        expected, after = advance(state, logits, window)
        found, state = advance_one(state, logits, window)
        assert np.array_equal(found, expected)
        for field in fields(State):
            one, other = (np.asarray(getattr(s, field.name)) for s in (state, after))
            assert one.shape == other.shape
            assert np.array_equal(one, other), field.name
        lags.add(state.lag)
        changed += found.argmax() != logits.argmax()
    assert state.seen == 160
    if (run, classes, window) == (5, 100, 256):
        assert lags == {1, 3}  # the chains began anew on the way
    if (run, classes) == (20, 100):
        assert changed > 0  # the chains had something to say
