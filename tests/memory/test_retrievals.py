import pytest
from hypothesis import given
from hypothesis import strategies as st

from multipool.memory import RETRIEVALS
from multipool.memory.retrievals import proportional, uniform


@pytest.mark.parametrize("name", RETRIEVALS)
@given(sizes=st.lists(st.integers(1, 64), min_size=1, max_size=6), n=st.integers(0, 200))
def test_shares_are_counts_that_add_up_to_no_more_than_n(view, name, sizes, n):
    shares = RETRIEVALS[name](view(sizes), n)
    if shares is None:  # one flat draw
        return
    assert len(shares) == len(sizes)
    assert all(isinstance(share, int) and share >= 0 for share in shares)
    assert sum(shares) <= n


def test_uniform_gives_all_the_same(view):
    assert uniform(view([1, 64, 3]), 64) == [21, 21, 21]


def test_proportional_is_one_flat_draw(view):
    assert proportional(view([1, 64, 3]), 64) is None
