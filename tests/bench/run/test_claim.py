from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from multipool.bench.run import claim
from multipool.bench.run.claim import FILE, STALE, Claims, Holder, holder, is_stale, machine


@pytest.fixture
def crowd():
    made = []

    def new(**options):
        made.append(Claims(**options))
        return made[-1]

    yield new
    for claims in made:
        claims.close()


def leave(folder, **facts):
    """Leave a claim in ``folder`` as another process would."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"host": machine(), "pid": os.getpid(), "started": "0", "token": "x", **facts}
    (folder / FILE).write_text(json.dumps(content))
    return folder / FILE


def test_a_claim_is_held_by_one_and_free_after_its_release(crowd, tmp_path):
    first, second = crowd(), crowd()
    assert first.take(tmp_path)
    assert not second.take(tmp_path)
    first.release(tmp_path)
    assert not (tmp_path / FILE).exists()
    assert second.take(tmp_path)


def test_of_many_that_want_a_claim_at_once_one_gets_it(crowd, tmp_path):
    for stale in (False, True):
        folder = tmp_path / str(stale) / "run"
        if stale:
            leave(folder)
        rivals = [crowd() for _ in range(12)]
        start, won = threading.Barrier(len(rivals)), []

        def rival(claims, folder=folder, start=start, won=won):
            start.wait()
            if claims.take(folder):
                won.append(claims)

        threads = [threading.Thread(target=rival, args=(claims,)) for claims in rivals]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1


def test_the_claim_of_a_dead_process_here_is_stale_at_once(crowd, tmp_path):
    code = (  # the file alone: importing the package takes seconds
        "import os, runpy, sys; from pathlib import Path\n"
        "claims = runpy.run_path(sys.argv[1])['Claims']()\n"
        "assert claims.take(Path(sys.argv[2])); os.kill(os.getpid(), 9)\n"
    )
    words = [sys.executable, "-c", code, claim.__file__, str(tmp_path)]
    ended = subprocess.run(words, timeout=120, check=False)
    assert ended.returncode == -9
    assert (tmp_path / FILE).exists()
    assert crowd().take(tmp_path)


def test_a_later_process_with_the_same_number_does_not_keep_a_claim_alive(tmp_path):
    assert is_stale(leave(tmp_path, started="another time"))


def test_elsewhere_only_silence_makes_a_claim_stale(crowd, tmp_path):
    path = leave(tmp_path, host="far away", pid=1)
    assert not crowd().take(tmp_path)
    old = time.time() - STALE - 5
    os.utime(path, (old, old))
    assert crowd().take(tmp_path)


def test_a_claim_that_is_just_being_written_is_respected(crowd, tmp_path):
    (tmp_path / FILE).touch()
    assert holder(tmp_path / FILE) is None
    assert not crowd().take(tmp_path)


def test_a_held_claim_gives_signs_of_life(crowd, tmp_path):
    claims = crowd(beat=0.005)
    assert claims.take(tmp_path)
    os.utime(tmp_path / FILE, (1, 1))
    deadline = time.monotonic() + 20
    while (tmp_path / FILE).stat().st_mtime < 2 and time.monotonic() < deadline:
        threading.Event().wait(0.005)
    assert (tmp_path / FILE).stat().st_mtime > 2


def test_nobody_releases_a_claim_that_was_taken_over(crowd, tmp_path):
    claims = crowd()
    assert claims.take(tmp_path)
    path = leave(tmp_path, host="far away", pid=1)
    claims.release(tmp_path)
    assert holder(path) == Holder("far away", 1, "0", "x")


def test_closing_gives_up_every_claim(tmp_path):
    claims = Claims()
    assert claims.take(tmp_path / "a")
    assert claims.take(tmp_path / "b")
    claims.close()
    assert not list(tmp_path.rglob(FILE))


def test_a_claim_that_vanishes_costs_nobody_elses(crowd, tmp_path, monkeypatch):
    """The file is gone when it is looked at, and another's stands there when it is acted upon."""
    look, alive = claim.is_stale, claim._started(os.getpid())

    def vanishing(path, stale=STALE):
        path.unlink()
        found = look(path, stale)
        leave(tmp_path, started=alive, token="another's")
        return found

    leave(tmp_path)
    monkeypatch.setattr(claim, "is_stale", vanishing)
    assert not crowd().take(tmp_path)
    assert holder(tmp_path / FILE).token == "another's"


def test_claims_work_without_locks(crowd, tmp_path, monkeypatch):
    monkeypatch.setattr(claim, "fcntl", None)
    leave(tmp_path)
    first = crowd()
    assert first.take(tmp_path)
    assert not crowd().take(tmp_path)
    first.release(tmp_path)
    assert not (tmp_path / FILE).exists()


def test_a_run_needs_no_module_that_only_unix_has(tmp_path):
    code = (
        "import sys; sys.modules.update(fcntl=None, resource=None)\n"
        "import torch; from multipool.bench.run.environment import host\n"
        "import multipool.bench.sweep, multipool.bench.paper\n"
        "assert 'peak_memory_mib' not in host(torch.device('cpu'))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
