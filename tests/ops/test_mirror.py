"""The mirrored view, pixel by pixel."""

import pytest
import torch

from multipool.ops.mirror import mirrored


@pytest.mark.parametrize(("height", "width"), [(8, 8), (32, 32), (64, 96), (224, 160), (1, 5)])
def test_each_pixel_is_the_one_across_the_middle_and_a_little_up_and_left(height, width):
    x = torch.rand(2, 3, height, width)
    down, right = round(height / 32), round(width / 32)
    view = mirrored(x)
    assert view.shape == x.shape
    for i, j in [(0, 0), (height - 1, width - 1), (height // 2, width // 3), (0, width - 1)]:
        column = width - 1 - abs(j - right)  # beyond the border the view is reflected
        assert torch.equal(view[:, :, i, j], x[:, :, abs(i - down), column])


def test_small_images_are_only_turned_and_the_view_is_undone_by_itself():
    x = torch.rand(1, 3, 8, 8)
    assert torch.equal(mirrored(x), x.flip(3))
    assert torch.equal(mirrored(mirrored(x)), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_type_stays(dtype):
    assert mirrored(torch.rand(1, 3, 32, 32).to(dtype)).dtype == dtype
