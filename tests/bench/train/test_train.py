"""Training: it learns, it resumes bit for bit, and a file says how it was made."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from multipool import models
from multipool.bench.train.recipe import SOURCES, Recipe, make_source
from multipool.bench.train.train import TrainConfig, error_percent, round_to_half, train
from multipool.core import ImageSet, read_tensors


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTIPOOL_CACHE", str(tmp_path / "cache"))


def tiny(seed=0):
    torch.manual_seed(seed)  # the test's own: plain torch layers draw from the global state
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 2),
    )


def bright_and_dark(count=64):
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(count) % 2
    base = torch.where(labels == 0, 40, 200).view(-1, 1, 1, 1)
    noise = torch.randint(-30, 30, (count, 3, 8, 8), generator=generator)
    return ImageSet((base + noise).to(torch.uint8), labels)


SMALL = TrainConfig(epochs=4, batch_size=16, lr=0.05, crop=1)


def weights(model):
    return torch.cat([value.flatten().float() for value in model.state_dict().values()])


def test_it_learns_an_easy_task():
    model = train(tiny(), bright_and_dark(), SMALL)
    assert error_percent(model, bright_and_dark()) == 0.0
    assert not model.training


def test_bfloat16_teaches_about_the_same_and_weights_stay_float32():
    plain, short = (
        train(tiny(), bright_and_dark(), replace(SMALL, precision=precision))
        for precision in ("float32", "bf16")
    )
    assert {p.dtype for p in short.parameters()} == {torch.float32}
    assert not torch.equal(weights(plain), weights(short))
    assert torch.allclose(weights(plain), weights(short), atol=0.05)


def test_the_seed_decides_and_global_state_is_left_alone():
    first, same, other = tiny(), tiny(), tiny()
    before = torch.get_rng_state()
    train(first, bright_and_dark(), SMALL)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(9)
    train(same, bright_and_dark(), SMALL)
    train(other, bright_and_dark(), TrainConfig(4, 16, 0.05, crop=1, seed=7))
    assert torch.equal(weights(first), weights(same))
    assert not torch.equal(weights(first), weights(other))


class StopError(Exception):
    """Raised in the middle of a run, as an interrupt would be."""


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"augmix": True},
        {"optimizer": "adamw", "warmup": 0.3, "smoothing": 0.1, "randaugment": True, "mix": 0.7},
    ],
)
def test_a_resumed_run_equals_one_without_a_break_bit_for_bit(tmp_path, options):
    config = TrainConfig(epochs=4, batch_size=16, lr=0.05, crop=1, **options)
    whole = train(tiny(), bright_and_dark(), config)

    def interrupt(now):
        if (now.epoch, now.step) == (3, 2):
            raise StopError

    path = tmp_path / "run.checkpoint"
    with pytest.raises(StopError):
        train(tiny(), bright_and_dark(), config, checkpoint=path, report=interrupt)
    assert read_tensors(path)[1]["epochs"] == "2"
    seen = []
    resumed = train(
        tiny(9), bright_and_dark(), config, checkpoint=path, resume=True, report=seen.append
    )
    assert torch.equal(weights(whole), weights(resumed))
    assert [now.epoch for now in seen] == [3] * 4 + [4] * 4


def test_resuming_without_a_checkpoint_starts_from_the_beginning(tmp_path):
    resumed = train(tiny(), bright_and_dark(), SMALL, checkpoint=tmp_path / "c", resume=True)
    assert torch.equal(weights(resumed), weights(train(tiny(), bright_and_dark(), SMALL)))


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    path = tmp_path / "c"
    train(tiny(), bright_and_dark(), TrainConfig(1, 16, 0.05, crop=1), checkpoint=path)
    with pytest.raises(ValueError, match="belongs to a run with other settings"):
        train(tiny(), bright_and_dark(), SMALL, checkpoint=path, resume=True)


def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    path = tmp_path / "c"
    train(tiny(), bright_and_dark(), SMALL, checkpoint=path)
    wrong = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
    with pytest.raises(ValueError, match="does not fit Sequential"):
        train(wrong, bright_and_dark(), SMALL, checkpoint=path, resume=True)


def test_a_damaged_checkpoint_is_one_sentence(tmp_path):
    path = tmp_path / "c"
    path.write_bytes(b"garbage")
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        train(tiny(), bright_and_dark(), SMALL, checkpoint=path, resume=True)


def test_one_step_is_nesterov_sgd_with_weight_decay():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 4 * 4, 2))
    start = model[1].weight.detach().clone()
    images = ImageSet(torch.full((4, 3, 4, 4), 51, dtype=torch.uint8), torch.tensor([0, 0, 0, 1]))
    # All pixels are 0.2 whatever crop and flip do, so the gradient is known: 0.2 * (p - y).
    logits = (start.sum(dim=1) * 0.2 + model[1].bias.detach()).softmax(dim=0)
    gradient = 0.2 * (logits - torch.tensor([0.75, 0.25])).view(2, 1).expand(2, 48)
    gradient = gradient + 0.01 * start
    step = gradient + 0.9 * gradient  # the first momentum buffer is the gradient itself
    train(model, images, TrainConfig(1, 4, 0.5, weight_decay=0.01, crop=1))
    assert torch.allclose(model[1].weight, start - 0.5 * step, atol=1e-6)


def test_the_learning_rate_follows_a_cosine_to_zero():
    rates = []

    class Spy(torch.optim.SGD):
        def step(self, closure=None):
            rates.append(self.param_groups[0]["lr"])
            return super().step(closure)

    original = torch.optim.SGD
    torch.optim.SGD = Spy
    try:
        train(tiny(), bright_and_dark(), TrainConfig(2, 16, 0.3, crop=1))
    finally:
        torch.optim.SGD = original
    by_hand = [0.15 * (1 + math.cos(math.pi * k / 8)) for k in range(8)]
    assert rates == pytest.approx(by_hand)


def test_one_step_is_adamw_and_biases_do_not_decay():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 4 * 4, 2))
    start, bias = model[1].weight.detach().clone(), model[1].bias.detach().clone()
    images = ImageSet(torch.full((4, 3, 4, 4), 51, dtype=torch.uint8), torch.tensor([0, 0, 0, 1]))
    logits = (start.sum(dim=1) * 0.2 + bias).softmax(dim=0)
    sign = (logits - torch.tensor([0.75, 0.25])).sign()  # Adam's first step is the sign alone
    train(model, images, TrainConfig(1, 4, 0.01, weight_decay=0.5, crop=1, optimizer="adamw"))
    decayed = start * (1 - 0.01 * 0.5)
    assert torch.allclose(model[1].weight, decayed - 0.01 * sign.view(2, 1), atol=1e-5)
    assert torch.allclose(model[1].bias, bias - 0.01 * sign, atol=1e-5)


def test_smoothed_labels_leave_a_share_to_the_other_classes():
    from torch.nn import functional as F

    seen = []
    model, images = tiny(), bright_and_dark(16)
    with torch.no_grad():
        logits = model.train()(images.images.float() / 255)
    reference = F.cross_entropy(logits, images.labels, label_smoothing=0.2)
    config = TrainConfig(1, 16, crop=0, flip=False, smoothing=0.2)
    train(tiny(), images, config, report=seen.append)
    assert float(seen[0].loss) == pytest.approx(float(reference), abs=1e-5)


def test_images_that_do_not_fit_on_the_device_teach_the_same(monkeypatch):
    from multipool.bench.train import train as module

    near = train(tiny(), bright_and_dark(), SMALL)
    monkeypatch.setattr(module, "RESIDENT_LIMIT", 0)
    assert torch.equal(weights(near), weights(train(tiny(), bright_and_dark(), SMALL)))


def test_a_loss_that_was_told_stays_what_it_was():
    seen = []
    train(tiny(), bright_and_dark(), SMALL, report=seen.append)
    assert len({now.loss.data_ptr() for now in seen}) == len(seen) == 16


def test_fewer_images_than_a_batch_are_one_batch():
    seen = []
    train(tiny(), bright_and_dark(6), TrainConfig(2, 128, crop=1), report=seen.append)
    assert [(now.epoch, now.step, now.steps) for now in seen] == [(1, 1, 1), (2, 1, 1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be positive, got 0"),
        ({"lr": -1.0}, "lr must be positive, got -1.0"),
        ({"crop": -1}, "crop must not be negative, got -1"),
        ({"momentum": 1.0}, "momentum must lie between 0 and 1, got 1.0"),
        ({"warmup": 1.0}, "warmup must be from 0 to below 1, got 1.0"),
        ({"mix": 1.5}, "mix must be a share from 0 to 1, got 1.5"),
        ({"optimizer": "adam"}, "unknown optimizer 'adam'; did you mean 'adamw'.*"),
        ({"precision": "bf61"}, "unknown precision 'bf61'; did you mean 'bf16'.*"),
    ],
)
def test_a_wrong_setting_is_one_sentence(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        TrainConfig(**options)


def test_rounding_to_half_makes_a_half_file_exact(tmp_path):
    model = round_to_half(models.build("wrn10-1", 5).eval())
    models.save(model, tmp_path / "m.safetensors", {"architecture": "wrn10-1"}, half=True)
    loaded = models.load(tmp_path / "m.safetensors")
    assert torch.equal(weights(model), weights(loaded))


def test_a_source_model_is_one_file_that_says_how_it_was_made(tmp_path):
    recipe = Recipe(config=TrainConfig(epochs=1, batch_size=50, crop=2), images=100, half=True)
    out = tmp_path / "m.safetensors"
    said = make_source(recipe, out)
    assert said["command"] == (
        "multipool train --dataset shapes --model wrn10-1 --epochs 1 --batch-size 50 --lr 0.1 "
        "--weight-decay 0.0005 --crop 2 --no-augmix --images 100 --half --seed 0"
    )
    assert said["num_classes"] == "100"
    assert float(said["clean_error_percent"]) > 90  # two steps teach nothing
    assert models.load(out, num_classes=100)(torch.rand(2, 3, 32, 32)).shape == (2, 100)
    assert [path.name for path in tmp_path.iterdir() if path.suffix] == ["m.safetensors"]


def test_a_folder_of_pictures_is_a_source_too(tmp_path):
    from PIL import Image

    for domain in ("source", "other"):
        for name, grey in (("dark", 30), ("light", 220)):
            place = tmp_path / "data" / domain / name
            place.mkdir(parents=True)
            for number in range(10):
                Image.new("RGB", (16, 16), (grey + number,) * 3).save(place / f"{number}.png")
    data = SOURCES["folder"](Recipe("folder", data_dir=str(tmp_path / "data"), size=8))
    assert (len(data.train), len(data.test), data.num_classes) == (18, 2, 2)
    assert data.train.images.shape[1:] == (3, 8, 8)


@pytest.mark.parametrize(
    ("recipe", "out", "message"),
    [
        (Recipe("shape"), "m.safetensors", "unknown dataset 'shape'; did you mean 'shapes'?"),
        (Recipe(model="wrn"), "m.safetensors", "unknown model 'wrn'"),
        (Recipe(), "m.pt", "out must be a .safetensors file, got 'm.pt'"),
    ],
)
def test_a_wrong_recipe_is_one_sentence(tmp_path, recipe, out, message):
    with pytest.raises(ValueError, match=".*") as caught:
        make_source(recipe, tmp_path / out)
    assert message in str(caught.value)
    assert not list(tmp_path.glob("m*"))


def test_training_starts_from_given_weights_and_the_file_says_both_commands(tmp_path):
    config = TrainConfig(epochs=1, batch_size=50, crop=2)
    make_source(Recipe(config=config, images=100), tmp_path / "first.safetensors")
    still = TrainConfig(epochs=1, batch_size=50, crop=2, lr=1e-12, jitter=True)
    start = str(tmp_path / "first.safetensors")
    recipe = Recipe(config=still, images=100, init=start)
    said = make_source(recipe, tmp_path / "second.safetensors")
    first, second = (models.load(tmp_path / f"{n}.safetensors") for n in ("first", "second"))
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(a, b)  # hardly a step was taken: these are the given weights
    assert "--jitter" in said["command"]
    assert said["command"].endswith("--init first.safetensors --seed 0")
    assert said["init_command"] == Recipe(config=config, images=100).command()


def test_other_classes_get_a_new_last_layer_and_keep_the_rest(tmp_path):
    trained = models.build("wrn10-1", 7, seed=3)
    models.save(trained, tmp_path / "seven.safetensors", {"architecture": "wrn10-1"})
    still = TrainConfig(epochs=1, batch_size=50, crop=2, lr=1e-12)
    recipe = Recipe(config=still, images=100, init=str(tmp_path / "seven.safetensors"))
    make_source(recipe, tmp_path / "hundred.safetensors")
    tuned = models.load(tmp_path / "hundred.safetensors", num_classes=100)
    assert torch.allclose(tuned.conv1.weight, trained.conv1.weight)
    assert tuned.fc.weight.shape == (100, 64)


def test_the_command_tells_what_is_not_the_default():
    config = TrainConfig(optimizer="adamw", warmup=0.05, smoothing=0.1, randaugment=True, mix=0.8)
    words = Recipe("cifar10", "vit-small-32", config).command()
    told = "--randaugment --optimizer adamw --warmup 0.05 --smoothing 0.1 --mix 0.8 --seed 0"
    assert words.endswith(told)


def test_rounding_to_half_leaves_what_half_cannot_hold():
    model = torch.nn.BatchNorm1d(2)
    model.running_var.fill_(70_000.0)
    model.running_mean.fill_(0.1)
    round_to_half(model)
    assert (model.running_var == 70_000.0).all()
    assert (model.running_mean == torch.tensor(0.1).half().float()).all()
