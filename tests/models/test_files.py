"""Models from files: real ones, half precision, wrappers, and files that are not models."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from multipool import models
from multipool.core import write_tensors

SHARED = Path(os.environ.get("MULTIPOOL_SHARED", Path(__file__).parents[2] / ".." / "shared"))


@pytest.fixture
def small():
    return models.build("wrn10-1", 10, mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6), seed=4).eval()


def images(count=2):
    return torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def shared(*parts):
    path = SHARED.joinpath(*parts)
    if not path.is_file():
        pytest.skip(f"{parts[-1]} is not in the shared folder (MULTIPOOL_SHARED)")
    return path


def test_a_saved_model_comes_back_from_the_file_alone(small, tmp_path):
    models.save(small, tmp_path / "m.safetensors", {"architecture": "wrn10-1", "seed": "4"})
    loaded = models.load(tmp_path / "m.safetensors")
    assert torch.equal(loaded(images()), small(images()))
    assert not loaded.training
    said = models.metadata(tmp_path / "m.safetensors")
    assert said["num_classes"] == "10"
    assert said["seed"] == "4"
    assert json.loads(said["mean"]) == pytest.approx([0.1, 0.2, 0.3], abs=1e-6)


def test_half_precision_halves_the_file_and_loads_as_float32(small, tmp_path):
    models.save(small, tmp_path / "full.safetensors", {"architecture": "wrn10-1"})
    models.save(small, tmp_path / "half.safetensors", {"architecture": "wrn10-1"}, half=True)
    sizes = [(tmp_path / f"{name}.safetensors").stat().st_size for name in ("full", "half")]
    assert sizes[1] < 0.6 * sizes[0]
    loaded = models.load(tmp_path / "half.safetensors")
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    assert torch.allclose(loaded(images()), small(images()), atol=0.05)


def test_numbers_that_half_precision_cannot_hold_stay_as_they_are(small, tmp_path):
    name = next(key for key in small.state_dict() if key.endswith("running_var"))
    small.state_dict()[name].fill_(70_000.0)
    models.save(small, tmp_path / "half.safetensors", {"architecture": "wrn10-1"}, half=True)
    loaded = models.load(tmp_path / "half.safetensors")
    assert (loaded.state_dict()[name] == 70_000.0).all()


def test_a_loaded_model_can_be_trained(small, tmp_path):
    models.save(small, tmp_path / "m.safetensors", {"architecture": "wrn10-1"})
    loaded = models.load(tmp_path / "m.safetensors")
    loaded(images()).sum().backward()
    assert all(p.requires_grad and p.grad is not None for p in loaded.parameters())


@pytest.mark.parametrize("wrapper", [None, "state_dict", "model"])
@pytest.mark.parametrize("prefix", ["", "module.", "module.model."])
def test_a_state_dict_loads_through_the_usual_wrappers(small, tmp_path, wrapper, prefix):
    state = {prefix + name: value for name, value in small.state_dict().items()}
    torch.save({wrapper: state, "epoch": 3} if wrapper else state, tmp_path / "m.pt")
    loaded = models.load(tmp_path / "m.pt", architecture="wrn10-1")
    assert torch.equal(loaded.fc.weight, small.fc.weight)
    assert loaded.normalise.mean.flatten().tolist() == [0.5] * 3  # the architecture's


def test_the_normalisation_inside_a_robustbench_checkpoint_is_used(small, tmp_path):
    state = small.state_dict()
    state |= {"mu": torch.full((1, 3, 1, 1), 0.3), "sigma": torch.full((1, 3, 1, 1), 0.7)}
    torch.save(state, tmp_path / "m.pth")
    step = models.load(tmp_path / "m.pth", architecture="wrn10-1").normalise
    assert step.mean.flatten().tolist() == pytest.approx([0.3] * 3)
    assert step.std.flatten().tolist() == pytest.approx([0.7] * 3)


class Evil:
    def __reduce__(self):
        return (os.system, ("touch /tmp/never",))


def sentence(call, kind=ValueError):
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_file_that_runs_code_is_refused(tmp_path):
    torch.save({"state_dict": Evil()}, tmp_path / "evil.pt")
    text = sentence(lambda: models.load(tmp_path / "evil.pt", architecture="wrn10-1"))
    assert "not a state dict that loads safely" in text


def test_a_whole_model_is_told_to_come_as_a_state_dict(small, tmp_path):
    torch.save(small, tmp_path / "whole.pt")
    text = sentence(lambda: models.load(tmp_path / "whole.pt", architecture="wrn10-1"))
    assert text.endswith("save model.state_dict(), not the model")


@pytest.mark.parametrize("name", ["m.safetensors", "m.pt"])
@pytest.mark.parametrize("content", [b"", b"not a model", b"\x00" * 5000])
def test_garbage_is_refused_in_one_sentence(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert name in sentence(lambda: models.load(tmp_path / name, architecture="wrn10-1"))


def test_a_truncated_file_is_refused_in_one_sentence(small, tmp_path):
    path = tmp_path / "m.safetensors"
    models.save(small, path, {"architecture": "wrn10-1"})
    path.write_bytes(path.read_bytes()[:-1000])
    assert "not a readable safetensors file" in sentence(lambda: models.load(path))


def test_weights_of_another_architecture_are_refused(small, tmp_path):
    models.save(small, tmp_path / "m.safetensors", {"architecture": "wrn10-1"})
    path = tmp_path / "m.safetensors"
    text = sentence(lambda: models.load(path, architecture="wrn16-2"))
    assert "does not fit wrn16-2" in text
    assert "more" in text
    assert "it has no 'classifier.bias'" in sentence(
        lambda: models.load(path, architecture="resnext29-4x32d")
    )


def test_every_other_mistake_is_one_sentence(small, tmp_path):
    path = tmp_path / "m.safetensors"
    models.save(small, path, {"architecture": "wrn10-1"})
    assert "has 10 classes, expected 100" in sentence(lambda: models.load(path, num_classes=100))
    assert "no file at" in sentence(lambda: models.load(tmp_path / "no.pt"), FileNotFoundError)
    assert "no file at" in sentence(
        lambda: models.load(tmp_path / "no.safetensors"), FileNotFoundError
    )
    assert "unknown weights 'wrn10-1'" in sentence(lambda: models.load("wrn10-1"))
    bare = tmp_path / "bare.safetensors"
    write_tensors(bare, {k: v for k, v in small.state_dict().items() if k != "conv1.weight"})
    assert "does not say its architecture" in sentence(lambda: models.load(bare))
    write_tensors(bare, small.state_dict(), {"architecture": "wrn10-1", "mean": "half"})
    assert "the mean in" in sentence(lambda: models.load(bare))
    torch.save([1, 2], tmp_path / "list.pt")
    assert "holds list" in sentence(lambda: models.load(tmp_path / "list.pt"))
    assert "not a model made by" in sentence(
        lambda: models.save(torch.nn.Linear(2, 2), path, {"architecture": "wrn10-1"})
    )


@pytest.mark.parametrize("name", models.SHIPPED)
def test_the_shipped_weights_load_and_say_how_they_were_made(name):
    path = models.SHIPPED[name]
    assert path.stat().st_size < 1_000_000
    said = models.metadata(name)
    assert said["command"].startswith("multipool train ")
    assert f"--seed {said['seed']}" in said["command"]
    classes = 10 if name.startswith("cifar10-") else 100
    logits = models.load(name, num_classes=classes)(images())
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("name", [name for name in models.SHIPPED if name.startswith("cifar")])
def test_the_shipped_models_of_cifar_have_the_clean_error_their_files_say(name):
    said = float(models.metadata(name)["clean_error_percent"])
    found = cifar_error(name, f"{name.partition('-')[0]}_test", 400)
    assert found == pytest.approx(said, abs=7.5)  # 3 sigma of 400 images


def test_the_shipped_model_has_the_clean_error_its_file_says():
    from multipool.data import shapes

    drawn = shapes.draw("test", 400)
    with torch.no_grad():
        wrong = models.load("shapes-wrn10-1")(drawn.images.float() / 255).argmax(1) != drawn.labels
    said = float(models.metadata("shapes-wrn10-1")["clean_error_percent"])
    assert 5 <= said <= 20
    assert 100 * wrong.float().mean() == pytest.approx(said, abs=6)  # 400 images: 3 sigma


def cifar_error(weights, data, count):
    known = weights in models.SHIPPED
    model = models.load(weights if known else shared("weights", f"{weights}.safetensors"))
    arrays = np.load(shared("data", f"{data}.npz"))
    rows = np.linspace(0, 9999, count).astype(int)  # the files are sorted by class
    pixels = torch.from_numpy(arrays["images"][rows]).permute(0, 3, 1, 2)
    labels = torch.from_numpy(arrays["labels"][rows])
    with torch.inference_mode():
        guess = torch.cat([model(batch.float() / 255).argmax(1) for batch in pixels.split(250)])
    return 100 * (guess != labels).float().mean().item()


@pytest.mark.parametrize(
    ("weights", "data", "error", "slack"),
    [
        ("cifar10_wrn16_2", "cifar10_test", 7.19, 5.0),  # 3 sigma of 500 images is 3.5
        ("cifar100_wrn16_2", "cifar100_test", 28.99, 8.0),
    ],
)
def test_trained_files_classify_real_images(weights, data, error, slack):
    assert cifar_error(weights, data, 500) == pytest.approx(error, abs=slack)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weights", "data", "error"),
    [
        ("cifar10_wrn16_2", "cifar10_test", 7.19),
        ("cifar100_wrn16_2", "cifar100_test", 28.99),
        ("cifar100_resnext29_4x32d", "cifar100_test", 21.57),
        ("cifar10_wrn28_10", "cifar10_test", 5.99),
    ],
)
def test_the_clean_error_is_the_one_in_the_file(weights, data, error):
    assert cifar_error(weights, data, 10_000) == pytest.approx(error, abs=0.1)


def tiny_imagenet(limit):
    """Yield images and labels of the validation set; labels are positions in the sorted wnids."""
    import io
    import tarfile

    from PIL import Image

    with tarfile.open(shared("data", "tiny-imagenet-200-val.tar")) as archive:
        root = "tiny-imagenet-200"
        wnids = sorted(archive.extractfile(f"{root}/wnids.txt").read().decode().split())
        lines = archive.extractfile(f"{root}/val/val_annotations.txt").read().decode().splitlines()
        for line in lines[:limit]:
            name, wnid = line.split("\t")[:2]
            content = archive.extractfile(f"{root}/val/images/{name}").read()
            pixels = np.array(Image.open(io.BytesIO(content)).convert("RGB"))
            yield torch.from_numpy(pixels).permute(2, 0, 1), wnids.index(wnid)


def tiny_error(limit):
    model = models.load(shared("weights", "tinyimagenet200_resnet18.safetensors"))
    pixels, labels = zip(*tiny_imagenet(limit), strict=True)
    with torch.inference_mode():
        batches = torch.stack(pixels).split(100)
        guess = torch.cat([model(batch.float() / 255).argmax(1) for batch in batches])
    return 100 * (guess != torch.tensor(labels)).float().mean().item()


def test_the_64_px_network_classifies_real_images():
    assert tiny_error(40) == pytest.approx(36.34, abs=25)


@pytest.mark.slow
def test_the_clean_error_on_tiny_imagenet_is_the_one_in_the_file():
    assert tiny_error(None) == pytest.approx(36.34, abs=0.1)
