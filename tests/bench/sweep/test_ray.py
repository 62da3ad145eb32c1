"""A sweep on a Ray cluster of two nodes on loopback, started and stopped by the test."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ray_nodes import cluster, until

pytestmark = pytest.mark.slow
pytest.importorskip("ray", reason="Ray is not installed; pip install 'multipool[ray]'")

BASE = {"domains": ["fog", "snow"], "limit": 1024, "device": "cpu"}
SWEEP = [sys.executable, "-m", "multipool.cli.main", "sweep"]
GRID = {"base": BASE, "grid": {"method": ["bn", "tent", "rotta"], "seed": list(range(8))}}


@pytest.fixture
def two_nodes(tmp_path):
    """Yield the address, and a function that kills the second node."""
    with cluster(tmp_path, 2) as nodes:
        yield nodes.address, lambda: nodes.kill(1)


def test_24_runs_on_two_nodes_of_which_one_is_killed_are_24_results(two_nodes, tmp_path):
    address, kill_one = two_nodes
    file, out = tmp_path / "grid.json", tmp_path / "out"
    file.write_text(json.dumps(GRID))
    words = [*SWEEP, str(file), "--out", str(out)]
    words += ["--backend", "ray", "--ray-address", address]
    with (tmp_path / "sweep.log").open("w") as log:
        sweeping = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        until(lambda: len(list(out.glob("runs/*/result.json"))) >= 10)
        kill_one()
        sweeping.wait(timeout=300)
    finally:
        sweeping.kill()
        sweeping.wait()
    assert sweeping.returncode == 0, (tmp_path / "sweep.log").read_text()
    found = [json.loads(path.read_text()) for path in out.glob("runs/*/result.json")]
    assert len(found) == 24
    assert all(result["complete"] for result in found)
    lines = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    done = [line["run"] for line in lines if line["event"] == "done"]
    assert len(done) == len(set(done)) == 24
    assert len((out / "results.csv").read_text().splitlines()) == 25
    assert not list(out.glob(".shared-*"))


@pytest.mark.parametrize("address", ["auto", "127.0.0.1:9"])
def test_without_a_cluster_a_sentence_says_how_to_start_one(tmp_path, address):
    file = tmp_path / "grid.json"
    file.write_text(json.dumps({"base": BASE, "grid": {"seed": [0]}}))
    words = [*SWEEP, str(file), "--out", str(tmp_path)]
    words += ["--backend", "ray", "--ray-address", address]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 2, ended.stderr
    assert "ray start --head" in ended.stderr
