from __future__ import annotations

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multipool.bench.paper import derive
from multipool.bench.paper.cell import Cell
from multipool.bench.paper.grids import GRID
from multipool.bench.paper.layout import NONE, blocks
from multipool.bench.paper.published import Published, published
from multipool.bench.paper.reproduction import Reproduction, markdown_page, write_table
from multipool.bench.paper.setting import Setting

errors = st.dictionaries(st.integers(0, 9), st.floats(0, 100), min_size=2, max_size=5)


@given(values=errors, others=errors)
def test_numbers_are_those_of_numpy(values, others):
    cell = Cell("a", "error", values, 30.0, against="b", others=others)
    mine = np.array(list(values.values()))
    assert cell.ours == pytest.approx(mine.mean())
    assert cell.std == pytest.approx(mine.std(ddof=1), abs=1e-9)
    assert cell.difference == pytest.approx(mine.mean() - 30.0)
    pairs = np.array([values[s] - others[s] for s in values if s in others])
    if len(pairs) == 0:
        assert cell.gain is None
    else:
        assert cell.gain.difference == pytest.approx(pairs.mean())
        assert cell.gain.pairs == len(pairs)
    if len(pairs) > 1:
        expected = pairs.std(ddof=1) / np.sqrt(len(pairs))
        assert cell.gain.error == pytest.approx(expected, abs=1e-9)


def test_of_times_the_least_counts():
    cell = Cell("a", "time", {0: 5.0, 1: 9.0}, 4.0, least=True)
    assert (cell.ours, cell.std, cell.difference) == (5.0, None, 1.0)


def test_nothing_measured_is_a_dash_not_a_zero():
    cells = [Cell("a", "error", {0: 1.0}, 2.0), Cell("b", "error", {}, 3.0)]
    (block,) = blocks(cells, per_round=False)
    assert block.rows == (("a", "1.00", "2.00", "-1.00"), ("b", NONE, "3.00", NONE))


def test_parts_without_a_measurement_are_left_out():
    cells = [Cell("a", "error", {0: 1.0}), Cell("a", "error", {}, 3.0, part="other")]
    assert [block.title for block in blocks(cells, per_round=False)] == [""]


def test_rounds_stand_above_each_other():
    cells = [Cell("a", f"round {n}", {0: 10.0 + n}, 9.0) for n in (1, 2)]
    cells.append(Cell("a", "average", {0: 11.5}, 9.0))
    averages, rounds = blocks(cells, per_round=True)
    assert averages.rows == (("a", "11.50", "9.00", "+2.50"),)
    assert rounds.columns == ("", "", "1", "2", "mean")
    assert rounds.rows[0] == ("a", "ours", "11.0", "12.0", "11.5")
    assert rounds.rows[2] == ("", "difference", "+2.0", "+3.0", "+2.5")


def test_the_best_threshold_of_each_distance_is_found():
    grid = {"Cosine, 0.05": 40.0, "Cosine, 0.01": 38.0, "Euclidean (L2), 0.3": 39.0}
    cells = [Cell(row, "error", {0: v, 1: v}, part=GRID) for row, v in grid.items()]
    cells.append(Cell("Cosine, 0.1", "error", {0: 1.0}, part=GRID))  # not all seeds: no winner
    found = {(c.part, c.row, c.column): c for c in derive.distances(cells, published("tableS2"))}
    assert found["", "Cosine", "threshold"].ours == 0.01
    assert found["", "Cosine", "threshold"].paper == 0.05
    assert found["", "Cosine", "error"].ours == 38.0
    assert found[derive.AT_PAPERS, "Cosine", "error"].ours == 40.0
    assert found["", "Cosine", "error"].paper_gain == pytest.approx(34.27 - 33.04)
    assert ("", "Mahalanobis", "error") not in found


def test_a_stand_in_is_called_by_its_own_name():
    cells = [
        Cell("BN", "CIFAR100-C", {0: 1.0}, 52.9, part="CIFAR100-C", dataset=dataset)
        for dataset in ("shapes-c", "cifar100-c")
    ]
    other, own = derive.methods(cells, published("table1"))
    assert (other.part, other.paper) == ("shapes-c beside the paper's CIFAR100-C", 52.9)
    assert own == cells[1]


def test_times_are_set_in_relation():
    cells = [
        Cell("GCC", "time", {0: 30.0}, 1094.0, least=True),
        Cell("ACC", "time", {0: 20.0}, 1049.0, least=True),
    ]
    found = {(c.row, c.column): c for c in derive.consolidations(cells, published("table4"))}
    assert found["GCC", derive.RELATIVE].ours == 1.5
    assert found["GCC", derive.RELATIVE].paper == pytest.approx(1094 / 1049)


def test_the_best_feature_threshold_joins_table_3():
    cells = [
        Cell("CNN Feature (5.0)", "error", {0: 50.0}, 43.3),
        Cell("Pixel Stat (0.3)", "error", {0: 40.0}, 33.04),
        Cell("CNN Feature (5.0)", "error", {0: 50.0}, part=GRID),
        Cell("CNN Feature (15.0)", "error", {0: 45.0}, part=GRID),
    ]
    found = derive.descriptors(cells, published("table3"))
    assert [c.row for c in found[:3]] == [
        "CNN Feature (5.0)",
        "CNN Feature, our best (15.0)",
        "Pixel Stat (0.3)",
    ]
    assert (found[1].ours, found[1].paper, found[1].gain.difference) == (45.0, 43.3, 5.0)


def test_files_say_the_scale_and_hold_every_number(tmp_path):
    cell = Cell("a", "error", {0: 1.0, 2: 2.0}, 3.0, against="b", others={0: 2.0}, dataset="x")
    setting = Setting("small")
    report = Reproduction("table2", "Title", setting, (cell,), ("Mind this.",), face=setting.face())
    write_table(report, tmp_path / "table2.csv")
    with (tmp_path / "table2.csv").open() as file:
        (line,) = csv.DictReader(file)
    assert line["scale"] == "small"
    assert (line["ours"], line["paper"], line["ours - paper"]) == ("1.5", "3.0", "-1.5")
    assert (line["paired difference"], line["standard error"]) == ("-1.0", "")
    assert line["by seed"] == "0:1.0 2:2.0"
    text = markdown_page(report, tmp_path)
    assert text.startswith("# table2: Title\n\n**SMALL: shapes-c in place")
    assert "- Mind this." in text


def test_an_empty_table_is_no_block():
    assert blocks([], per_round=False) == []
    nothing = Published("", "", {}, ())
    assert derive.descriptors([], nothing) == derive.distances([], nothing) == []
