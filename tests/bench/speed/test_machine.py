"""One bench at a time, and what else the machine was doing."""

import fcntl
import threading
from pathlib import Path

import pytest
import torch

from multipool.bench.speed.machine import Witness, _busy_seconds, turn


def test_a_second_bench_waits_for_the_first(tmp_path):
    lock, order, said = tmp_path / "lock", [], []
    waiting = threading.Event()

    def second():
        def note(words):
            said.append(words)
            waiting.set()

        with turn(note, lock):
            order.append("second")

    with turn(lock=lock):
        other = threading.Thread(target=second)
        other.start()
        assert waiting.wait(timeout=20)
        order.append("first")
    other.join(timeout=20)
    assert order == ["first", "second"]
    assert said == ["waiting for another bench on this machine"]


def test_the_lock_of_another_user_is_read_only_and_serves(tmp_path, monkeypatch):
    lock, opened = tmp_path / "lock", Path.open
    lock.touch()

    def refuse(self, mode="r", *rest, **more):
        if mode == "a":
            raise PermissionError
        return opened(self, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", refuse)
    with turn(lock=lock), pytest.raises(BlockingIOError), lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_an_error_gives_the_turn_away(tmp_path):
    try:
        with turn(lock=tmp_path / "lock"):
            raise KeyError
    except KeyError:
        pass
    with turn(lock=tmp_path / "lock"):
        pass


def test_a_witness_tells_the_machine_and_who_else_was_busy():
    witness = Witness(torch.device("cpu"))
    torch.rand(200, 200).svd()
    facts = witness.facts()
    assert facts["device"] == "cpu"
    assert facts["own_cores"] >= 0
    assert facts.get("cores_busy_with_others", 0.0) >= 0


def test_busy_seconds_leave_out_idle_ones_and_are_none_where_nothing_is_said(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 50 9000 10 0 0 0 0 0\ncpu0 1 2\n")
    found = _busy_seconds(stat)
    assert found is not None
    assert 0 < found <= 150
    assert _busy_seconds(tmp_path / "missing") is None
