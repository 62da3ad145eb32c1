"""What counts as a normalisation layer: by class where the class is known, else by behaviour."""

import pytest
import torch
from torch import nn

from kinds import NORMS, ChannelFirst, Frozen, NormAct, OwnRMS
from multipool.ops.norms import BY_BATCH, OfItsOwn, WithStatistics, examine

INSTANCE = ("InstanceNorm", ["weight", "bias"])


@pytest.mark.parametrize(
    ("layer", "kind", "names"),
    [
        (nn.LayerNorm(4), "LayerNorm", ["weight", "bias"]),
        (nn.LayerNorm([4, 3, 3], bias=False), "LayerNorm", ["weight"]),
        (nn.GroupNorm(2, 4), "GroupNorm", ["weight", "bias"]),
        (nn.InstanceNorm2d(4, affine=True), *INSTANCE),
        (nn.InstanceNorm1d(4, affine=True, track_running_stats=True), *INSTANCE),
        (nn.RMSNorm(4), "RMSNorm", ["weight"]),
        (ChannelFirst(4), "LayerNorm", ["weight", "bias"]),
        (OwnRMS(4), "RMSNorm", ["scale"]),
    ],
)  # fmt: skip
def test_layers_without_statistics_are_found_with_their_parameters(layer, kind, names):
    assert examine(layer) == OfItsOwn(kind, names)


class Scaled(nn.Module):
    """Multiplies by a number a channel: no normalisation, though it looks like one."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * self.weight


class Constant(Scaled):
    def forward(self, x):
        return torch.zeros_like(x) + self.weight


@pytest.mark.parametrize(
    "layer",
    [
        *(Scaled(), Constant(), nn.PReLU(4), nn.Linear(4, 1), nn.Linear(1, 4), nn.Conv2d(4, 4, 1)),
        *(nn.LayerNorm(4, elementwise_affine=False), nn.GroupNorm(2, 4, affine=False)),
        *(nn.InstanceNorm2d(4), nn.Embedding(4, 4), nn.ReLU(), nn.Sequential(nn.LayerNorm(4))),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_what_has_no_weights_or_does_not_normalise_is_left_alone(layer):
    assert examine(layer) is None


def test_a_probe_leaves_no_trace():
    layer = ChannelFirst(4)
    with torch.no_grad():
        layer.weight.uniform_()
    before, state = layer.weight, torch.get_rng_state()
    examine(layer)
    assert layer.weight is before
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "layer",
    [
        *(nn.BatchNorm1d(4), nn.BatchNorm2d(4, affine=False), nn.BatchNorm3d(4)),
        *(nn.SyncBatchNorm(4), Frozen(4)),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_every_batchnorm_has_statistics_and_nothing_else(layer):
    found = examine(layer.eval())
    assert isinstance(found, WithStatistics)
    assert found.after == ()
    assert torch.equal(found.state.var, layer.running_var)


def test_a_batchnorm_with_its_activation_inside_keeps_the_activation():
    layer = NORMS["norm-act"](4).eval()
    found = examine(layer)
    assert isinstance(found, WithStatistics)
    assert found.after == (layer.drop, layer.act)


def test_a_batchnorm_that_does_more_than_we_know_is_left_alone():
    class Doubled(nn.BatchNorm2d):
        def forward(self, x):
            return 2 * super().forward(x)

    assert examine(Doubled(4).eval()) is None
    assert isinstance(examine(NormAct(4).eval()), WithStatistics)


def test_a_batchnorm_without_statistics_is_a_layer_of_its_own():
    found = examine(nn.BatchNorm2d(4, track_running_stats=False))
    assert found == OfItsOwn(BY_BATCH, ["weight", "bias"])
    assert examine(nn.BatchNorm2d(4, affine=False, track_running_stats=False)) is None
