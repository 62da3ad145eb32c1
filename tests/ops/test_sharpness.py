"""Where the worst place nearby is, and which layers are the top."""

import pytest
import torch
from torch import nn

from multipool.ops import Network
from multipool.ops.sharpness import below_the_top, climbed


def test_the_way_up_has_the_length_of_the_radius_and_the_direction_of_the_gradient():
    values, gradient = torch.randn(9), torch.randn(9)
    before = values.clone()
    with climbed(values, gradient, 0.05):
        way = values - before
        assert float(way.norm()) == pytest.approx(0.05, rel=1e-4)
        assert float(torch.cosine_similarity(way, gradient, dim=0)) == pytest.approx(1.0)
    assert torch.equal(values, before)


def test_a_flat_place_is_its_own_worst():
    values = torch.ones(3)
    with climbed(values, torch.zeros(3), 0.05):
        assert torch.equal(values, torch.ones(3))


def test_what_fails_up_there_comes_down_again():
    values = torch.ones(3)
    with pytest.raises(RuntimeError, match="no air"), climbed(values, torch.ones(3), 1.0):
        raise RuntimeError("no air")
    assert torch.equal(values, torch.ones(3))


def named(names):
    """Return a network of BatchNorm layers with these names, each one channel wide."""
    net = nn.Sequential()
    for name in names:
        place = net
        *folders, last = name.split(".")
        for folder in folders:
            if not hasattr(place, folder):
                place.add_module(folder, nn.Sequential())
            place = getattr(place, folder)
        place.add_module(last, nn.BatchNorm2d(1))
    return Network(net)


@pytest.mark.parametrize(
    ("names", "trained"),
    [
        (("bn1", "layer1.0.bn1", "layer4.0.bn1", "layer4.2.bn3"), (1, 1, 0, 0)),
        (("blocks.8.norm1", "blocks.9.norm1", "blocks.11.norm2", "norm"), (1, 0, 0, 0)),
        (("model.blocks.0.norm1", "model.blocks.10.norm1", "model.norm"), (1, 0, 0)),
        (("patch_embed.norm", "block1.bn", "bn1"), (1, 1, 1)),
        (("layer4.0.bn1", "layer4.1.bn1"), (1, 1)),  # nothing else would be left
    ],
)
def test_the_top_goes_by_the_names_of_the_released_codes(names, trained):
    network = named(names)
    found = below_the_top(network, network.source.sizes)
    assert found.tolist() == [float(t) for t in trained for _ in ("weight", "bias")]
