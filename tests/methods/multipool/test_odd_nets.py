"""multipool on networks that normalise where or how others do not."""

import numpy as np
import pytest
import torch

from multipool.methods import adapt
from odd_nets import ODD_NETS, make_odd_net


@pytest.mark.parametrize("kind", ODD_NETS)
def test_it_pools_predicts_and_goes_on_bit_for_bit(kind, resumed):
    model = make_odd_net(kind)
    adapter = adapt(model, guard=False)
    resumed(adapter, model, 40)
    assert sum(pool.samples for pool in adapter.pools) == 240


def test_images_are_described_by_the_nearest_layer_that_runs(make_images):
    adapter, x = adapt(make_odd_net("spare"), options={"depth": 0.5}), make_images(8)
    method = adapter.method
    assert method.layer == 2
    before = method.network.before_norm(x, 3)
    adapter(x)
    assert method.layer == 3
    state = method.branch.layers[3]
    scale = (state.var + state.eps).sqrt()
    mean = (before.mean(dim=(2, 3)) - state.mean) / scale
    logs = (before.var(dim=(2, 3), correction=0) + state.eps).sqrt().div(scale).log()
    wanted = torch.cat([mean, logs], dim=1) @ method.projection  # 12 numbers, as of layer 2
    found = method.router.recent[-8:]
    assert found.shape[1] == 12
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-3, atol=1e-4)


def test_a_model_that_runs_none_of_its_layers_is_told_so(make_images):
    model = make_odd_net("spare")
    model.norms1[0], model.norm2 = torch.nn.Identity(), torch.nn.Identity()
    with pytest.raises(ValueError, match="normalisation layer 0 but never runs it"):
        adapt(model)(make_images(4))


class InPieces(torch.nn.Module):
    """Runs four images at a time."""

    def __init__(self):
        super().__init__()
        self.net = make_odd_net("volume")

    def forward(self, x):
        return torch.cat([self.net(part) for part in x.split(4)])


def test_a_model_that_splits_its_batches_is_told_so(make_images):
    adapter = adapt(InPieces().eval())
    assert adapter(make_images(4)).shape == (4, 5)
    with pytest.raises(ValueError, match="layer 4 rows for 6 images, so it splits batches itself"):
        adapter(make_images(6))
