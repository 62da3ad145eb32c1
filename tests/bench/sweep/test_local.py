"""Sweeps in real processes, and what happens when those are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from multipool.bench.sweep import Options, expand, sweep
from multipool.bench.sweep.ledger import JOURNAL
from multipool.bench.sweep.local import _places, cores, default_workers

BASE = {"domains": ["fog", "snow"], "limit": 512, "device": "cpu"}
SWEEP = [sys.executable, "-m", "multipool.cli.main", "sweep"]
GRID = {"base": BASE, "grid": {"method": ["source", "bn", "tent"], "seed": list(range(8))}}


def test_a_worker_process_reports_its_error_and_lives_on(tmp_path):
    content = {
        "base": {"dataset": "cifar100-c", "weights": "shapes-wrn10-1", "device": "cpu"},
        "grid": {"data_dir": [str(tmp_path / "none")], "seed": [0, 1]},
    }
    ended = sweep(expand(content), tmp_path, options=Options(workers=1))
    assert ended.done == ()
    assert ended.results is None
    assert len(ended.failed) == 2
    assert all(str(tmp_path / "none") in sentence for sentence in ended.failed.values())
    assert not list(tmp_path.rglob("claim.json"))


@pytest.mark.parametrize(
    ("visible", "gpus", "spread", "expected"),
    [
        (None, 1, True, [None, None, None]),
        (None, 2, True, ["0", "1", "0"]),
        ("5,7", 2, True, ["5", "7", "5"]),
        (None, 2, False, [None, None, None]),  # a run names its own
    ],
)
def test_workers_are_spread_over_gpus(monkeypatch, visible, gpus, spread, expected):
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    places = [_places(number, 3, spread) for number in range(3)]
    assert [place.get("CUDA_VISIBLE_DEVICES") for place in places] == expected
    assert all(place["OMP_NUM_THREADS"] == "3" for place in places)


def test_there_is_a_worker_for_each_gpu_or_each_core(monkeypatch):
    runs = {device: expand({"runs": [{"device": device}]}) for device in ("auto", "cpu")}
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    assert default_workers(runs["auto"]) == 3
    assert default_workers(runs["cpu"]) == cores()
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert default_workers(runs["auto"]) == cores()


@pytest.mark.slow
def test_a_sweep_needs_no_package_of_the_command_line(tmp_path, cache):
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    for name in ("typer", "rich", "yaml", "matplotlib", "pooch"):
        (shadow / f"{name}.py").write_text("raise ImportError('this machine has none')")
    file = tmp_path / "grid.json"
    file.write_text(json.dumps({"base": {**BASE, "method": "source"}, "grid": {"seed": [0]}}))
    path = os.pathsep.join([str(shadow), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "MULTIPOOL_CACHE": str(cache), "PYTHONPATH": path}
    code = "from multipool.bench.sweep import *; sweep(read('grid.json'), 'out')"
    words = [sys.executable, "-c", code]
    subprocess.run(words, env=env, capture_output=True, check=True, cwd=tmp_path)
    (line,) = results(tmp_path / "out")
    assert line.startswith("source-shapes-c-seed0-")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def start(tmp_path, cache):
    """Return a function that starts the sweep of 24 runs on ``tmp_path`` in a process."""
    file = tmp_path / "grid.json"
    file.write_text(json.dumps(GRID))
    started = []

    def go(*words):
        command = [*SWEEP, str(file), "--out"]
        command += [str(tmp_path), "--workers", "2", *words]
        env = {**os.environ, "MULTIPOOL_CACHE": str(cache)}
        process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield go
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def results(out):
    return {path.parent.name: path.read_bytes() for path in out.glob("runs/*/result.json")}


def complete(out):
    return {n: text for n, text in results(out).items() if json.loads(text)["complete"]}


def journal(out, event):
    lines = [json.loads(line) for line in (out / JOURNAL).read_text().splitlines()]
    return [line["run"] for line in lines if line["event"] == event]


def until(condition, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def children(pid):
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def workers(pid):
    """Return the worker processes of a driver; multiprocessing starts a helper beside them."""
    commands = {}
    for child in children(pid):
        try:
            commands[child] = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
    return [child for child, command in commands.items() if b"spawn_main" in command]


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.slow
def test_24_runs_killed_half_way_and_started_again_are_24_results_each_run_once(start, tmp_path):
    first = start()
    until(lambda: len(results(tmp_path)) >= 12)
    helpers = workers(first.pid)
    assert len(helpers) == 2
    first.send_signal(signal.SIGKILL)
    first.wait()
    # Workers end with their driver: nothing goes on behind the second sweep's back.
    until(lambda: not any(alive(pid) for pid in helpers), 30)
    before = complete(tmp_path)
    assert 12 <= len(before) < 24
    counted = len(journal(tmp_path, "started"))
    second = start()
    said, _ = second.communicate(timeout=300)
    assert second.returncode == 0, said
    after = complete(tmp_path)
    assert len(after) == 24
    assert {name: after[name] for name in before} == before
    again = journal(tmp_path, "started")[counted:]
    assert sorted(again) == sorted(after.keys() - before.keys())
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 25
    assert not list(tmp_path.rglob("claim.json"))


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_run_done(start, tmp_path):
    sweeping = start()
    until(lambda: len(results(tmp_path)) >= 6)
    os.kill(workers(sweeping.pid)[0], signal.SIGKILL)
    said, _ = sweeping.communicate(timeout=300)
    assert sweeping.returncode == 0, said
    assert len(complete(tmp_path)) == 24
    assert len(journal(tmp_path, "done")) == 24


@pytest.mark.slow
def test_two_sweeps_at_once_on_one_folder_do_every_run_once(start, tmp_path):
    both = [start(), start()]
    for sweeping in both:
        said, _ = sweeping.communicate(timeout=300)
        assert sweeping.returncode == 0, said
        assert "24 done, 0 failed" in said
    assert len(complete(tmp_path)) == 24
    assert len(set(journal(tmp_path, "done"))) == len(journal(tmp_path, "done")) == 24
    assert len(journal(tmp_path, "started")) == 24


@pytest.mark.slow
def test_an_interrupted_sweep_leaves_no_claim_and_no_process(start, tmp_path):
    sweeping = start()
    until(lambda: len(results(tmp_path)) >= 6)
    helpers = workers(sweeping.pid)
    sweeping.send_signal(signal.SIGINT)
    sweeping.communicate(timeout=120)
    assert sweeping.returncode == 130
    assert not any(alive(pid) for pid in helpers)
    assert not list(tmp_path.rglob("claim.json"))
    assert (tmp_path / "results.csv").exists()


@pytest.mark.slow
def test_a_sweep_takes_at_most_0_6_of_the_time_of_separate_runs(start, tmp_path, cache):
    warm = start()  # draws the images and corrupts them, which nobody is timed for
    warm.communicate(timeout=300)
    for path in (*results(tmp_path), "."):
        (tmp_path / "runs" / path / "result.json").unlink(missing_ok=True)
    began = time.perf_counter()
    start().communicate(timeout=300)
    together = time.perf_counter() - began
    assert len(complete(tmp_path)) == 24
    command = [Path(sys.executable).parent / "multipool", "run", "--domains", "fog,snow"]
    command += ["--limit", "512", "--device", "cpu", "--quiet", "--method"]
    env = {**os.environ, "MULTIPOOL_CACHE": str(cache)}
    began = time.perf_counter()
    for method in ("source", "bn", "tent"):
        for seed in ("0", "1"):
            out = tmp_path / f"{method}-{seed}"
            words = [*command, method, "--seed", seed, "--out", out]
            subprocess.run(words, env=env, check=True, capture_output=True)
    apart = 4 * (time.perf_counter() - began)  # a quarter of the 24 is timed
    print(f"24 runs: sweep {together:.1f} s, one after another {apart:.1f} s")
    assert together <= 0.6 * apart
