"""A run on somebody's own pictures: answers in a file, classes from a list, no labels needed."""

from __future__ import annotations

import csv
import json
import signal

import numpy as np
import pytest
import torch
from PIL import Image

from multipool import models
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.loader import model_digest
from multipool.bench.run.predictions import COLUMNS
from multipool.bench.run.runner import Interrupted, run

OWN = """
from multipool import models

def small(num_classes=6):
    return models.wrap(models.build("wrn10-1", num_classes, (0,) * 3, (1,) * 3), (0.5,) * 3, (0.5,) * 3, size=16)
"""  # noqa: E501


def picture(path, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def own(tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    for number in range(6):
        for domain in ("day", "night"):
            picture(tmp_path / "plain" / domain / f"{number}.png", number)
            place = tmp_path / "labelled" / domain / ("cat", "dog")[number % 2]
            picture(place / f"{number}.png", number)
    (tmp_path / "some.txt").write_text("4 cat\n1 dog\n")
    return tmp_path


def experiment(own, kind, **settings):
    return Experiment(
        dataset="folder",
        data_dir=str(own / kind),
        model=f"{own}/mine.py:small",
        batch_size=4,
        device="cpu",
        **{"method": "source", **settings},
    )


@pytest.fixture
def stop():
    """Return what interrupts a run after its first batch, as Ctrl-C does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return lambda step: signal.raise_signal(signal.SIGINT) if step.total else None


def rows_of(path):
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    return rows


def test_pictures_without_labels_give_answers_and_an_estimate_but_no_error(own):
    file = own / "answers.csv"
    result = run(experiment(own, "plain", decode="sequence"), own / "out", predictions=file)
    assert (result.error, result.errors, result.curve) == (None, {}, [])
    assert result.undecoded_error is None
    assert 0 <= result.estimate <= 100
    assert json.loads((own / "out" / "result.json").read_text())["error"] is None
    rows = rows_of(file)
    assert [row["path"] for row in rows] == [
        f"{d}/{n}.png" for d in ("day", "night") for n in range(6)
    ]
    assert all(row["class"] in "012345" and row["decoded class"] in "012345" for row in rows)
    assert all(1 / 6 <= float(row["probability"]) <= 1 for row in rows)


def test_answers_are_the_models_own(own):
    file = own / "answers.csv"
    run(experiment(own, "plain"), predictions=file)
    model = models.load(f"{own}/mine.py:small")
    for row in rows_of(file):
        with Image.open(own / "plain" / row["path"]) as shown:
            pixels = np.asarray(shown.resize((16, 16), Image.Resampling.BILINEAR)).copy()
        with torch.no_grad():
            logits = model(torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 255)
        assert row["class"] == str(int(logits.argmax()))
        assert float(row["probability"]) == pytest.approx(float(logits.softmax(1).max()), abs=1e-3)
        assert row["decoded class"] == ""  # source decodes nothing


def test_pictures_take_the_size_of_the_model_and_the_result_says_how_it_normalises(own):
    result = run(experiment(own, "labelled", classes=str(own / "some.txt")))
    assert result.notes == [
        f"{own}/mine.py:small: mean 0.5 0.5 0.5, std 0.5 0.5 0.5, 16 x 16 pixels (as given)"
    ]
    assert "size" not in result.settings


def test_a_model_with_more_classes_runs_on_some_of_them(own):
    file = own / "answers.csv"
    result = run(experiment(own, "labelled", classes=str(own / "some.txt")), predictions=file)
    assert 0 <= result.error <= 100
    assert {row["class"] for row in rows_of(file)} <= {"cat", "dog"}
    whole = models.load(f"{own}/mine.py:small")
    some = models.with_outputs(whole, (4, 1))
    assert result.weights["digest"] != model_digest(some)  # the file's own weights are meant
    (own / "some.txt").write_text("4 cat\n9 dog\n")
    with pytest.raises(ValueError, match="at least 2 different ones of the model's 0 to 5, got 9"):
        run(experiment(own, "labelled", classes=str(own / "some.txt")))


def test_a_resumed_run_has_the_answers_of_both_parts(own, stop):
    settings = experiment(own, "plain", decode="sequence")
    run(settings, predictions=own / "whole.csv")

    with pytest.raises(Interrupted):
        run(settings, own / "o", stop, predictions=own / "parts.csv")
    assert not (own / "parts.csv").exists()
    run(settings, own / "o", resume=True, predictions=own / "parts.csv")
    assert rows_of(own / "parts.csv") == rows_of(own / "whole.csv")


def test_a_run_begun_without_answers_cannot_give_them_later(own, stop):
    with pytest.raises(Interrupted):
        run(experiment(own, "plain"), own / "o", stop)
    with pytest.raises(ValueError, match="was begun without --predictions; leave it out"):
        run(experiment(own, "plain"), own / "o", resume=True, predictions=own / "p.csv")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"size": 64}, "size is for --dataset folder, got 64 with shapes-c"),
        ({"classes": "c.txt"}, "classes are for --dataset folder or imagenet-c, got c.txt"),
        ({"dataset": "folder", "model": "gone.py:make"}, "no Python file at gone.py"),
    ],
)
def test_a_setting_that_does_not_fit_is_one_sentence(settings, sentence):
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        Experiment(**settings)


def test_images_of_another_size_than_the_models_are_told(own):
    settings = {"domains": ("fog",), "limit": 8, "batch_size": 8, "device": "cpu"}
    found = Experiment(method="source", model=f"{own}/mine.py:small", **settings)
    told = "the model was made for 16 x 16 pixels, the images have 32 x 32"
    assert run(found).notes[1:] == [told]
