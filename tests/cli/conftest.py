"""The tiny dataset and model of the bench tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from multipool.cli.main import main

_spec = importlib.util.spec_from_file_location(
    "tiny_bench", Path(__file__).parents[1] / "bench" / "conftest.py"
)
assert _spec is not None
assert _spec.loader is not None
_bench = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _bench  # dataclasses look their module up
_spec.loader.exec_module(_bench)


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    monkeypatch.setattr("multipool.bench.run.runner.Loader", _bench.TinyLoader)
    monkeypatch.setattr("multipool.bench.run.loader.Loader", _bench.TinyLoader)
    monkeypatch.setattr("multipool.bench.run.loader.weights_digest", _bench.tiny_digest)
    monkeypatch.setenv("MULTIPOOL_CACHE", str(tmp_path / "cache"))
    return _bench.TinyLoader


@pytest.fixture
def call(capsys):
    """Return a function that calls the command line and gives code, stdout, stderr."""

    def run(*args):
        with pytest.raises(SystemExit) as exit_info:
            main([str(arg) for arg in args])
        said = capsys.readouterr()
        return exit_info.value.code, said.out, said.err

    return run
