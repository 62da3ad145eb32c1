"""A whole comparison, in this process, on the tiny dataset."""

from __future__ import annotations

import subprocess
import sys

import pytest

from multipool.bench.compare import Setting, cases, compare, read_rows, write_tables

TWO = Setting(methods=("source", "bn"), kinds=("ctta", "mixed"), seeds=(0, 1), device="cpu")


def test_every_method_runs_on_every_kind_with_every_seed():
    planned = cases(TWO)
    assert len({case.planned.name for case in planned}) == len(planned) == 8
    first = planned[0]
    assert (first.kind.name, first.entrant.method, first.planned.experiment.seed) == (
        "ctta",
        "source",
        0,
    )


@pytest.mark.parametrize(
    ("asked", "decoder"), [("both", "sequence"), ("sequence", "sequence"), ("none", "none")]
)
def test_the_decoder_is_on_for_all_methods_or_off_for_all(asked, decoder):
    setting = Setting(methods=("multipool", "bn"), kinds=("ctta",), decode=asked, device="cpu")
    assert [case.planned.experiment.decoder() for case in cases(setting)] == [decoder, decoder]


def test_one_run_yields_the_error_with_and_without_the_decoder(inline, tmp_path):
    made = compare(tmp_path, TWO, backend=inline)
    assert [table.decoded for table in made.judgements] == [True, False]
    assert all(row.error is not None and row.undecoded_error is not None for row in made.rows)


def test_a_comparison_writes_table_and_page_and_a_second_one_runs_nothing(inline, tmp_path):
    made = compare(tmp_path, TWO, backend=inline)
    assert made.failed == {}
    assert read_rows(made.table) == list(made.rows)
    assert [(row.kind, row.method, row.seed) for row in made.rows][:3] == [
        ("ctta", "source", 0),
        ("ctta", "source", 1),
        ("ctta", "bn", 0),
    ]
    assert made.page.read_text().startswith("<!doctype html>")
    plain = made.judgements[-1]
    assert not plain.decoded
    assert set(plain.errors) == {"shapes-c/wrn10-1/ctta", "shapes-c/wrn10-1/mixed"}

    def nothing(work, runs, options):
        assert work.next() is None

    again = compare(tmp_path, TWO, backend=nothing)
    assert again.rows == made.rows


def test_a_failed_run_costs_its_cell_only(inline, tmp_path):
    # The tiny dataset has no severities, so a gradual stream cannot be made of it.
    setting = Setting(methods=("source",), kinds=("gradual", "ctta"), device="cpu")
    made = compare(tmp_path, setting, backend=inline)
    assert [row.kind for row in made.rows] == ["ctta"]
    assert "needs severities" in next(iter(made.failed.values()))


def test_where_every_run_failed_the_first_reason_is_given(inline, tmp_path):
    setting = Setting(methods=("source",), kinds=("gradual",), device="cpu")
    with pytest.raises(ValueError, match="no run ended well.*needs severities"):
        compare(tmp_path, setting, backend=inline)


def test_tables_can_be_made_of_runs_from_elsewhere(rows, tmp_path):
    made = write_tables(rows, tmp_path, Setting())
    assert [table.decoded for table in made.judgements] == [True, False]
    assert [
        table.decoded for table in write_tables(rows, tmp_path, Setting(decode="none")).judgements
    ] == [False]


def test_a_table_without_decoded_runs_is_refused_where_they_are_asked_for(row, tmp_path):
    with pytest.raises(ValueError, match="no run was made with decode sequence"):
        write_tables([row("bn", "ptta", None, 3.0)], tmp_path, Setting(decode="sequence"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"scale": "smal"}, "did you mean 'small'"),
        ({"decode": "all"}, "unknown choice of decode 'all'"),
        ({"methods": ()}, "methods must be different, at least one"),
        ({"seeds": (0, 0)}, "seeds must be different"),
    ],
)
def test_a_mistaken_setting_is_one_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Setting(**options)


def test_missing_weights_are_told_before_anything_runs(tmp_path):
    with pytest.raises(FileNotFoundError, match="--weights-dir"):
        cases(Setting("full", methods=("source",), weights_dir=str(tmp_path)))


def test_it_needs_none_of_the_command_lines_packages():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['typer', 'rich', 'matplotlib', 'yaml']));"
        "import multipool.bench.compare as c; print(len(c.cases(c.Setting(seeds=(3,)))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 48
