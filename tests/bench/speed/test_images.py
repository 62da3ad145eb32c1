from __future__ import annotations

import pytest
import torch

from multipool.bench.speed.images import in_lights, model_and_grain


def test_grain_is_bytes_in_many_colours_and_the_model_comes_along():
    model, images = model_and_grain("shapes-wrn10-1", 16)
    assert images.shape == (1000, 3, 16, 16)
    assert images.dtype == torch.uint8
    assert images.float().mean(dim=(2, 3)).std() > 30
    alike = model_and_grain("shapes-wrn10-1", 16, colours=16)[1]
    assert 3 < alike.float().mean(dim=(2, 3)).std() < 6
    assert sum(p.numel() for p in model.parameters()) > 10_000
    with pytest.raises(ValueError, match="pixels must be at least 8, got 4"):
        model_and_grain("shapes-wrn10-1", 4)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_batches_in_one_light_look_alike_and_the_next_ones_do_not(dtype):
    images = torch.arange(12.0).reshape(1, 3, 2, 2)
    images = (images * 20).to(dtype) if dtype == torch.uint8 else images / 12
    found = in_lights([images] * 5, 2, seed=0)
    assert len(found) == 5
    assert {each.dtype for each in found} == {dtype}
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[2], found[3])
    one = 255 if dtype == torch.uint8 else 1
    shifts = [(each.double() - images.double() / 2) / one for each in found]
    assert all(float(shift.min()) > -0.01 and float(shift.max()) < 0.51 for shift in shifts)
    assert float((shifts[0] - shifts[2]).abs().max()) > 0.05
    assert float((shifts[2] - shifts[4]).abs().max()) > 0.05


def test_without_lights_batches_stay_as_they_are():
    batches = [torch.rand(2, 3, 4, 4)]
    assert in_lights(batches, 0, seed=0) is batches
