"""What users call is explained: arguments, an example that runs, and for a method its paper."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import multipool
from multipool import data, decode, memory, models
from multipool.data import corruptions, streams
from multipool.methods.table import BUILT_IN

CALLED = {
    "adapt": multipool.adapt,
    "load": multipool.load,
    "SequenceDecoder": decode.SequenceDecoder,
    "MultiClusterMemory": memory.MultiClusterMemory,
    "ClassBalancedPool": memory.ClassBalancedPool,
    "EntropyPool": memory.EntropyPool,
    "ReservoirPool": memory.ReservoirPool,
    "ConfidencePool": memory.ConfidencePool,
    "FifoPool": memory.FifoPool,
    "LegacyBank": memory.LegacyBank,
    "data.load": data.load,
    "Stream": data.Stream,
    "corrupt": corruptions.corrupt,
    "models.load": models.load,
    **{name: getattr(streams, name) for name in streams.PROTOCOLS},
}
PAGES = Path(__file__).resolve().parents[1] / "docs" / "reference"
SHOWN = sorted(
    name
    for page in PAGES.glob("*.md")
    for name in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE)
)
OURS = ("multipool", "source")  # no paper to name


@pytest.mark.parametrize("name", CALLED)
def test_what_users_call_has_arguments_and_an_example(name):
    text = inspect.getdoc(CALLED[name])
    assert "Args:" in text
    assert ">>> " in text


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_method_has_an_explanation_an_example_and_its_paper(name):
    text = inspect.getdoc(BUILT_IN[name])
    assert "Args:" in text
    assert f'"{name}"' in text.partition(">>> ")[2]
    module = inspect.getdoc(inspect.getmodule(BUILT_IN[name]))
    assert name in OURS or "References:" in text or "20" in module


@pytest.mark.parametrize("name", SHOWN)
def test_what_the_reference_shows_says_what_its_arguments_are(name):
    room, _, word = name.rpartition(".")
    found = getattr(importlib.import_module(room), word)
    assert inspect.isclass(found) or inspect.isfunction(found), f"{name} is shown, a module"
    if found in (multipool.methods.Adapter, memory.Memory):
        return  # made by adapt, and a protocol
    if set(inspect.signature(found).parameters) - {"self"}:
        assert "Args:" in inspect.getdoc(found)
