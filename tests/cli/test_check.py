"""``reproduce --check``: rows run again, through the command line, with the embedded model."""

from __future__ import annotations

import csv
import json

import pytest
import torch

from multipool import models
from multipool.bench.run.certificate import pack, unpack

RUN = ("--limit", 60, "--domains", "contrast,brightness", "--batch-size", 10, "--device", "cpu")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """One run of the embedded model, from which every test makes its own file."""
    from multipool.cli.main import main

    out = tmp_path_factory.mktemp("kept")
    words = ("run", "--method", "bn", *RUN, "--out", out / "run", "--quiet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MULTIPOOL_CACHE", str(out / "cache"))
        with pytest.raises(SystemExit):
            main([str(word) for word in words])
    return (out / "run" / "result.json").read_text(), out / "cache"


@pytest.fixture
def altered(kept, tmp_path, monkeypatch):
    """Return a function that writes the run with something changed in it."""
    monkeypatch.setenv("MULTIPOOL_CACHE", str(kept[1]))

    def write(change=lambda content: None):
        content = json.loads(kept[0])
        change(content)
        (tmp_path / "result.json").write_text(json.dumps(content))
        return tmp_path / "result.json"

    return write


def test_the_same_machine_agrees_exactly(call, altered):
    code, out, _ = call("reproduce", "--check", altered())
    assert code == 0
    assert "agrees exactly: error " in out


def test_a_tampered_error_does_not_agree(call, altered):
    path = altered(lambda content: content.update(error=content["error"] - 0.01))
    code, out, _ = call("reproduce", "--check", path)
    assert code == 1
    assert "does not agree: error " in out
    assert "expected exactly" in out


def test_a_tampered_error_of_one_domain_does_not_agree(call, altered):
    code, out, _ = call("reproduce", "--check", altered(lambda c: c["errors"].update(contrast=1.0)))
    assert code == 1
    assert "does not agree: error in contrast 1.0000 in the file" in out


def test_other_weights_do_not_agree_and_are_not_run(call, altered, tmp_path):
    model = models.load("shapes-wrn10-1")
    with torch.no_grad():
        models.classifier(model).bias.add_(0.1)
    file = tmp_path / "other.safetensors"
    models.save(model, file, {"architecture": "wrn10-1"})
    code, out, _ = call("reproduce", "--check", altered(), "--weights", file)
    assert code == 1
    assert "another run: weights: the row has digest" in out


def test_another_seed_is_another_stream(call, altered):
    code, out, _ = call("reproduce", "--check", altered(lambda c: c["certificate"].update(seed=1)))
    assert code == 1
    assert "it is another run: stream " in out


def test_another_version_agrees_within_a_tolerance_and_is_named(call, altered):
    def older(content):
        content["certificate"]["versions"]["torch"] = "1.0"
        content["error"] += 0.4

    code, out, _ = call("reproduce", "--check", altered(older))
    assert code == 0
    assert "agrees within 3.83 points, the largest difference is 0.4000 in error" in out
    assert "versions.torch 1.0, here " in out
    code, out, _ = call("reproduce", "--check", altered(lambda c: (older(c), c.update(error=90.0))))
    assert code == 1
    assert "expected within 3.83 points (versions.torch 1.0" in out


def test_weights_that_are_not_here_are_asked_for(call, altered):
    def named(content):
        content["certificate"]["weights"]["name"] = "mine.safetensors"

    code, out, err = call("reproduce", "--check", altered(named))
    assert (code, out) == (2, "")
    assert "made with the weights 'mine.safetensors' (digest " in err
    assert "--weights FILE" in err


def test_images_that_are_not_here_are_asked_for(call, altered, monkeypatch):
    monkeypatch.delenv("MULTIPOOL_DATA", raising=False)
    code, out, err = call(
        "reproduce",
        "--check",
        altered(lambda c: c["certificate"]["protocol"].update(dataset="cifar10-c")),
    )
    assert (code, out) == (2, "")
    assert "cifar10-c needs a data folder" in err


def test_code_that_a_file_names_is_not_run(call, altered, tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("raise SystemExit(7)\n")
    path = altered(lambda c: c["certificate"]["weights"].update(name=f"{bad}:make"))
    code, _, err = call("reproduce", "--check", path)
    assert code == 2
    assert "--model FILE.py:FUNCTION" in err


def test_an_old_result_gets_a_sentence_with_its_command(call, altered):
    code, _, err = call("reproduce", "--check", altered(lambda content: content.pop("certificate")))
    assert code == 2
    assert "has no certificate: it was written before rows had them" in err
    assert "multipool run --dataset shapes-c --method bn --limit 60" in err


def test_rows_of_a_sweep_a_comparison_and_a_table(call, altered, tmp_path):
    """A line of each kind of table, one of them old and one of them a time."""
    made = json.loads(altered().read_text())
    packed, error = pack([made["certificate"]]), made["error"]
    tables = {
        "results.csv": [
            {
                "method": "bn",
                "dataset": "shapes-c",
                "seed": 0,
                "error": error,
                "error contrast": "",
            },
            {"error contrast": made["errors"]["contrast"], "certificate": packed},
        ],
        "compare.csv": [
            {"kind": "x", "seed": 0, "error": "", "undecoded_error": error, "certificate": ""},
            {"certificate": packed},
        ],
        "table2.csv": [
            {"ours": 12.0, "by seed": "0:12", "measure": "time", "certificate": packed},
            {"ours": error, "measure": "average"},
        ],
    }
    for name, (first, second) in tables.items():
        lines = [first, {**first, **second}]
        with (tmp_path / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, list(lines[1]))
            writer.writeheader()
            writer.writerows(lines)
        code, out, err = call("reproduce", "--check", tmp_path / name)
        assert code == 0, (name, out, err)
        assert out.splitlines()[0].startswith("row 1 has no ")
        assert "row 2 agrees exactly" in out
        assert "1 of 1 rows agree; 1 not checked" in err
        code, out, _ = call("reproduce", "--check", tmp_path / name, "--row", 2, "--json")
        (verdict,) = json.loads(out)["rows"]
        assert (code, verdict["agrees"]) == (0, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "is no table of multipool sweep, compare or reproduce"),
        ("method,dataset,error,certificate\nbn,x,1,{\n", "row 1 is damaged: its certificate"),
        ("method,dataset,error,certificate\nbn,x,1,[{}]\n", "its certificate has no 'weights'"),
        ("method,dataset,error\nbn,x,1\n", "row 1 has no certificate"),
    ],
)
def test_damaged_tables_are_one_sentence(call, tmp_path, text, words):
    (tmp_path / "rows.csv").write_text(text)
    code, out, err = call("reproduce", "--check", tmp_path / "rows.csv")
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.strip().splitlines()) == 1


def test_a_row_that_contradicts_its_certificate_is_refused(call, altered, tmp_path):
    packed = pack([json.loads(altered().read_text())["certificate"]])
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["method", "dataset", "seed", "error", "certificate"], ["bn", "x", 3, 1.0, packed]]
        )
    code, _, err = call("reproduce", "--check", tmp_path / "rows.csv")
    assert code == 2
    assert "it says seed 3, its certificate 0" in err


def test_packing_keeps_every_part(altered):
    first = json.loads(altered().read_text())["certificate"]
    second = {**first, "seed": 1, "stream": "other"}
    assert unpack(pack([first, second])) == [first, second]
    assert pack([first, {}]) == ""
