from __future__ import annotations

import json

import pytest

from multipool.bench.report import demo
from multipool.bench.report.report import FILE
from multipool.bench.report.verdict import verdict
from multipool.data import COMMON


@pytest.fixture
def short(tiny, monkeypatch):
    """The demo on the tiny dataset, with one of the hosts only."""
    monkeypatch.setattr(tiny, "per_domain", 128)
    monkeypatch.setattr(demo, "Loader", tiny)
    monkeypatch.setattr(demo, "HOSTS", ("rotta",))


def test_the_demo_shows_a_table_and_writes_a_page(call, short, tmp_path):
    code, out, _ = call("demo", "--out", tmp_path / "d", "--images", 128)
    assert code == 0
    for word in ("source", "bn", "tent", "single", "mcm", "multipool", "decoded", "may be chance"):
        assert word in out
    assert out.strip().splitlines()[-1] == f"report: {tmp_path / 'd' / FILE}"
    assert (tmp_path / "d" / FILE).is_file()


def test_the_last_sentence_says_which_to_use(call, short, tmp_path):
    _, out, _ = call("demo", "--out", tmp_path, "--images", 128)
    told = out.strip().splitlines()[-2]
    assert told.startswith("On this stream use ")
    section, _ = demo.demo(tmp_path, per_domain=128)
    assert told == verdict(section.rows)
    assert told in (tmp_path / FILE).read_text(encoding="utf-8")


def test_the_demo_in_json(call, short, tmp_path):
    _, out, err = call("demo", "--out", tmp_path, "--images", 128, "--json")
    content = json.loads(out)
    assert err == ""
    assert [(run["method"], run["memory"]) for run in content["runs"]][0][0] == "source"
    assert content["report"] == str(tmp_path / FILE)
    assert content["conclusion"].startswith("On this stream use ")


def test_the_demo_is_the_published_plan():
    planned = demo.experiments()
    assert len(planned) == 11
    assert list(planned)[:4] == ["source", "bn", "tent", "tribe"]
    for experiment in planned.values():
        assert experiment.domains == COMMON[:6]
        assert experiment.limit == 3000
        assert experiment.seed == 0
        assert not experiment.guard


def test_remarks_say_when_a_memory_is_worse(call, short, tmp_path):
    section, _ = demo.demo(tmp_path, per_domain=128)
    remark, ours = demo.remarks(section)
    by_name = {row.memory: row.mean for row in section.rows if row.method == "rotta"}
    assert f"mcm {by_name['mcm'] - by_name['single']:+.1f} against its own pool" in remark
    (row,) = (row for row in section.rows if row.method == "multipool")
    assert f"{row.undecoded:.1f} % before its decoder" in ours
