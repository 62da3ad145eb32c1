from __future__ import annotations

import json

import pytest


def test_report_writes_a_page_about_the_runs_of_a_folder(call, tiny, tmp_path):
    call("run", "--method", "source", "--batch-size", 8, "--out", tmp_path / "a", "--quiet")
    code, out, _ = call("report", tmp_path)
    assert (code, out.strip()) == (0, f"report: {tmp_path / 'report.html'}")
    _, out, _ = call("report", tmp_path, "--quiet")
    assert out.strip() == str(tmp_path / "report.html")
    _, out, _ = call("report", tmp_path, "--json", "--title", "Mine")
    content = json.loads(out)
    assert content["report"] == str(tmp_path / "report.html")
    assert any(name.endswith(".csv") for name in content["figures"])
    assert "<title>Mine</title>" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("default")
def test_a_damaged_file_is_a_line_of_warning(call, tiny, tmp_path):
    call("run", "--method", "source", "--batch-size", 8, "--out", tmp_path / "a", "--quiet")
    (tmp_path / "result.json").write_text("{")
    code, _, err = call("report", tmp_path)
    assert code == 0
    assert err.startswith("warning: left out: ")
    assert len(err.splitlines()) == 1
