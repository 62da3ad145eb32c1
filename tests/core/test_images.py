"""The door: what counts as a batch of images, and what is said otherwise."""

import pytest
import torch

from multipool.core import ImageSet, as_float, check_images, check_range

GOOD = torch.rand(2, 3, 4, 4)
BAD = [
    ([1, 2], "must be a torch.Tensor, got list"),
    (GOOD[0], r"must have shape \(B, C, H, W\), got \(3, 4, 4\)"),
    (GOOD[:0], "at least one image, got an empty batch"),
    (GOOD[..., :0], "at least one pixel"),
    (GOOD.long(), "must be float in .* or uint8, got torch.int64"),
    (GOOD + 1, r"must lie in \[0, 1\], got values from 1"),
    (GOOD - 1, r"must lie in \[0, 1\], got values from -"),
    (GOOD.index_fill(3, torch.tensor(1), float("nan")), "got NaN"),
    (GOOD.index_fill(3, torch.tensor(1), float("inf")), "to inf"),
]


@pytest.mark.parametrize(("images", "sentence"), BAD)
def test_what_is_no_batch_of_images_is_refused_in_a_sentence(images, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_images(images)


def test_float_and_bytes_pass_as_they_are():
    for images in (GOOD, GOOD.half(), (GOOD * 255).byte()):
        assert check_images(images, channels=3) is images


def test_the_number_of_channels_is_checked_if_asked():
    with pytest.raises(ValueError, match="must have 1 channels, got 3"):
        check_images(GOOD, channels=1)


def test_the_limits_themselves_are_in_range():
    check_range(0.0, 1.0)
    with pytest.raises(ValueError, match="got NaN"):
        check_range(float("nan"), 1.0)


def test_bytes_become_the_floats_they_came_from():
    levels = torch.arange(256, dtype=torch.uint8)
    assert torch.equal((as_float(levels) * 255).round().byte(), levels)
    assert as_float(GOOD) is GOOD


def test_an_image_set_has_as_many_labels_as_images():
    images = torch.zeros(3, 1, 2, 2, dtype=torch.uint8)
    some = ImageSet(images, torch.arange(3), "fog").take(torch.tensor([2, 0]))
    assert some.labels.tolist() == [2, 0]
    assert (len(some), some.domain) == (2, "fog")
    with pytest.raises(ValueError, match="same length, got 3 and 2"):
        ImageSet(images, torch.arange(2))
