"""Errors are those recorded before the rooms were rebuilt, to the last digit."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from multipool.bench.run.loader import Loader

_spec = importlib.util.spec_from_file_location("golden", Path(__file__).with_name("compare.py"))
compare = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = compare  # dataclasses look their module up
_spec.loader.exec_module(compare)

QUICK = [
    row
    for row in compare.golden()
    if row.limit == 300
    and (row.method, row.memory)
    in {("bn", ""), ("tent", ""), ("lame", ""), ("roid", ""), ("rotta", "mcm"), ("rotta", "mcm+")}
]
SLOW = [row for row in compare.golden() if row not in QUICK]

pytestmark = pytest.mark.skipif(
    not compare.made_here(), reason=f"recorded with torch and a CPU of {compare.MADE_WITH}"
)


@pytest.fixture(scope="module")
def loader():
    return Loader()


@pytest.mark.parametrize("row", QUICK, ids=lambda row: row.name)
def test_short_runs_have_the_recorded_error(row, loader):
    assert compare.measure(row, loader) in row.errors


@pytest.mark.slow
@pytest.mark.parametrize("row", SLOW, ids=lambda row: row.name)
def test_runs_have_the_recorded_error(row, loader, request):
    real = compare.WEIGHTS[row.dataset] is not None
    shared = request.getfixturevalue("shared") if real else None
    assert compare.measure(row, loader, shared) in row.errors
