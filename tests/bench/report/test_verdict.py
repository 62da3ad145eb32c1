"""The sentence under a table follows its numbers, whichever method they favour."""

from __future__ import annotations

import pytest

from multipool.bench.report.summary import Row, Section
from multipool.bench.report.verdict import over_source, verdict
from multipool.bench.run.result import Result


def row(method, error, memory="–"):
    """A row of one run with this error."""
    settings = {"method": method}
    run = Result(error, {}, True, settings, versions={}, seed=0, samples=1, total=1)
    return Row(method, memory, "", (run,))


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            [row("source", 40.0), row("bn", 30.0), row("multipool", 20.0, "mcm+")],
            "On this stream use multipool: 20.0 % error; next is bn with 30.0 %; "
            "the source model has 40.0 %.",
        ),
        (
            [row("source", 40.0), row("rotta", 31.0, "mcm"), row("bn", 30.5), row("tent", 30.1)],
            "On this stream use tent or bn or rotta + mcm: 30.1 and 30.5 and 31.0 % error "
            "(too close to call); next is the source model with 40.0 %.",
        ),
        (
            [row("source", 20.0), row("bn", 30.0)],
            "On this stream use the source model: 20.0 % error; next is bn with 30.0 %. "
            "Worse than not adapting at all: bn.",
        ),
        (
            [row("rotta", 31.0, "mcm"), row("bn", 35.0)],
            "On this stream use rotta + mcm: 31.0 % error; next is bn with 35.0 %; the source "
            "model was not run, so whether adapting pays is not known.",
        ),
        ([row("source", 20.0)], "On this stream use the source model: 20.0 % error."),
    ],
)
def test_the_sentence_follows_the_numbers(rows, sentence):
    assert verdict(rows) == sentence


def seeds(method, errors, memory="–"):
    """A row of one run a seed."""
    runs = [
        Result(e, {}, True, {"method": method}, versions={}, seed=s, samples=1, total=1)
        for s, e in enumerate(errors)
    ]
    return Row(method, memory, "", tuple(runs))


def test_with_seeds_the_spread_of_the_difference_decides_what_is_close():
    steady = [seeds("source", (40, 42)), seeds("bn", (30.0, 32.1)), seeds("tent", (30.5, 32.5))]
    assert verdict(steady).startswith("On this stream use bn: ")
    noisy = [seeds("source", (40, 42)), seeds("bn", (30.0, 32.1)), seeds("tent", (32.5, 30.5))]
    assert verdict(noisy).startswith("On this stream use bn or tent: ")


def test_the_gain_over_source_is_paired_by_seed():
    frozen, adapted = seeds("source", (40, 50)), seeds("bn", (30, 44))
    section = Section({}, (frozen, adapted))
    gain = over_source(section, adapted)
    assert (gain.difference, gain.error, gain.pairs) == (-8.0, 2.0, 2)
    assert over_source(section, frozen) is None
    assert over_source(Section({}, (adapted,)), adapted) is None
