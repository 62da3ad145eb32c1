"""Left running for long, memory use and speed stay what they are and nothing goes unanswered."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(("method", "memory"), [("petta", "mcm"), ("multipool", "mcm+")])
def test_a_hundred_thousand_samples_leave_memory_and_speed_as_they_were(
    method, memory, tmp_path, capsys
):
    cache = os.environ.get("MULTIPOOL_SOAK_CACHE", str(tmp_path / "cache"))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MULTIPOOL_CACHE": cache}
    script = str(Path(__file__).with_name("soak.py"))
    words = [sys.executable, script, method, memory, "20", "5010"]
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    with capsys.disabled():
        print(f"\nsoak, {method}: {found}")
    assert found["samples"] == found["expected"] >= 100_000
    assert found["without prediction"] == 0
    assert found["MB per 10,000 samples"] < 1
    assert found["pools at the end"] <= found["pools after a tenth"] + 1  # all domains were shown
    # Of CPU time: what else the machine does must not count.
    first, last = (found[f"samples/s of CPU, {end} fifth"] for end in ("first", "last"))
    assert last > 0.85 * first
