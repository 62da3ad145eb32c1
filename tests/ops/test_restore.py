import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.ops.restore import stochastic_restore


@given(rate=st.sampled_from([0.0, 0.01, 0.3, 1.0]), seed=st.integers(0, 5))
def test_the_expected_share_goes_back_and_the_rest_stays(rate, seed):
    count = 40_000
    values, source = torch.full((count,), 2.0), torch.arange(count) + 10.0
    stochastic_restore(values, source, rate, torch.Generator().manual_seed(seed))
    back = values == source
    assert torch.equal(values[~back], torch.full((int((~back).sum()),), 2.0))
    spread = (rate * (1 - rate) / count) ** 0.5
    assert abs(float(back.float().mean()) - rate) <= 5 * spread


def test_every_call_draws_anew():
    generator = torch.Generator().manual_seed(0)
    masks = []
    for _ in range(2):
        values = torch.ones(1000)
        stochastic_restore(values, torch.zeros(1000), 0.5, generator)
        masks.append(values)
    assert not torch.equal(*masks)
