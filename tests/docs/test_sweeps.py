"""The file that asks streams of few classes gives every domain an adapter of its own."""

from __future__ import annotations

from itertools import product

import yaml
from pages import ROOT
from rows import COMMON, load

from multipool.data import StreamConfig


def test_a_period_is_a_domain_and_the_rows_are_all_there():
    plan = yaml.safe_load((ROOT / "docs" / "sweeps" / "few-classes.yaml").read_text())
    base, planned = plan["base"], set()
    assert base["limit"] == len(COMMON) * base["reset_every"] * StreamConfig().batch_size
    for part in plan["runs"]:
        planned |= set(product(part["method"], map(str, part["shown"]), map(str, part["seed"])))
    rows = {(row["method"], row["shown"], row["seed"]) for row in load("few-classes")}
    assert {row for row in rows if row[0] != "multipool before"} == planned
