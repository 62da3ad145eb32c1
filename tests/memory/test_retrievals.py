import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multipool.memory import RETRIEVALS
from multipool.memory.retrievals import Shares, mass, proportional, recent, uniform
from multipool.memory.view import ClusterView


def view(sizes, last_used=None, now=100):
    count = len(sizes)
    used = np.full(count, now - 1) if last_used is None else np.array(last_used)
    return ClusterView(np.array(sizes), np.zeros((count, 1)), np.arange(count), used, now)


@pytest.mark.parametrize("name", sorted(set(RETRIEVALS) - {"proportional"}))
@given(
    sizes=st.lists(st.integers(1, 64), min_size=1, max_size=6),
    n=st.integers(0, 200),
    data=st.data(),
)
def test_shares_are_counts_that_add_up_to_no_more_than_n(name, sizes, n, data):
    used = [data.draw(st.integers(0, 99)) for _ in sizes]
    shares = RETRIEVALS[name](view(sizes, used), n, Shares())
    assert len(shares) == len(sizes)
    assert all(isinstance(share, int) and share >= 0 for share in shares)
    assert sum(shares) <= n


def test_uniform_gives_all_the_same():
    assert uniform(view([1, 64, 3]), 64, Shares()) == [21, 21, 21]


def test_proportional_is_one_flat_draw():
    assert proportional(view([1, 64, 3]), 64, Shares()) is None


def test_recent_falls_by_e_over_the_horizon():
    shares = recent(view([64, 64], last_used=[39, 99]), 1000, Shares(horizon=60.0))
    assert shares == [int(1000 / (1 + np.e)), int(1000 * np.e / (1 + np.e))]


def test_recent_survives_a_very_old_memory():
    assert recent(view([64, 64], last_used=[0, 1], now=10**9), 10, Shares(horizon=1.0)) == [2, 7]


def test_mass_gives_the_light_their_size_and_the_heavy_the_rest():
    assert mass(view([64, 2, 64]), 64, Shares(minimum_mass=16)) == [31, 2, 31]
    assert mass(view([3, 2]), 64, Shares(minimum_mass=16)) == [32, 32]
    assert mass(view([64, 15]), 10, Shares(minimum_mass=16)) == [5, 5]
