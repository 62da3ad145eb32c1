"""Killed at any moment, a service goes on from its last save."""

import pytest

from .kills import kill_often


def test_a_killed_service_goes_on_from_its_last_save(tmp_path):
    out = kill_often(tmp_path, kills=1, streams=2, save_every=1.0)
    assert out.answers >= 10
    assert out.wrong == 0


@pytest.mark.slow
def test_fifty_kills_under_load(tmp_path):
    out = kill_often(tmp_path, kills=50, streams=4, save_every=2.0)
    print(f"{out.answers} answers, {sum(out.forgotten)} forgotten, at most {max(out.forgotten)}")
    assert out.kills == 50
    assert out.wrong == 0
    # The clock begins a save at half its time; the rest is for the disk.
    assert max(out.oldest) < 2 * 2.0
