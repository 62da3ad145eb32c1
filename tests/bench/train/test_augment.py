"""Augmentations for training: what may change and what may not."""

from __future__ import annotations

import math

import pytest
import torch

from multipool.bench.train import augment
from multipool.bench.train.augment import augmix, crop_and_flip, jitter, randaugment
from multipool.core import torch_generator


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def some_images(count=6, side=12):
    return torch.rand(count, 3, side, side, generator=seeded(3))


def test_no_padding_and_no_flip_is_the_image_itself():
    images = (some_images() * 255).to(torch.uint8)
    assert torch.equal(crop_and_flip(images, seeded(), 0, flip=False), images)


def test_every_crop_is_a_window_of_the_mirrored_border_perhaps_flipped():
    images = some_images(40, 6)
    out = crop_and_flip(images, seeded(), 2, flip=True)
    padded = torch.nn.functional.pad(images, (2, 2, 2, 2), mode="reflect")
    windows = padded.unfold(2, 6, 1).unfold(3, 6, 1)  # (B, 3, 5, 5, 6, 6)
    windows = windows.permute(0, 2, 3, 1, 4, 5).flatten(1, 2)  # (B, 25, 3, 6, 6)
    windows = torch.cat([windows, windows.flip(-1)], dim=1)
    found = (windows == out.unsqueeze(1)).flatten(2).all(dim=2)
    assert found.any(dim=1).all()
    assert found.any(dim=0).sum() > 20  # of 50 places in 40 draws


def test_the_seed_decides_the_augmentation():
    images = some_images()
    assert torch.equal(augmix(images, seeded(1)), augmix(images, seeded(1)))
    assert not torch.equal(augmix(images, seeded(1)), augmix(images, seeded(2)))


def test_augmix_stays_in_range_keeps_its_input_and_changes_moderately():
    images = some_images(64, 16)
    before = images.clone()
    mixed = augmix(images, seeded())
    assert torch.equal(images, before)
    assert mixed.min() >= -1e-6
    assert mixed.max() <= 1 + 1e-6
    change = (mixed - images).abs().flatten(1).mean(dim=1)
    assert 0.01 < change.mean() < 0.3


def test_a_rotation_by_the_affine_matrix_turns_by_its_degrees():
    theta = augment._affine(
        torch.tensor([augment._ROTATE]), torch.tensor([2.0]), torch.tensor([1.0]), 32
    )
    six = math.radians(6)  # int(2.0 * 30 / 10)
    expected = [[math.cos(six), -math.sin(six), 0.0], [math.sin(six), math.cos(six), 0.0]]
    assert theta[0].tolist() == [pytest.approx(row, abs=1e-6) for row in expected]


def test_a_shift_moves_whole_pixels():
    images = some_images(1, 32)
    level = torch.tensor([2.9])  # int(2.9 * 32 / 3 / 10) = 3 pixels
    out = augment._apply(images, torch.tensor([augment._SHIFT_X]), level, torch.tensor([1.0]))
    assert torch.allclose(out[..., :29], images[..., 3:], atol=1e-5)


def test_equalize_agrees_with_pillow():
    from PIL import Image, ImageOps

    pixels = (some_images(1, 32) ** 3 * 255).to(torch.uint8)
    ours = augment._equalize(pixels.float() / 255) * 255
    picture = Image.fromarray(pixels[0].permute(1, 2, 0).numpy())
    theirs = torch.tensor(list(ImageOps.equalize(picture).tobytes())).view(32, 32, 3)
    assert (ours[0].permute(1, 2, 0) - theirs).abs().max() < 0.01


def test_tones_agree_with_pillow():
    from PIL import Image, ImageOps

    pixels = (some_images(1, 16) * 0.7 * 255).to(torch.uint8)
    picture = Image.fromarray(pixels[0].permute(1, 2, 0).numpy())
    one = torch.full((1, 1, 1, 1), 2.6)
    for code, reference in (
        (augment._AUTOCONTRAST, ImageOps.autocontrast(picture)),
        (augment._POSTERIZE, ImageOps.posterize(picture, 4 - 1)),  # int(2.6 * 4 / 10) = 1
        (augment._SOLARIZE, ImageOps.solarize(picture, 256 - 66)),  # int(2.6 * 256 / 10) = 66
    ):
        ours = augment._tone(pixels.float() / 255, code, one)[0].permute(1, 2, 0) * 255
        theirs = torch.tensor(list(reference.tobytes())).view(16, 16, 3)
        assert (ours - theirs).abs().max() <= 1.01, code


def test_jitter_scales_contrast_about_the_mean_and_shifts_it():
    grey = torch.full((400, 3, 8, 8), 0.5)
    out = jitter(grey, torch_generator(0))
    shifts = out.mean(dim=(1, 2, 3)) - 0.5
    assert -0.21 < shifts.min() < -0.15
    assert 0.15 < shifts.max() < 0.21
    grain = out.flatten(1).std(dim=1)
    assert grain.min() < 0.005
    assert 0.06 < grain.max() < 0.085
    ramp = torch.linspace(0.4, 0.6, 64).view(1, 1, 8, 8).expand(400, 3, -1, -1)
    spread = jitter(ramp, torch_generator(1)).flatten(1)
    slope = ((spread - spread.mean(1, keepdim=True)) * (ramp.flatten(1) - 0.5)).sum(1)
    slope = slope / (ramp[0].flatten() - 0.5).square().sum()
    assert 0.5 < slope.mean() < 0.9, "contrast is scaled by 0.1 to 1.3, 0.7 in the mean"


def test_jitter_stays_in_range_and_follows_its_generator():
    images = torch.rand(16, 3, 8, 8)
    one, other = jitter(images, torch_generator(3)), jitter(images, torch_generator(3))
    assert torch.equal(one, other)
    assert one.min() >= 0
    assert one.max() <= 1


def test_randaugment_changes_most_images_and_stays_in_range():
    images = some_images(40)
    out = randaugment(images, seeded())
    assert out.shape == images.shape
    assert 0 <= float(out.min()) <= float(out.max()) <= 1 + 1e-6
    assert (out != images).flatten(1).any(dim=1).sum() > 25
    assert torch.equal(out, randaugment(images, seeded()))
    assert not torch.equal(out, randaugment(images, seeded(1)))
