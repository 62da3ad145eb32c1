"""Which layers a model runs, and what they are given."""

import pytest
import torch

from multipool.ops import Network
from multipool.ops.until import NotRunError
from odd_nets import make_odd_net


def test_layers_that_never_run_are_told_from_those_that_do(make_images):
    network = Network(make_odd_net("spare"))
    assert network.layers_run(make_images(1)) == [0, 3]
    with pytest.raises(NotRunError, match="has normalisation layer 1 but never runs it"):
        network.before_norm(make_images(2), 1)


def test_what_comes_before_a_layer_is_what_the_model_gives_it(make_images):
    model, x = make_odd_net("spare"), make_images(4)
    found = Network(model).before_norm(x, 3)
    wanted = model.conv2(torch.relu(model.norms1[0](model.conv1(x))))
    torch.testing.assert_close(found, wanted)
