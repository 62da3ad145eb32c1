from __future__ import annotations

import json

from multipool.engine import statistics


def test_statistics_are_written_for_every_class(call, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("multipool.cli.statistics.Loader", tiny)
    path = tmp_path / "s.safetensors"
    code, out, err = call("statistics", "--out", path)
    assert (code, out.strip()) == (0, str(path))
    assert "90 clean test images, of which the stream shows corrupted copies" in err
    found = statistics.read(path)
    assert found.mean.shape[0] == 4
    assert int(found.counts.sum()) == 90
    _, out, _ = call("statistics", "--out", path, "--json")
    assert json.loads(out)["images"] == 90
