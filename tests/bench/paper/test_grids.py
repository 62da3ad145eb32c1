from __future__ import annotations

import itertools

import pytest

from multipool.bench.paper import TARGETS, Setting, cases_of
from multipool.bench.paper.derive import RELATIVE
from multipool.bench.paper.grids import DISTANCES, FEATURE_THRESHOLDS, GRIDS
from multipool.bench.paper.plan import entries_of
from multipool.bench.paper.published import published

FULL = Setting()


def identities(name):
    return {entry.row: entry.case.identity(FULL, 0) for entry in GRIDS[name]()}


@pytest.mark.parametrize("name", GRIDS)
def test_every_printed_number_has_an_experiment(name):
    there = {(entry.row, entry.column) for entry in GRIDS[name]()}
    if name == "tableS2":  # found among its grid
        rows = {row.rpartition(", ")[0] for row, _ in there}
        assert rows == set(published(name).rows)
        return
    printed = {(r, c) for r, columns in published(name).rows.items() for c in columns}
    assert printed <= there


@pytest.mark.parametrize("name", GRIDS)
def test_cells_do_not_repeat_and_are_compared_with_rows_that_are_there(name):
    entries = list(GRIDS[name]())
    places = [(entry.part, entry.row, entry.column) for entry in entries]
    assert len(set(places)) == len(places)
    for entry in entries:
        assert not entry.against or (entry.part, entry.against, entry.column) in places


def test_what_the_paper_calls_by_many_names_is_one_run():
    full = {
        identities("table1")["PeTTA + MCM"],
        identities("table2")["MCM + ACC + UCR"],
        identities("table3")["Pixel Stat (0.3)"],
        identities("table4")["ACC"],
        identities("tableS2")["Euclidean (L2), 0.3"],
        identities("figS1")["K_max 5"],
        identities("fig3")["PeTTA, mcm 320"],
    }
    assert len({i for i in full if '"cifar100-c"' in i}) == 1
    again = {identities(name)["PeTTA + MCM"] for name in ("table5", "tableS3")}
    assert again == {identities("tableS1")["threshold 0.3"]}


def test_different_rows_are_different_runs():
    for name in ("table2", "table3", "table4", "table5", "tableS1", "tableS2", "fig3", "figS1"):
        found = [i for _, i in sorted(identities(name).items())]
        assert len(set(found)) == len(found), name


def test_thresholds_hold_the_papers_best():
    for name, (_, thresholds) in DISTANCES.items():
        assert published("tableS2").value(name, "threshold") in thresholds
    assert 5.0 in FEATURE_THRESHOLDS
    assert len(FEATURE_THRESHOLDS) == 7  # "selected from seven candidates"


def test_ids_share_their_runs():
    ids = [name for name in TARGETS if name in GRIDS]
    alone = sum(len(cases_of([name], FULL)) for name in ids)
    together = cases_of(ids, FULL)
    assert len(together) < alone
    keys = [case.identity(FULL, 0) for case in together]
    assert len(set(keys)) == len(keys)


def test_a_stand_in_takes_the_place_of_one_dataset():
    small = Setting("small")
    assert {entry.case.dataset for entry in entries_of("table1", small)} == {"cifar100-c"}
    assert {entry.case.dataset for entry in entries_of("tableS4", small)} == {"cifar10-c"}
    assert len({entry.case.dataset for entry in entries_of("table1", FULL)}) == 4


def test_rounds_that_are_not_run_have_no_column():
    columns = {entry.column for entry in entries_of("tableS1", Setting("small", rounds=3))}
    assert columns == {"round 1", "round 2", "round 3", "average"}


def test_methods_can_be_chosen():
    chosen = Setting(methods=("petta",))
    assert {entry.case.method for entry in entries_of("table5", chosen)} == {"petta"}


def test_relative_times_have_a_name_of_their_own():
    columns = [entry.column for name in GRIDS for entry in GRIDS[name]()]
    assert RELATIVE not in itertools.chain(columns)
