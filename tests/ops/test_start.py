"""The first convolution is computed once for two passes over an image, and changes no bit."""

import copy
import pickle

import pytest
import torch
from torch import nn

from multipool.ops import Network
from multipool.ops.start import FirstConvolution, first_convolution


@pytest.fixture
def network(tiny_net):
    return Network(tiny_net)


@pytest.fixture
def calls(monkeypatch):
    """Return a list that grows by the input of every first convolution that is computed."""
    seen, forward = [], nn.Conv2d.forward

    def counting(self, x):
        if isinstance(self, FirstConvolution):
            seen.append(x)
        return forward(self, x)

    monkeypatch.setattr(nn.Conv2d, "forward", counting)
    return seen


@torch.no_grad()
def test_the_pass_after_a_partial_one_shares_the_first_convolution(
    network, tiny_net, make_images, calls
):
    x, other = make_images(1), make_images(1, seed=1)
    alone = Network(tiny_net)
    expected = alone.plain(x), alone.plain(other)
    calls.clear()
    network.before_norm(x, 1)
    assert torch.equal(network.plain(x), expected[0])
    assert len(calls) == 1
    assert torch.equal(network.plain(x), expected[0])  # kept for one pass only
    assert len(calls) == 2
    network.before_norm(x, 1)
    assert torch.equal(network.plain(other), expected[1])
    assert len(calls) == 4


@torch.no_grad()
def test_what_somebody_changed_in_place_is_computed_again(network, make_images, calls):
    x = make_images(1)
    expected = network.plain(x)
    network.before_norm(x, 1)
    network._start[0].kept.out.add_(1)
    assert torch.equal(network.plain(x), expected)
    assert len(calls) == 3


def test_nothing_is_kept_with_gradients_or_of_large_batches(network, make_images, monkeypatch):
    network.before_norm(make_images(1), 1)
    assert network._start[0].kept is None
    monkeypatch.setattr("multipool.ops.start._SMALL", 100)
    with torch.no_grad():
        network.before_norm(make_images(64), 1)
    assert network._start[0].kept is None


@torch.no_grad()
def test_copies_do_not_take_along_what_a_pass_left(network, make_images):
    x = make_images(1)
    network.before_norm(x, 1)
    for twin in (copy.deepcopy(network), pickle.loads(pickle.dumps(network)), network.twin()):
        assert twin._start[0].kept is None
        assert twin._start[0] is not network._start[0]
        assert torch.equal(twin.plain(x), network.plain(x))
    assert network.state_dict().keys() == twin.state_dict().keys()
    assert not any("_start" in name for name in network.state_dict())


def test_a_kind_of_convolution_of_its_own_is_left_alone():
    class Own(nn.Conv2d):
        pass

    assert first_convolution(nn.Sequential(Own(3, 4, 3), nn.Conv2d(4, 4, 3))) == []
    assert first_convolution(nn.Sequential(nn.Linear(2, 2))) == []
