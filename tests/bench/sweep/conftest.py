"""A sweep in this process, with the tiny dataset and model."""

from __future__ import annotations

import json

import pytest

from multipool.bench.sweep import expand
from multipool.bench.sweep import ledger as ledgers
from multipool.bench.sweep.ledger import JOURNAL
from multipool.bench.sweep.work import execute

SMALL = {"batch_size": 8, "device": "cpu"}


@pytest.fixture
def inline(loader, monkeypatch):
    """A backend that does everything here."""
    monkeypatch.setattr(ledgers, "POLL", 0.0)

    def backend(ledger, runs, options):
        while not ledger.settled:
            run = ledger.next()
            if run is not None:
                ledger.settle(run, execute(run, run.folder(ledger.out), loader))

    return backend


@pytest.fixture
def seeds():
    """Return a function that gives so many runs of one kind."""

    def make(count, **base):
        base = {"method": "source", **SMALL, **base}
        return expand({"base": base, "grid": {"seed": list(range(count))}})

    return make


@pytest.fixture
def events():
    """Return a function that gives the runs of one kind of event in a folder's journal."""

    def find(out, kind):
        lines = [json.loads(line) for line in (out / JOURNAL).read_text().splitlines()]
        return [line["run"] for line in lines if line["event"] == kind]

    return find
