"""Source images come in many forms, and all of them are the same images."""

from __future__ import annotations

import pytest
import torch

from multipool.core import ImageSet, batches, is_pair

IMAGES = torch.arange(6 * 3 * 2 * 2, dtype=torch.uint8).view(6, 3, 2, 2)
LABELS = torch.arange(6)


@pytest.mark.parametrize(
    "source",
    [
        IMAGES,
        ImageSet(IMAGES, LABELS),
        (IMAGES, LABELS),
        (IMAGES.numpy(), LABELS.numpy()),
        [IMAGES[:4], IMAGES[4:]],
        [(IMAGES[:4], LABELS[:4]), (IMAGES[4:], LABELS[4:])],
        ((IMAGES[:3], LABELS[:3]), (IMAGES[3:], LABELS[3:])),
        iter([[IMAGES, LABELS]]),
    ],
)
def test_every_form_gives_the_images_in_order(source):
    assert torch.equal(torch.cat(list(batches(source))), IMAGES)


def test_a_tensor_comes_in_batches_that_fit():
    assert [len(part) for part in batches(torch.zeros(600, 1, 1, 1))] == [250, 250, 100]


def test_two_batches_are_no_pair_of_arrays():
    assert is_pair((IMAGES, LABELS))
    assert not is_pair(((IMAGES, LABELS), (IMAGES, LABELS)))
    assert not is_pair((IMAGES, LABELS[:2]))


def test_what_is_no_source_is_refused():
    with pytest.raises(ValueError, match="^source must be an iterable of"):
        next(batches(3))
