"""Mixed training images: each is what its share says, and the loss pays for both labels."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from multipool.bench.train.mix import mix, mixed_loss


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def flat_images(count=6, side=8):
    """Images of one grey each, so that a share can be read from the mean."""
    return torch.arange(count, dtype=torch.float32).view(-1, 1, 1, 1).expand(-1, 3, side, side)


def test_no_chance_leaves_the_batch_and_the_plain_loss():
    images = flat_images()
    mixed = mix(images, seeded(0), 0.0)
    logits, labels = torch.rand(6, 4, generator=seeded(1)), torch.arange(6) % 4
    assert mixed.images is images
    assert mixed.partners is None
    loss = mixed_loss(logits, labels, labels, torch.tensor(mixed.share))
    assert torch.equal(loss, F.cross_entropy(logits, labels))


@pytest.mark.parametrize("seed", range(12))
def test_every_image_is_its_share_of_itself_and_the_rest_of_its_partner(seed):
    images = flat_images()
    mixed = mix(images, seeded(seed), 1.0)
    expected = mixed.share * images + (1 - mixed.share) * images[mixed.partners]
    assert torch.allclose(mixed.images.mean(dim=(1, 2, 3)), expected.mean(dim=(1, 2, 3)))


def test_both_kinds_occur_and_cutmix_replaces_a_rectangle():
    kinds = set()
    for seed in range(20):
        images = torch.rand(4, 3, 8, 8, generator=seeded(99))
        mixed = mix(images, seeded(seed), 1.0)
        moved = (mixed.partners != torch.arange(4)).nonzero().flatten()
        if not len(moved):
            continue
        row = int(moved[0])
        from_partner = (mixed.images[row] == images[mixed.partners[row]]).all(dim=0)
        kept = (mixed.images[row] == images[row]).all(dim=0)
        if (from_partner | kept).all():
            kinds.add("cut")
            rows, columns = from_partner.any(dim=1).sum(), from_partner.any(dim=0).sum()
            assert from_partner.sum() == rows * columns  # one rectangle
        else:
            kinds.add("blend")
    assert kinds == {"cut", "blend"}


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_the_loss_is_that_of_soft_labels(share):
    logits, labels = torch.rand(4, 3, generator=seeded(0)), torch.tensor([0, 1, 2, 0])
    others = labels[torch.tensor([1, 2, 3, 0])]
    loss = mixed_loss(logits, labels, others, torch.tensor(share))
    soft = share * F.one_hot(labels, 3) + (1 - share) * F.one_hot(others, 3)
    assert torch.allclose(loss, F.cross_entropy(logits, soft))
