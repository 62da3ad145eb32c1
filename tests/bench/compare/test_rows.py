"""compare.csv, written and read back."""

from __future__ import annotations

import pytest

from multipool.bench.compare.rows import read_rows, scores, write_rows


def test_what_is_written_is_read_back(rows, tmp_path, row):
    rows = [*rows, row("bn", "gamma-1", None, 3.25, speed=None)]
    path = write_rows(rows, tmp_path)
    assert read_rows(path) == rows
    first = path.read_text().splitlines()[0]
    assert first == (
        "kind,dataset,model,method,memory,seed,error,undecoded_error,images_per_second,certificate"
    )


def test_tables_from_before_there_were_certificates_are_read(rows, tmp_path):
    path = write_rows(rows, tmp_path)
    lines = [line.rpartition(",")[0] for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines) + "\n")
    assert read_rows(path) == rows


def test_scores_are_with_or_without_the_decoder(row):
    both, plain = row("bn", "ptta", 10.0, 30.0), row("bn", "ptta", None, 31.0, seed=1)
    assert [(s.seed, s.error) for s in scores([both, plain], decoded=True)] == [(0, 10.0)]
    assert [(s.seed, s.error) for s in scores([both, plain], decoded=False)] == [
        (0, 30.0),
        (1, 31.0),
    ]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("ptta,d,m,bn,,zero,1,2,3", "line 2 is no line of multipool compare"),
        ("ptta,d,m,bn,,0,nan,2,3", "a number from 0 on is expected, got nan"),
        ("ptta,d,m", "line 2 is no line"),
    ],
)
def test_a_damaged_table_is_one_sentence(rows, tmp_path, line, sentence):
    path = write_rows(rows[:1], tmp_path)
    path.write_text(path.read_text().splitlines()[0] + "\n" + line + "\n")
    with pytest.raises(ValueError, match=sentence):
        read_rows(path)


def test_another_table_is_refused(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("run,label\na,b\n")
    with pytest.raises(ValueError, match="no table of multipool compare"):
        read_rows(path)
    with pytest.raises(FileNotFoundError, match="no table at"):
        read_rows(tmp_path / "none.csv")
