"""The examples of the pages on your model and your pictures, run as they are written."""

from __future__ import annotations

import csv
import json
import re
import shlex
import sys

import numpy as np
import pytest
import torch
from pages import ROOT
from PIL import Image

from libraries import package
from multipool.cli.main import main

PAGE = (ROOT / "docs" / "start" / "your-model.md").read_text(encoding="utf-8")
PICTURES = (ROOT / "docs" / "start" / "your-pictures.md").read_text(encoding="utf-8")


def section(title):
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def code(title):
    (block,) = re.findall(r"```python\n(.*?)```", section(title), re.S)
    return block


def stand_in(title, **known):
    """Run the line of a section that makes a file of random weights."""
    (line,) = re.findall(r"`(torch\.save\(.*?)`\.", section(title))
    exec(line, {"torch": torch, **known})


def words(text):
    """Return the words of the one command in a text."""
    (line,) = re.findall(r"^multipool (run .*)$", text, re.M)
    return shlex.split(line)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with four pictures and the user's own ``net.py``; scripts there can import it."""
    for number in range(4):
        pixels = np.random.default_rng(number).integers(0, 256, (40, 40, 3), dtype=np.uint8)
        (tmp_path / "pictures" / "today").mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "pictures" / "today" / f"{number}.png")
    (tmp_path / "net.py").write_text(code("A model of your own"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "net", raising=False)
    torch.manual_seed(0)
    return tmp_path


def run_both(title, classes, capsys):
    """Run a section's code and its command; return what both printed."""
    names = {}
    exec(compile(code(title), title, "exec"), names)
    assert names["answers"].shape == (4, classes)
    assert names["answers"].isfinite().all()
    return capsys.readouterr().out + command(title, capsys)


def command(title, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*words(section(title)), "--batch-size", "4", "--device", "cpu"])
    said = capsys.readouterr()
    assert ended.value.code == 0, said.err
    assert "the images have no labels" in said.err
    return said.out + said.err


def test_a_vit_of_timm(place, capsys):
    stand_in("A ViT of timm", timm=package("timm"))
    said = run_both("A ViT of timm", 100, capsys)
    (promised,) = re.findall(r"# (mean .*)", code("A ViT of timm"))
    assert said.count(promised) == 2  # printed, and in the notes of the run


def test_a_resnet_of_torchvision(place, capsys):
    stand_in("A ResNet of torchvision", torchvision=package("torchvision"))
    said = run_both("A ResNet of torchvision", 100, capsys)
    assert "mean 0.485 0.456 0.406" in said


def test_a_model_of_hugging_face(place, capsys):
    transformers = package("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.ViTConfig(
        **sizes, intermediate_size=32, image_size=32, patch_size=8, num_labels=5
    )
    transformers.ViTForImageClassification(config).save_pretrained("my_model")
    shown = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.5] * 3, "size": {"height": 32}}
    (place / "my_model" / "preprocessor_config.json").write_text(json.dumps(shown))
    said = run_both("A model of Hugging Face", 5, capsys)
    assert "mean 0.1 0.2 0.3, std 0.5 0.5 0.5, 32 x 32 pixels" in said


def test_a_model_of_your_own(place, capsys):
    from net import make

    stand_in("A model of your own", make=make)
    command("A model of your own", capsys)


def test_a_normalisation_of_your_own(place, capsys):
    names = {}
    exec(compile(code("A normalisation of your own"), "wrap", "exec"), names)
    assert names["answers"].shape == (4, 10)
    assert (place / "state.safetensors").is_file()


def test_a_model_without_batchnorm(place, monkeypatch):
    names = {}
    exec(compile(code("A model without BatchNorm"), "batchnorm", "exec"), names)
    assert names["answers"].shape == (64, 10)
    assert names["adapter"].pools
    seen = []

    def caught(experiment, *args, **kwargs):
        seen.append(experiment)
        raise ValueError("enough")

    monkeypatch.setattr("multipool.cli.run.run", caught)
    with pytest.raises(SystemExit):
        main(words(section("A model without BatchNorm")))
    assert (seen[0].method, seen[0].batchnorm) == ("multipool", True)


def test_the_recipes_are_commands_that_exist(place, capsys):
    from multipool.bench.train.recipe import Recipe
    from multipool.cli import train

    made = []

    def caught(recipe, *args, **kwargs):
        made.append(recipe)
        raise ValueError("enough")

    lines = re.findall(r"^multipool (train --dataset cifar10 .*)$", PAGE, re.M)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "make_source", caught)
        for line in lines:
            with pytest.raises(SystemExit):
                main(shlex.split(line))
    assert [recipe.model for recipe in made] == ["vit-small-32", "resnet26-gn"]
    assert all(isinstance(recipe, Recipe) and recipe.half for recipe in made)


def test_the_table_of_answers_has_the_columns_of_the_file(place, capsys):
    columns = re.findall(r"^\| `([a-z ]+)` \|", PICTURES, re.M)
    torch.save(__import__("net").make(3).state_dict(), "my_net.pth")
    line = words(section("A model of your own"))
    with pytest.raises(SystemExit):
        main([*line, "--device", "cpu", "--quiet", "--predictions", "answers.csv"])
    with open("answers.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == columns
    assert [row[0] for row in rows[1:]] == [f"today/{number}.png" for number in range(4)]


def test_what_the_pictures_page_corrupts_is_what_it_runs(place, capsys):
    from net import make

    for name in ("cat", "dog"):
        for number in range(2):
            (place / "CLEAN" / name).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (32, 32), (90 * number,) * 3).save(
                place / "CLEAN" / name / f"{number}.png"
            )
    torch.save(make(2).state_dict(), "my_net.pth")
    corrupt, stream = re.findall(r"^multipool ((?:corrupt|run) .*COPY.*)$", PICTURES, re.M)
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(corrupt.replace("--size 224", "--size 32")))
    assert ended.value.code == 0
    own = stream.replace("timm:resnet50", "net.py:make --weights my_net.pth --size 32")
    with pytest.raises(SystemExit) as ended:
        main([*shlex.split(own), "--batch-size", "2", "--device", "cpu", "--json"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    found = json.loads(printed[printed.index("{") :])
    assert set(found["errors"]) == {"fog", "jpeg_compression"}
    assert set(found["baseline"]["errors"]) == {"fog", "jpeg_compression"}
