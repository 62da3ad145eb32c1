from __future__ import annotations

import dataclasses
import statistics

import pytest

from multipool.bench.report.summary import NO_MEMORY, sections
from multipool.bench.run.result import Result


def result(method="rotta", memory="single", seed=0, error=40.0, **settings):
    chosen = {
        "dataset": "shapes-c",
        "protocol": "ptta",
        "method": method,
        "memory": memory,
        "seed": seed,
        "options": {},
        "memory_options": {},
        "source": None,
        **settings,
    }
    bank = None if memory is None else {"size": 1, "sizes": [1], "events": {}, "trace": []}
    return Result(
        error=error,
        errors={"fog": error - 1, "snow": error + 1},
        complete=True,
        settings=chosen,
        versions={},
        seed=seed,
        samples=1000,
        total=1000,
        memory=bank,
        timing={"memory": 0.5},
        samples_per_second=100.0,
    )


def test_seeds_of_one_setting_make_one_row_with_mean_and_sample_deviation():
    (section,) = sections([result(seed=s, error=e) for s, e in enumerate((40.0, 42.0, 47.0))])
    (row,) = section.rows
    assert row.mean == pytest.approx(43.0)
    assert row.std == pytest.approx(statistics.stdev([40.0, 42.0, 47.0]))
    assert row.seeds == (0, 1, 2)
    assert row.domain_error("fog") == pytest.approx(42.0)
    assert row.memory_cost == pytest.approx(500.0)  # half a second for 1,000 samples


def test_one_seed_has_no_deviation():
    (section,) = sections([result()])
    assert section.rows[0].std is None


def test_the_gain_of_a_memory_is_paired_by_seed():
    runs = [result(seed=s, error=e) for s, e in enumerate((40.0, 50.0))]
    runs += [result(memory="mcm", seed=s, error=e) for s, e in ((0, 39.0), (1, 47.0), (2, 90.0))]
    (section,) = sections(runs)
    single, mcm = section.rows
    gain = section.gain(mcm)
    assert gain is not None
    assert gain.difference == pytest.approx(-2.0)  # seed 2 has no partner
    assert gain.error == pytest.approx(1.0)  # deviation of -1 and -3 is sqrt 2, over sqrt 2
    assert gain.pairs == 2
    assert section.gain(single) is None


def test_a_gain_needs_the_same_hyperparameters():
    runs = [result(options={"lr": 0.1}), result(memory="mcm", options={"lr": 0.2})]
    (section,) = sections(runs)
    assert section.gain(section.rows[1]) is None
    runs.append(result(options={"lr": 0.2}, error=44.0))
    (section,) = sections(runs)
    mcm = next(row for row in section.rows if row.memory == "mcm")
    gain = section.gain(mcm)
    assert gain is not None
    assert gain.difference == pytest.approx(-4.0)


def test_no_memory_given_means_the_methods_own_pool():
    runs = [result(), result(method="source", memory=None)]
    runs[0].settings["memory"] = None
    (section,) = sections(runs)
    assert [row.memory for row in section.rows] == [NO_MEMORY, "single"]


def test_other_streams_are_not_compared():
    assert len(sections([result(), result(protocol="ctta"), result(limit=10)])) == 3


def test_rows_that_differ_in_an_option_say_so():
    runs = [result(options={"lr": lr, "k": 1}) for lr in (0.1, 0.2)]
    (section,) = sections(runs)
    assert [row.label for row in section.rows] == [
        "rotta + single (lr=0.1)",
        "rotta + single (lr=0.2)",
    ]


def test_interrupted_runs_are_left_out():
    half = result()
    object.__setattr__(half, "complete", False)
    assert sections([half]) == []


def test_rows_come_in_the_same_order_whatever_the_order_of_files():
    runs = [result(m, b) for m in ("rotta", "petta") for b in ("mcm+", "mcm", "single")]
    runs.append(result("source", None))
    forward, backward = sections(runs)[0], sections(runs[::-1])[0]
    assert [r.label for r in forward.rows] == [r.label for r in backward.rows]
    assert [r.label for r in forward.rows[:2]] == ["source", "petta + single"]


def test_a_memory_left_out_is_the_one_that_the_method_prefers():
    runs = [
        dataclasses.replace(result(m), settings={**result(m).settings, "memory": None})
        for m in ("multipool", "rotta", "of another version")
    ]
    (section,) = sections(runs)
    assert {row.method: row.memory for row in section.rows} == {
        "multipool": "mcm+",
        "rotta": "single",
        "of another version": "single",
    }


def test_the_error_before_the_decoder_is_a_mean_over_seeds():
    runs = [
        dataclasses.replace(result(seed=s), undecoded_error=e) for s, e in ((0, 50.0), (1, 54.0))
    ]
    (section,) = sections(runs)
    assert section.rows[0].undecoded == pytest.approx(52.0)
    assert sections([result()])[0].rows[0].undecoded is None
