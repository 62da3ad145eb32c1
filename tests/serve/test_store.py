"""The folder: one service at a time, for one model, and nothing half written."""

import json
import logging
import math

import pytest

from multipool.serve.events import Events, JsonLines
from multipool.serve.history import History
from multipool.serve.make import Recipe
from multipool.serve.store import Store


def test_a_folder_has_one_service_at_a_time(tmp_path):
    store = Store(tmp_path)
    with pytest.raises(ValueError, match="in use by another service"):
        Store(tmp_path)
    store.close()
    Store(tmp_path).close()


def test_streams_of_another_model_or_method_are_refused(tmp_path):
    store = Store(tmp_path)
    store.check_identity({"model": "abc", "method": "multipool"})
    store.check_identity({"model": "abc", "method": "multipool"})
    with pytest.raises(ValueError, match="method 'multipool', this service has 'tent'"):
        store.check_identity({"model": "abc", "method": "tent"})
    store.close()


def test_what_a_killed_service_left_is_swept_up(tmp_path):
    (tmp_path / "streams").mkdir()
    part = tmp_path / "streams" / ".a.safetensors.0123456789abcdef.part"
    part.write_bytes(b"half")
    (tmp_path / "streams" / "notes.txt").write_text("mine")
    store = Store(tmp_path)
    assert not part.exists()
    assert store.names() == []
    assert (tmp_path / "streams" / "notes.txt").exists()
    store.close()


def test_a_service_with_another_seed_does_not_take_the_folder(make_service):
    import asyncio

    first = make_service()
    asyncio.run(first.backend.close())
    with pytest.raises(ValueError, match="seed 0, this service has 1"):
        make_service(recipe=Recipe(seed=1))


def test_a_history_keeps_a_point_a_second_and_the_last():
    history = History(points=3, apart=1.0)
    for step in range(100):
        history.add(step / 10, step, None if step < 50 else 0.5, 1.0)
    lists = history.lists()
    assert lists["images"][-1] == 99
    assert len(lists["time"]) == 3
    assert lists["time"][1] - lists["time"][0] > 0.99
    assert lists["estimate"] == [0.5] * 3
    empty = History()
    empty.add(0.0, 1, math.nan, 1.0)
    assert empty.lists()["estimate"] == [None]


def test_events_are_kept_counted_and_logged_as_json(caplog):
    events = Events(kept=2)
    with caplog.at_level(logging.INFO, "multipool.serve"):
        for number in range(3):
            events.add("damaged", f"s{number}", 'a "quoted" detail', "error")
    assert [e.stream for e in events.last()] == ["s2", "s1"]
    assert [e.stream for e in events.last(5, "s1")] == ["s1"]
    assert events.counts["damaged"] == 3
    line = json.loads(JsonLines().format(caplog.records[-1]))
    assert line["message"] == "damaged"
    assert line["level"] == "error"
    assert line["stream"] == "s2"
    assert line["detail"] == 'a "quoted" detail'
