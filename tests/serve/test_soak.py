"""Many streams at once, every answer compared with an adapter's alone."""

import numpy as np
import pytest

from .soak import Load, soak


def test_streams_at_once_get_the_answers_they_get_alone(tmp_path):
    out = soak(Load(streams=6, images=2, period=0.05, requests=3), tmp_path)
    assert out.answers == 18
    assert (out.wrong, out.lost) == (0, 0)


@pytest.mark.slow
def test_64_streams_for_ten_minutes(tmp_path):
    out = soak(Load(), tmp_path)
    print(out.answers, "answers, p50 and p99 in ms:", out.percentile(0.5), out.percentile(0.99))
    assert (out.wrong, out.lost) == (0, 0)
    third = len(out.memory) // 3
    # A stream may still open a pool or two, of 1 MiB each; nothing else may grow.
    assert np.mean(out.memory[-3:]) < np.mean(out.memory[third : third + 3]) + 2 * 64
