"""Generators: seeds and keys decide, and a saved state goes on."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.core import numpy_generator, numpy_state, restore_numpy, torch_generator


def test_seed_and_keys_decide_and_nothing_else():
    np.random.seed(7)  # noqa: NPY002
    first = numpy_generator(3, "draws", 1).random(5)
    np.random.seed(8)  # noqa: NPY002
    assert (numpy_generator(3, "draws", 1).random(5) == first).all()
    others = [(4, "draws", 1), (3, "noise", 1), (3, "draws", 2), (3, "draws")]
    assert all((numpy_generator(*key).random(5) != first).any() for key in others)


@given(st.integers(0, 2**32), st.integers(0, 50))
def test_a_restored_generator_goes_on_where_the_saved_one_stood(seed, drawn):
    generator = numpy_generator(seed)
    generator.random(drawn)
    generator.permutation(7)
    state = numpy_state(generator)
    assert state.dtype == torch.uint8
    other = numpy_generator(seed + 1)
    restore_numpy(other, state)
    assert (other.random(9) == generator.random(9)).all()


@pytest.mark.parametrize("junk", [[], [1, 2, 3], list(b'{"a": 1}'), list(b"[]")])
def test_a_state_that_is_none_is_one_sentence(junk):
    with pytest.raises(ValueError, match="the saved random state cannot be read"):
        restore_numpy(numpy_generator(0), torch.tensor(junk, dtype=torch.uint8))


def test_torch_generators_are_seeded():
    one, other = (torch.rand(4, generator=torch_generator(5)) for _ in range(2))
    assert torch.equal(one, other)
