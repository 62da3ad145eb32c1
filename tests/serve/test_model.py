"""Which model is served, and what it is called."""

import re

import pytest
import torch

import multipool
from multipool import models
from multipool.data.shapes import class_names
from multipool.serve.make import AdapterMaker, Recipe
from multipool.serve.model import ModelChoice, read_model


def test_without_a_choice_it_is_the_embedded_model():
    network, card = read_model(ModelChoice(device="cpu"), "multipool")
    assert (card.name, card.size, card.classes) == ("shapes-wrn10-1", (3, 32, 32), class_names())
    assert network.num_classes == 100


def test_a_file_of_weights_says_its_architecture(tmp_path):
    path = tmp_path / "my model.safetensors"
    models.save(models.build("wrn10-1", 3), path, {"architecture": "wrn10-1"})
    (tmp_path / "names").write_text("cat\ndog\ncow\n")
    choice = ModelChoice(weights=str(path), classes=tmp_path / "names", device="cpu")
    _, card = read_model(choice, "tent")
    assert (card.name, card.classes, card.size) == ("my-model", ("cat", "dog", "cow"), (3, 32, 32))
    _, card = read_model(ModelChoice(weights=str(path), image_size=48, device="cpu"), "tent")
    assert (card.classes[2], card.size) == ("class 2", (3, 48, 48))


def test_a_model_from_elsewhere_says_its_own_size(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from multipool import models\n\ndef make():\n"
        "    net = models.build('wrn10-1', 4, (0,) * 3, (1,) * 3)\n"
        "    return models.wrap(net, (0.5,) * 3, (0.5,) * 3, size=40)\n"
    )
    _, card = read_model(ModelChoice(model=f"{tmp_path}/mine.py:make", device="cpu"), "tent")
    assert (card.size, len(card.classes)) == ((3, 40, 40), 4)


def test_names_of_another_number_of_classes_are_refused(tmp_path):
    (tmp_path / "names").write_text("cat\ndog\n")
    with pytest.raises(ValueError, match="has 2 lines, the model 100 classes"):
        read_model(ModelChoice(classes=tmp_path / "names", device="cpu"), "multipool")


def test_a_service_computes_in_float32_unless_a_precision_is_named():
    chosen = [
        read_model(ModelChoice(device="cpu", **more), "multipool")[0].precision
        for more in ({}, {"precision": "bf16"})
    ]
    assert chosen == ["float32", "bf16"]


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        (dict(device="toaster"), "unknown device 'toaster'; choose one of: auto, cpu, cuda"),
        (dict(image_size=0), "--image-size must be at least 1, got 0"),
        (dict(image_size=-3), "--image-size must be at least 1, got -3"),
        (dict(name="a b/c"), "--name must be letters, digits or '._-', for addresses, got 'a b/c'"),
        (dict(name=""), "--name must be letters"),
    ],
)
def test_what_no_model_can_be_is_refused(choice, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        read_model(ModelChoice(**{"device": "cpu", **choice}), "multipool")


def test_a_missing_gpu_is_a_sentence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="device cuda was asked for, but torch finds no GPU"):
        read_model(ModelChoice(device="cuda"), "multipool")


def test_names_that_cannot_be_read_are_a_sentence(tmp_path):
    (tmp_path / "picture").write_bytes(bytes(range(256)))
    for name in ("nothing", "picture"):
        with pytest.raises(FileNotFoundError, match=f"no readable list of classes at .*{name}"):
            read_model(ModelChoice(classes=tmp_path / name, device="cpu"), "multipool")


def test_adapters_of_streams_share_the_model_and_keep_no_graphs(tiny_net, make_images, tmp_path):
    shared = multipool.share(tiny_net)
    maker = AdapterMaker(shared, Recipe("tent"))
    made = maker.make(shared)
    made.save(tmp_path / "a.safetensors")
    for adapter in (made, maker.load(tmp_path / "a.safetensors", shared)):
        assert adapter.network is shared
        assert adapter.method.passes
        assert not any(replayed.enabled for replayed in adapter.method.passes)
    assert maker.identity()["method"] == "tent"
