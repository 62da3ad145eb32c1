"""What a caller has switched on around an adapter does not reach it."""

import contextlib

import numpy as np
import pytest
import torch

from multipool.engine.modes import own_modes
from multipool.methods import METHODS, adapt
from multipool.testing import source_batches


@contextlib.contextmanager
def switched_on():
    """Compute in bfloat16, make float64 tensors unless told otherwise."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu", torch.bfloat16):
            yield
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("method", METHODS)
def test_answers_are_the_same_under_autocast_and_another_default_dtype(
    method, make_net, make_images
):
    source, batches = source_batches(), [make_images(40, seed=t) for t in range(2)]
    model = make_net()

    def answers():
        adapter = adapt(model, method, source=source, guard=False)
        return [*map(adapter, batches), adapter.predict(batches[0])]

    expected = answers()
    with switched_on():
        found = answers()
    for one, other in zip(expected, found, strict=True):
        assert other.dtype == torch.float32
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", ["rotta", "cotta", "adacontrast", "multipool"])
def test_updates_do_not_fail_where_numpy_raises(method, make_net, make_images):
    batches = [make_images(64, seed=t) for t in range(2)]
    expected = [*map(adapt(make_net(), method), batches)]
    with np.errstate(all="raise"):
        adapter = adapt(make_net(), method)
        found = [*map(adapter, batches)]
    assert adapter.counts["skipped"] == 0
    assert all(map(torch.equal, expected, found))


def test_what_was_on_is_on_again_afterwards():
    device = torch.device("cpu")
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        with own_modes(device):
            assert not torch.is_inference_mode_enabled()
            assert not torch.is_autocast_enabled("cpu")
        assert torch.is_inference_mode_enabled()
        assert torch.is_autocast_enabled("cpu")


def test_a_device_without_autocast_is_no_matter():
    with own_modes(torch.device("meta")):
        assert not torch.is_inference_mode_enabled()
