"""Rows made up by hand, and a backend that runs here with the tiny dataset."""

from __future__ import annotations

import pytest

from multipool.bench.compare import Row
from multipool.bench.sweep import ledger
from multipool.bench.sweep.work import execute


def made_up(method, kind, error, undecoded=None, seed=0, memory="", speed=100.0):
    """Return a run; without an undecoded error the decoder takes 5 points away."""
    undecoded = error + 5 if undecoded is None else undecoded
    return Row(kind, "shapes-c", "wrn10-1", method, memory, seed, error, undecoded, speed)


@pytest.fixture
def row():
    return made_up


@pytest.fixture
def rows():
    """Three kinds of stream, four methods, one of which is missing in a column."""
    return [
        made_up("source", "ptta", 40.0, speed=200.0),
        made_up("bn", "ptta", 50.0),
        made_up("lame", "ptta", 30.0, 20.0),
        made_up("rotta", "ptta", 31.0, memory="single"),
        made_up("source", "ctta", 40.0, speed=200.0),
        made_up("bn", "ctta", 30.0),
        made_up("lame", "ctta", 60.0, 60.0),
        made_up("rotta", "ctta", 35.0, memory="single"),
        made_up("source", "mixed", 40.0, speed=200.0),
        made_up("bn", "mixed", 38.0),
        made_up("lame", "mixed", 41.0, 41.0),
    ]


@pytest.fixture
def inline(loader, monkeypatch):
    def backend(work, runs, options):
        while (run := work.next()) is not None:
            work.settle(run, execute(run, run.folder(work.out), loader))

    monkeypatch.setattr(ledger, "POLL", 0.0)
    return backend
