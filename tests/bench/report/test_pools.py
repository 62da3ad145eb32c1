"""Which pool was active beside the true domains: stretches, table, figure, page."""

from __future__ import annotations

import csv
import dataclasses

import pytest

from multipool.bench.report.pools import Stretch, domain_stretches, pool_stretches
from multipool.bench.report.report import report
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.runner import run
from multipool.bench.run.tally import MOST_CHANGES


@pytest.fixture(scope="module")
def done(tmp_path_factory, loader_class):
    """A run of the default method; its pools are then made up, so that they are known."""
    tiny = loader_class()
    where = tmp_path_factory.mktemp("pooled")
    made = run(Experiment(batch_size=10, device="cpu"), where / "own", loader=tiny)
    trace = [{"samples": 10, "pool": 0}, {"samples": 110, "pool": 3}, {"samples": 200, "pool": 0}]
    pools = {"pools": 2, "pool": 0, "created": 2, "recalled": 7, "merged": 0, "split": 0}
    return dataclasses.replace(made, pools={**pools, "trace": trace}, undecoded_error=43.21)


def test_a_pool_is_active_from_the_first_image_of_the_batch_that_noted_it(done):
    assert pool_stretches(done) == [
        Stretch("pool 0", 0, 100),
        Stretch("pool 3", 100, 190),
        Stretch("pool 0", 190, 270),
    ]


def test_domains_end_where_the_next_begins(done):
    assert domain_stretches(done) == [
        Stretch("dark", 0, 90),
        Stretch("plain", 90, 180),
        Stretch("bright", 180, 270),
    ]


def test_a_full_list_of_changes_says_nothing_about_the_rest(done):
    full = [{"samples": 10 + n, "pool": n % 2} for n in range(MOST_CHANGES)]
    long = dataclasses.replace(done, pools={"trace": full}, samples=10**6)
    assert pool_stretches(long)[-1].end == MOST_CHANGES - 1


def test_runs_without_pools_have_none(done):
    assert pool_stretches(dataclasses.replace(done, pools=None)) == []
    assert pool_stretches(dataclasses.replace(done, pools={"pools": 0, "trace": []})) == []


def test_the_page_shows_timeline_counts_and_the_undecoded_error(done, tmp_path):
    done.write(tmp_path / "a")
    text = report(tmp_path).read_text(encoding="utf-8")
    for part in ("<h3>Pools</h3>", "<td>7</td>", "pool 3", "undecoded %", "<td>43.21</td>"):
        assert part in text
    with (tmp_path / "figures" / "pools.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[1] == ["domain", "dark", "0", "90"]
    assert rows[-1] == ["pool", "pool 0", "190", "270"]


def test_every_run_has_a_figure_of_its_own(done, tmp_path):
    done.write(tmp_path / "a")
    settings = {**done.settings, "seed": 1}
    dataclasses.replace(done, seed=1, settings=settings, changes=[]).write(tmp_path / "b")
    text = report(tmp_path).read_text(encoding="utf-8")
    assert {p.name for p in (tmp_path / "figures").glob("*pools.csv")} == {
        "1-pools.csv",
        "2-pools.csv",
    }
    assert text.count("Above the domains that the stream showed") == 2


def test_without_pools_and_decoder_the_page_says_nothing_of_them(done, tmp_path):
    dataclasses.replace(done, pools=None, undecoded_error=None).write(tmp_path / "a")
    text = report(tmp_path).read_text(encoding="utf-8")
    assert "<h3>Pools</h3>" not in text
    assert "undecoded" not in text
    assert not (tmp_path / "figures" / "pools.svg").exists()
