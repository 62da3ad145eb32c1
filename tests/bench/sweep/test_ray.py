"""A sweep on a Ray cluster of two nodes on loopback, started and stopped by the test."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
pytest.importorskip("ray", reason="Ray is not installed; pip install 'multipool[ray]'")

BASE = {"domains": ["fog", "snow"], "limit": 1024, "device": "cpu"}
SWEEP = [sys.executable, "-m", "multipool.cli.main", "sweep"]
GRID = {"base": BASE, "grid": {"method": ["bn", "tent", "rotta"], "seed": list(range(8))}}


def until(condition, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture
def cluster(tmp_path):
    """Two nodes of one core each; yields the address, and a function that kills the second."""
    port = free_port()
    # Sockets live in this folder, and their names must be short.
    place = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    env = {**os.environ, "MULTIPOOL_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    common = ["--num-cpus=1", "--num-gpus=0", "--object-store-memory=100000000", "--block"]
    common += ["--disable-usage-stats"]
    program = shutil.which("ray", path=Path(sys.executable).parent)
    nodes = []

    def node(*words):
        with (tmp_path / f"node{len(nodes)}.log").open("w") as log:
            command = [program, "start", *words, *common]
            nodes.append(
                # A session of its own: the node's processes are then one group to end.
                subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
            )
        log = tmp_path / f"node{len(nodes) - 1}.log"
        until(lambda: "block forever" in log.read_text() or nodes[-1].poll() is not None, 120)
        assert nodes[-1].poll() is None, log.read_text()

    def end(number):
        with suppress(ProcessLookupError):
            os.killpg(nodes[number].pid, signal.SIGKILL)
        nodes[number].wait()

    try:
        head = ["--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={place}"]
        node(*head, "--node-ip-address=127.0.0.1")
        node(f"--address=127.0.0.1:{port}", "--node-ip-address=127.0.0.1")
        yield f"127.0.0.1:{port}", lambda: end(1)
    finally:
        for number in reversed(range(len(nodes))):
            end(number)
        shutil.rmtree(place, ignore_errors=True)


def test_24_runs_on_two_nodes_of_which_one_is_killed_are_24_results(cluster, tmp_path):
    address, kill_one = cluster
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
