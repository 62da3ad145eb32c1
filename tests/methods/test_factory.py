"""Classes in place of names: methods and memories from anywhere."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from multipool.engine import Method, Prediction
from multipool.memory import FifoPool
from multipool.methods import adapt, load
from multipool.methods.rotta import RoTTA
from multipool.methods.tent import TENT
from multipool.testing import random_images, source_batches, tiny_net


@dataclass(frozen=True)
class ScaledConfig:
    scale: float = 2.0


class Scaled(Method):
    """The source model's logits times a number."""

    name = "scaled"
    Config = ScaledConfig

    def predict(self, images):
        return Prediction(self.network.plain(images) * self.config.scale)


def test_a_class_is_as_good_as_a_name(make_net, make_images):
    one, other = adapt(make_net(), RoTTA, FifoPool), adapt(make_net(), "rotta", "fifo")
    for t in range(3):
        assert torch.equal(one(make_images(64, seed=t)), other(make_images(64, seed=t)))


def test_a_class_of_no_name_takes_options_and_is_saved_and_loaded(make_net, make_images, tmp_path):
    adapter = adapt(make_net(), Scaled, options={"scale": 3})
    x = make_images(4)
    torch.testing.assert_close(adapter(x), make_net()(x).detach() * 3)
    adapter.save(tmp_path / "state.safetensors")
    again = load(tmp_path / "state.safetensors", make_net(), method=Scaled)
    assert torch.equal(again(x), adapter(x))
    with pytest.raises(ValueError, match="unknown method 'scaled'"):
        load(tmp_path / "state.safetensors", make_net())
    with pytest.raises(ValueError, match="saved with method 'scaled', got class TENT"):
        load(tmp_path / "state.safetensors", make_net(), method=TENT)


def test_a_class_of_banks_takes_options_and_is_saved_and_loaded(make_net, make_images, tmp_path):
    adapter = adapt(make_net(), "rotta", FifoPool, memory_options={"capacity": 20})
    adapter(make_images(50))
    assert len(adapter.memory) == 20
    adapter.save(tmp_path / "state.safetensors")
    again = load(tmp_path / "state.safetensors", make_net(), memory=FifoPool)
    assert (again.memory.capacity, len(again.memory)) == (20, 20)
    x = make_images(50, seed=1)
    assert torch.equal(adapter(x), again(x))
    with pytest.raises(ValueError, match="pass memory= an empty one, or its class"):
        load(tmp_path / "state.safetensors", make_net())


def test_each_pool_of_multipool_has_a_bank_of_the_given_class(make_net, make_images):
    adapter = adapt(make_net(), "multipool", FifoPool)
    assert adapter(make_images(64)).shape == (64, 5)
    assert all(isinstance(bank.bank, FifoPool) for bank in adapter.method.banks().values())


def test_pools_of_multipool_take_a_bank_that_describes_images_by_features(make_net, make_images):
    adapter = adapt(make_net(), memory="mcm", memory_options={"descriptor": "feature"})
    adapter(make_images(40))
    with torch.no_grad():
        adapter.network.plain(make_images(40))
    centre = adapter.network.features().double().mean(dim=0)
    assert len(adapter.memory.clusters) == 1
    found = torch.as_tensor(adapter.memory.clusters.centroids[0]).double()
    torch.testing.assert_close(found, centre, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (dict(memory="mcn"), "unknown memory 'mcn'; did you mean 'mcm'.* reservoir, single$"),
        (dict(method=int), "a method must be a class over multipool.engine.Method, got class int"),
        (dict(method=Method), "method class Method must define predict"),
        (
            dict(method=type("Nameless", (Scaled,), {"name": None})),
            "method class Nameless must have a name",
        ),
        (
            dict(method=type("Bare", (Scaled,), {"Config": None})),
            "method class Bare must have a Config",
        ),
        (dict(method=type("Mine", (TENT,), {})), "class Mine calls itself 'tent', which is"),
        (dict(method="rotta", memory=int), "must take num_classes and seed"),
        (
            dict(method="rotta", memory=lambda num_classes, seed: 3),
            "memory must make a bank with add and retrieve, got int",
        ),
        (
            dict(method="rotta", memory=FifoPool(5), memory_options={"capacity": 3}),
            "memory_options go with a memory's name or class",
        ),
        (
            dict(method="rotta", memory=FifoPool, memory_options={"size": 3}),
            "unknown memory option 'size'",
        ),
        (dict(method="tent", memory=FifoPool), "method 'tent' has no memory"),
    ],
)
def test_what_is_no_method_or_memory_is_refused_in_a_sentence(make_net, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        adapt(make_net(), **arguments)


def test_numpys_numbers_are_numbers_also_in_a_file(tmp_path):
    adapter = adapt(
        tiny_net(),
        "rotta",
        "mcm",
        num_classes=np.int64(5),
        seed=np.int32(3),
        reset_every=np.int64(9),
        options={"lr": np.float64(0.5)},
        memory_options={"capacity": np.int16(8), "threshold": np.float64(0.25)},
    )
    adapter.save(tmp_path / "state")
    again = load(tmp_path / "state", tiny_net())
    assert again.setup == adapter.setup
    assert (again.setup.seed, again.config.lr, again.memory.options.threshold) == (3, 0.5, 0.25)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"guard": "no"}, "guard must be True or False, got 'no'"),
        ({"options": 3}, "options must be a dict from names to values, got 3"),
        ({"memory_options": [1]}, "memory_options must be a dict"),
        (
            {"method": "tent", "options": {"lr": float("nan")}},
            "option 'lr' of method 'tent' must be a number",
        ),
        ({"method": "rotta", "memory": "singel"}, "did you mean 'single'"),
        ({"method": "petta", "source": {}}, "source as a dict must hold the statistics"),
    ],
)
def test_arguments_of_another_kind_are_sentences(arguments, message):
    with pytest.raises(ValueError, match=message):
        adapt(tiny_net(), **arguments)


@pytest.mark.parametrize("name", ["petta", "eata", "rmt"])
def test_two_batches_in_a_tuple_are_batches_and_not_a_pair_of_arrays(name):
    listed, images = source_batches()[:2], random_images(8)
    pair = adapt(tiny_net(), name, source=tuple(listed))
    assert torch.equal(pair(images), adapt(tiny_net(), name, source=listed)(images))


def test_a_banks_name_does_not_stand_for_a_bank_of_ones_own(tmp_path):
    adapt(tiny_net(), "rotta", FifoPool(5)).save(tmp_path / "state")
    with pytest.raises(ValueError, match="saved with a bank of your own: pass memory="):
        load(tmp_path / "state", tiny_net(), memory="fifo")
