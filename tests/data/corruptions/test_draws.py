"""Random streams: the same however they are cut, different for every key, and uniform."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multipool.data.corruptions.draws import Draws


def _draws(seed=0, name="fog", severity=1):
    return Draws(seed, name, severity, torch.device("cpu"))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 4), st.integers(1, 5))
def test_chunks_continue_each_other(chunks, height, width):
    for kind in ("normal", "uniform", "words"):
        whole = getattr(_draws(), kind)("x", sum(chunks), height, width)
        pieces = _draws()
        parts = [getattr(pieces, kind)("x", n, height, width) for n in chunks]
        assert torch.equal(torch.cat(parts), whole)


def test_every_key_has_a_stream_of_its_own():
    draws = [_draws(), _draws(seed=1), _draws(name="frost"), _draws(severity=2)]
    values = [d.words("x", 1, 8) for d in draws] + [_draws().words("y", 1, 8)]
    assert len({tuple(v.flatten().tolist()) for v in values}) == 5


@pytest.mark.parametrize("limit", [2, 5, 8])
def test_integers_below_a_limit_are_equally_frequent(limit):
    values = _draws().below("x", limit, 100, 1000).numpy()
    shares = np.bincount(values.ravel(), minlength=limit) / values.size
    np.testing.assert_allclose(shares, 1 / limit, atol=0.006)
