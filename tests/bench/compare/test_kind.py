"""Kinds of stream become experiments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multipool.bench.compare.entrant import Entrant
from multipool.bench.compare.kind import Kind
from multipool.data import COMMON

SHAPES = Kind("ptta", "shapes-c", "wrn10-1", length=40, domains=3)


def test_an_experiment_has_what_the_kind_says():
    kind = replace(SHAPES, protocol="recurring", gamma=0.01, batch=16, rounds=4)
    made = kind.experiment(Entrant("rotta", "mcm", {"lr": 0.5}), 7, device="cpu", data_dir="d")
    assert (made.dataset, made.method, made.memory, made.seed) == ("shapes-c", "rotta", "mcm", 7)
    assert (made.protocol, made.gamma, made.batch_size, made.rounds) == ("recurring", 0.01, 16, 4)
    assert (made.domains, made.limit) == (COMMON[:3], 120)
    assert (made.device, made.data_dir, made.options) == ("cpu", "d", {"lr": 0.5})
    assert kind.images == 480


def test_few_classes_reach_the_experiment():
    made = replace(SHAPES, protocol="few", shown=5).experiment(Entrant("bn"), 0)
    assert (made.protocol, made.shown, made.limit) == ("few", 5, 120)


def test_images_of_their_own_reach_the_experiment():
    made = replace(SHAPES, distinct=True).experiment(Entrant("bn"), 0)
    assert (made.distinct, made.stream().distinct) == (True, True)
    assert not SHAPES.experiment(Entrant("bn"), 0).distinct


def test_all_corruptions_are_the_papers_stream():
    assert replace(SHAPES, domains=15).experiment(Entrant("bn"), 0).domains is None


def test_weights_are_looked_for_in_their_folder(tmp_path):
    kind = replace(SHAPES, weights="model.safetensors")
    with pytest.raises(FileNotFoundError, match="shapes-c/wrn10-1/ptta; say where.*--weights-dir"):
        kind.experiment(Entrant("bn"), 0, weights_dir=str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"")
    made = kind.experiment(Entrant("bn"), 0, weights_dir=str(tmp_path))
    assert made.weights == str(tmp_path / "model.safetensors")


def test_a_kind_is_described_in_words():
    assert SHAPES.describe() == "ptta, gamma 0.1, 3 domains of 40 images, batches of 64"
    mixed = replace(SHAPES, protocol="mixed", batch=1)
    assert mixed.describe() == "mixed, 3 domains of 40 images, one image at a time"
    few = replace(SHAPES, protocol="few", shown=2)
    assert few.describe() == "few, 2 classes a domain, 3 domains of 40 images, batches of 64"
    assert "few, 1 class a domain, 3" in replace(few, shown=1).describe()
    own = replace(SHAPES, distinct=True)
    assert own.describe() == "ptta, gamma 0.1, 3 domains of 40 images of their own, batches of 64"
    again = replace(SHAPES, protocol="recurring", rounds=20)
    assert "gamma 0.1, 20 rounds" in again.describe()
