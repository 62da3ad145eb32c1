"""Contract of every entry of the table: type, shape, determinism, errors, memory."""

import importlib

import numpy as np
import pytest
import torch

from multipool.data.corruptions import COMMON, CORRUPTIONS, EXTRA, PARAMETER_SETS, corrupt
from multipool.data.corruptions.parameters import nearest_set

ALL = list(CORRUPTIONS)


@pytest.fixture(scope="module")
def images(draw):
    return draw(12, 32)


def test_the_common_ones_come_in_the_order_of_the_paper():
    assert (
        *("motion_blur", "snow", "fog", "shot_noise", "defocus_blur", "contrast", "zoom_blur"),
        *("brightness", "frost", "elastic_transform", "glass_blur", "gaussian_noise"),
        *("pixelate", "jpeg_compression", "impulse_noise"),
    ) == COMMON
    assert EXTRA == ("speckle_noise", "gaussian_blur", "spatter", "saturate")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("shape", [(2, 32, 32, 3), (2, 64, 64, 3), (1, 224, 224, 3), (3, 9, 14, 1)])
def test_any_size_and_grey_images_keep_type_and_shape(name, shape):
    given = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    before = given.copy()
    out = corrupt(given, name, 3)
    assert isinstance(out, np.ndarray)
    assert out.dtype == np.uint8
    assert out.shape == shape
    assert np.array_equal(given, before), "the given images were changed"


@pytest.mark.parametrize("name", ALL)
def test_a_tensor_comes_back_as_a_tensor_with_the_same_bytes(name, images):
    out = corrupt(torch.from_numpy(images), name)
    assert isinstance(out, torch.Tensor)
    assert np.array_equal(out.numpy(), corrupt(images, name))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("severity", [1, 5])
def test_every_severity_changes_the_images_and_the_same_seed_repeats_it(name, severity, images):
    out = corrupt(images, name, severity, seed=3)
    assert not np.array_equal(out, images)
    assert np.array_equal(out, corrupt(images, name, severity, seed=3))


@pytest.mark.parametrize("name", ALL)
def test_an_image_does_not_depend_on_the_cutting_of_the_batch(name, images, monkeypatch):
    whole = corrupt(images, name)
    assert np.array_equal(corrupt(images[:5], name), whole[:5])
    module = importlib.import_module(corrupt.__module__)
    monkeypatch.setitem(module._CHUNK, "cpu", 32 * 32 * 5)  # chunks of 5, 5 and 2
    assert np.array_equal(corrupt(images, name), whole)


@pytest.mark.parametrize("name", ALL)
def test_one_channel_and_odd_sizes_do_not_depend_on_the_cutting_either(name):
    images = np.random.default_rng(1).integers(0, 256, (4, 9, 11, 1), dtype=np.uint8)
    assert np.array_equal(corrupt(images[:3], name, 2), corrupt(images, name, 2)[:3])


RANDOM = [n for n in ALL if n not in {
    "defocus_blur", "contrast", "zoom_blur", "brightness", "pixelate", "jpeg_compression",
    "gaussian_blur", "saturate",
}]  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_the_seed_matters_exactly_for_the_random_ones(name, images):
    same = np.array_equal(corrupt(images, name, seed=0), corrupt(images, name, seed=1))
    assert same == (name not in RANDOM)


@pytest.mark.parametrize("name", RANDOM)
def test_two_copies_of_an_image_are_corrupted_differently(name, images):
    out = corrupt(np.repeat(images[:1], 4, axis=0), name)
    assert len({image.tobytes() for image in out}) > 1


@pytest.mark.parametrize("name", ["gaussian_noise", "contrast", "pixelate", "defocus_blur"])
def test_a_higher_severity_moves_the_image_further(name, images):
    moved = [np.abs(corrupt(images, name, s).astype(float) - images).mean() for s in range(1, 6)]
    assert moved == sorted(moved)


def test_an_empty_batch_stays_empty():
    assert corrupt(np.empty((0, 32, 32, 3), dtype=np.uint8), "fog").shape == (0, 32, 32, 3)


def test_global_random_state_is_neither_read_nor_changed(images):
    np.random.seed(0)
    torch.manual_seed(0)
    state, other = np.random.get_state()[1].copy(), torch.get_rng_state()
    first = corrupt(images, "snow")
    assert np.array_equal(np.random.get_state()[1], state)
    assert torch.equal(torch.get_rng_state(), other)
    np.random.seed(9)
    torch.manual_seed(9)
    assert np.array_equal(corrupt(images, "snow"), first)


@pytest.mark.parametrize(
    ("side", "chosen"), [(8, 32), (32, 32), (45, 32), (46, 64), (64, 64), (119, 64), (120, 224),
                         (224, 224), (500, 224)]
)  # fmt: skip
def test_the_nearest_set_serves_other_sizes(side, chosen):
    assert nearest_set(PARAMETER_SETS, side, side + 30).size == chosen


def test_a_parameter_set_can_be_forced(images):
    usual = corrupt(images, "contrast", 5)
    assert np.array_equal(corrupt(images, "contrast", 5, parameters="cifar-c"), usual)
    assert corrupt(images, "contrast", 5, parameters="imagenet-c").std() < usual.std()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: corrupt(x, "frots"), "did you mean 'frost'"),
        (lambda x: corrupt(x, "fog", 0), "severity must be 1 to 5, got 0"),
        (lambda x: corrupt(x, "fog", 5.0), "severity must be 1 to 5, got 5.0"),
        (lambda x: corrupt(x, "fog", seed=-1), "seed must not be negative, got -1"),
        (lambda x: corrupt(x, "fog", seed="a"), "seed must be a whole number .* got 'a'"),
        (lambda x: corrupt(x / 255, "fog"), "must be uint8, got float64"),
        (lambda x: corrupt(torch.zeros(1, 32, 32, 3), "fog"), "must be uint8, got float32"),
        (lambda x: corrupt(x[0], "fog"), r"got \(32, 32, 3\)"),
        (lambda x: corrupt(x.transpose(0, 3, 1, 2), "fog"), r"got \(12, 3, 32, 32\)"),
        (lambda x: corrupt(x[:, :7], "fog"), "at least 8 px a side, got 7 x 32"),
        (lambda x: corrupt([1], "fog"), "array or a tensor, got list"),
        (lambda x: corrupt(x, "fog", parameters="cifar"), "unknown parameter set 'cifar'"),
    ],
)
def test_a_wrong_call_is_answered_with_a_sentence(call, words, images):
    with pytest.raises(ValueError, match=words):
        call(images)


def test_an_array_that_cannot_be_written_to_is_read_without_a_word(recwarn):
    images = np.arange(2 * 16 * 16 * 3, dtype=np.uint8).reshape(2, 16, 16, 3)
    wanted = corrupt(images, "contrast")
    images.flags.writeable = False
    assert np.array_equal(corrupt(images, "contrast"), wanted)
    assert len(recwarn) == 0
