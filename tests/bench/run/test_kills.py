"""A run that is killed at any moment is resumed, and measures what it would have measured."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def killed(tmp_path, kills, seed, limit):
    script = Path(__file__).with_name("kills.py")
    words = [sys.executable, str(script), str(tmp_path / "runs"), kills, seed, limit]
    cache = os.environ.get("MULTIPOOL_SOAK_CACHE", str(tmp_path / "cache"))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MULTIPOOL_CACHE": cache}
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_run_killed_three_times_measures_what_it_would_have_measured(tmp_path):
    found = killed(tmp_path, kills=3, seed=1, limit=160)
    assert found["kills"] == 3
    assert found["killed at"], "no kill came after a checkpoint"


@pytest.mark.slow
def test_a_run_killed_fifty_times_measures_what_it_would_have_measured(tmp_path, capsys):
    found = killed(tmp_path, kills=50, seed=2, limit=480)
    assert found["kills"] == 50
    assert len(found["killed at"]) > 10
    with capsys.disabled():
        print(f"\nkills: {found}")
