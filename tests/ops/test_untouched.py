"""The copy of a model stays as it came, whatever its forward writes."""

import copy
import threading
import warnings

import pytest
import torch
from torch import nn

import multipool
from multipool.ops import Network
from multipool.ops.copies import frozen_copy
from multipool.testing import random_images, tiny_net


class Writing(nn.Module):
    """Subtracts from its input in place and counts its calls, once in place and once anew."""

    def __init__(self):
        super().__init__()
        self.net = tiny_net()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("more", torch.zeros(()))

    def forward(self, images):
        self.calls += 1
        self.more = self.more + 1
        return self.net(images.sub_(0.1)) + self.calls * self.more


def test_a_model_that_writes_into_its_images_and_buffers_answers_the_same_every_time():
    images = random_images(8)
    network, given = Network(Writing(), num_classes=5), images.clone()
    wanted = tiny_net()(images - 0.1) + 1
    for _ in range(3):
        torch.testing.assert_close(network.plain(given), wanted)
    assert torch.equal(given, images)
    assert torch.equal(copy.deepcopy(network).plain(given), network.twin().plain(given))


@pytest.mark.parametrize("method", ["multipool", "tent", "cotta", "rotta", "bn"])
def test_with_such_a_model_a_saved_adapter_goes_on_and_images_stay(tmp_path, method):
    adapter, images = multipool.adapt(Writing(), method), random_images(16)
    given = images.clone()
    adapter(given)
    adapter.save(tmp_path / "state")
    again = multipool.load(tmp_path / "state", Writing())
    assert torch.equal(adapter(given), again(given))
    assert torch.equal(given, images)
    adapter.reset()
    assert torch.equal(adapter(given), multipool.adapt(Writing(), method)(given))


def test_a_model_that_only_reads_gets_the_images_themselves_after_one_pass():
    network, images, seen = Network(tiny_net(), num_classes=5), random_images(4), []
    network.body.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    network.plain(images)
    network.plain(images)
    assert [part is images for part in seen] == [False, True]


def test_a_computed_weight_is_copied():
    net = tiny_net()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own: there is a newer one
        net.fc = torch.nn.utils.weight_norm(net.fc)
    images = random_images(4)
    torch.testing.assert_close(Network(net, num_classes=5).plain(images), net(images))
    adapter = multipool.adapt(net, "cotta")
    adapter(images)
    assert adapter(images).isfinite().all()


def test_a_model_behind_torch_compile_is_the_model():
    wrapped = nn.Module()
    wrapped._orig_mod = tiny_net()
    assert type(frozen_copy(wrapped)) is type(tiny_net())


def test_what_cannot_be_copied_is_a_sentence():
    with pytest.raises(ValueError, match=r"on the meta device, .*; load them first"):
        multipool.adapt(tiny_net().to("meta"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lazy = nn.Sequential(nn.Flatten(), nn.LazyLinear(5))
    with pytest.raises(ValueError, match=r"lazy layers .*; call it on images once"):
        multipool.adapt(lazy, num_classes=5)
    net = tiny_net()
    net.lock = threading.Lock()
    with pytest.raises(ValueError, match=r"cannot be copied \(cannot pickle .*; take out"):
        multipool.adapt(net)


def test_a_head_for_another_task_that_comes_later_is_not_taken_for_the_classifier():
    net = tiny_net()
    net.rotation = nn.Linear(8, 4)
    images = random_images(16)
    plain = multipool.adapt(tiny_net(), "lame")(images)
    assert torch.equal(multipool.adapt(net, "lame", num_classes=5)(images), plain)
    with pytest.raises(ValueError, match="gives 5 logits an image, num_classes is 4"):
        multipool.adapt(net, "lame")(images)
