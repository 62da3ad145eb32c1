"""What the tables of the small comparison must say, from its rows."""

from __future__ import annotations

from pages import ROOT

from multipool.bench.compare import SCALES, Judgement, judge, read_rows

Cells = list[list[float] | None]


def judgement(decoded: bool) -> Judgement:
    """Return the verdict over the methods and columns that ``--scale small`` has."""
    scale = SCALES["small"]
    columns = {kind.column for kind in scale.kinds}
    rows = read_rows(ROOT / "docs" / "data" / "compare" / "small.csv")
    kept = [row for row in rows if row.method in scale.methods and row.column in columns]
    assert len(kept) == len(scale.methods) * len(columns)
    found = judge(kept, decoded)
    assert found is not None
    return found


def regrets(decoded: bool) -> dict[str, Cells]:
    """Return regret by column, its mean and worst, and how often a method was worse than source."""
    found, wanted = judgement(decoded), [kind.column for kind in SCALES["small"].kinds]
    table: dict[str, Cells] = {}
    for line in found.standings:
        cells: Cells = [[found.regrets[column][line.row]] for column in wanted]
        worse = None if line.worse is None else [float(line.worse), float(line.columns)]
        table[line.row] = [*cells, [line.mean], [line.worst], worse]
    return table
