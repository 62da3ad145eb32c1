from __future__ import annotations

import json

import pytest
import torch

from multipool.bench.speed.memory import MemoryRow
from multipool.bench.speed.serve import ServeSpeed


@pytest.fixture
def small(tiny, monkeypatch):
    model = tiny().model(None, 4, "cpu")
    images = torch.randint(0, 256, (16, 3, 8, 8), dtype=torch.uint8)
    monkeypatch.setattr("multipool.cli.bench.shapes_model", lambda device: (model, images))


def test_methods_are_measured_with_every_memory(call, small, tmp_path):
    args = ("bench", "methods", "--methods", "source,rotta", "--batches", 2, "--batch-size", 8)
    args += ("--warm-up", 1)
    code, out, _ = call(*args, "--json", "--write", tmp_path / "speeds.json")
    found = json.loads(out)
    assert code == 0
    assert json.loads((tmp_path / "speeds.json").read_text()) == found
    assert found["machine"]["batch_size"] == 8
    rows = found["speeds"]
    assert [(r["method"], r["memory"]) for r in rows] == [
        ("source", None),
        ("rotta", "single"),
        ("rotta", "mcm"),
        ("rotta", "mcm+"),
    ]
    code, out, _ = call(*args, "--quiet")
    assert "x necessary" in out
    assert "% of source" in out


def test_the_memory_is_measured_alone(call, monkeypatch):
    asked = []

    def measure(device, sides, repeats, growth):
        asked.append((device, sides, repeats, growth))
        return [MemoryRow("versus", "multipool", 8, 64, 5, 64, 1280, 0.25, 0.5, 1024, 1024)]

    monkeypatch.setattr("multipool.cli.bench.measure_memory", measure)
    args = ("bench", "memory", "--sides", "8,16", "--repeats", 2, "--no-growth", "--device", "cpu")
    code, out, _ = call(*args, "--json")
    assert code == 0
    assert asked == [("cpu", (8, 16), 2, False)]
    assert json.loads(out)[0]["total_ms"] == 0.75
    _, out, _ = call(*args, "--quiet")
    assert "retrieve ms" in out
    assert "0.250" in out


def test_corruptions_are_measured(call):
    args = ("bench", "corruptions", "--names", "brightness,contrast", "--images", 8)
    code, out, _ = call(*args, "--json")
    assert code == 0
    assert [row["name"] for row in json.loads(out)] == ["brightness", "contrast"]
    _, out, _ = call(*args, "--quiet")
    assert "images/s" in out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["methods", "--methods", "nope"], ["unknown method 'nope'", "rotta"]),
        (["memory", "--sides", "a"], ["--sides takes whole numbers"]),
        (["corruptions", "--names", "rain"], ["unknown corruption 'rain'", "fog"]),
        (["nope"], ["unknown command 'nope'", "memory", "methods", "corruptions"]),
    ],
)
def test_mistakes_name_the_choices(call, args, words):
    code, _, err = call("bench", *args)
    assert code == 2
    assert all(word in err for word in words)


def test_the_service_is_measured_beside_the_plain_model(call, monkeypatch, tmp_path):
    asked = []

    def measured(methods, load, progress):
        asked.append((methods, load.streams, load.seen))
        named = zip((*methods, "source"), (6.0, 4.0), strict=True)
        return [ServeSpeed(name, 9, p50, 20.0, p50 / 4, None, 300.0) for name, p50 in named]

    monkeypatch.setattr("multipool.cli.bench_serve.measure_serve", measured)
    args = ("bench", "serve", "--methods", "rotta", "--streams", 3, "--seen", 0)
    code, out, _ = call(*args, "--json", "--write", tmp_path / "serve.json")
    found = json.loads(out)
    assert code == 0
    assert json.loads((tmp_path / "serve.json").read_text()) == found
    assert asked == [(("rotta",), 3, 0)]
    assert [s["method"] for s in found["services"]] == ["rotta", "source"]
    code, out, _ = call(*args, "--quiet")
    assert "1.50" in out
    code, _, err = call("bench", "serve", "--methods", "rota")
    assert code != 0
    assert "rotta" in err
    code, _, err = call("bench", "serve", "--streams", 0)
    assert "--streams must be a number above 0, got 0" in err
