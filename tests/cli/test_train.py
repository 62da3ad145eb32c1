"""``multipool train`` from the command line."""

from __future__ import annotations

import json

import pytest

from multipool import models
from multipool.cli.main import main

SHORT = ["train", "--images", "100", "--epochs", "1", "--batch-size", "50", "--device", "cpu"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MULTIPOOL_CACHE", str(tmp_path / "cache"))


def call(*words):
    with pytest.raises(SystemExit) as caught:
        main([str(word) for word in words])
    return caught.value.code


def test_it_writes_a_model_and_prints_what_the_file_says(tmp_path, capsys):
    out = tmp_path / "m.safetensors"
    assert call(*SHORT, "--half", "--out", out, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["file"] == str(out)
    assert said["command"].startswith("multipool train --dataset shapes --model wrn10-1 --epochs 1")
    assert {k: v for k, v in said.items() if k != "file"} == models.metadata(out)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--dataset", "nope"], "unknown dataset 'nope'; choose one of: cifar10, cifar100"),
        (["--model", "wrn10"], "unknown model 'wrn10'; did you mean 'wrn10-1'?"),
        (["--epochs", "0"], "epochs must be positive, got 0"),
        (["--device", "gpu"], "unknown device 'gpu'"),
        (["--out", "m.pt"], "out must be a .safetensors file, got 'm.pt'"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(words, sentence, capsys):
    assert call("train", *words) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert sentence in last
