"""Values on their way between host and device; a CPU is its own device."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multipool.ops.host import Arriving, product, sent


def test_values_arrive_as_they_were_sent():
    values = np.array([1.5, -2.0], dtype=np.float32)
    there = sent(values, torch.device("cpu"))
    assert torch.equal(there, torch.tensor([1.5, -2.0]))
    assert torch.equal(Arriving(there).wait(), there)


def test_what_arrives_needs_no_gradient():
    values = torch.ones(2, requires_grad=True)
    assert not Arriving(values * 2).wait().requires_grad


@given(
    rows=st.integers(1, 200),
    inner=st.integers(1, 120),
    columns=st.one_of(st.none(), st.integers(1, 120)),
)
@settings(max_examples=30)
def test_a_product_in_pieces_is_the_product(rows, inner, columns):
    rng = np.random.default_rng(rows)
    a = rng.standard_normal((rows, inner))
    b = rng.standard_normal(inner if columns is None else (inner, columns))
    np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-10, atol=1e-10)
