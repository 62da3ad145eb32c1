"""Which runs are handed out, to whom, and what becomes of those that are lost."""

from __future__ import annotations

from multipool.bench.sweep import expand
from multipool.bench.sweep import ledger as ledgers
from multipool.bench.sweep.ledger import SweepLedger
from multipool.bench.sweep.planned import FAILED
from multipool.bench.sweep.work import BROKEN, DONE, STOPPED, Outcome, execute

SMALL = {"batch_size": 8, "device": "cpu"}


def test_two_sweeps_on_one_folder_share_the_work(tmp_path, loader, monkeypatch, seeds, events):
    monkeypatch.setattr(ledgers, "POLL", 0.0)
    runs = seeds(5)
    with SweepLedger(runs, tmp_path) as one, SweepLedger(runs, tmp_path) as two:
        turns = [one, two, two, one, one]
        taken = [(ledger, ledger.next()) for ledger in turns]
        assert {run.name for _, run in taken} == {run.name for run in runs}
        assert one.next() is None
        assert two.next() is None
        assert not one.settled
        for ledger, run in taken:
            ledger.settle(run, execute(run, run.folder(tmp_path), loader))
        assert one.next() is None
        assert two.next() is None
        assert one.settled
        assert two.settled
        assert len(one.found) == 2
        assert len(two.found) == 3
    assert sorted(events(tmp_path, "done")) == sorted(run.name for run in runs)


def test_a_run_that_another_sweep_abandons_is_taken_over(tmp_path, loader, monkeypatch, seeds):
    monkeypatch.setattr(ledgers, "POLL", 0.0)
    (run,) = seeds(1)
    with SweepLedger([run], tmp_path) as mine:
        with SweepLedger([run], tmp_path) as other:
            assert other.next() is run
            assert mine.next() is None
        assert mine.next() is run


def test_a_failure_that_another_sweep_has_just_seen_is_not_repeated(tmp_path, monkeypatch, seeds):
    monkeypatch.setattr(ledgers, "POLL", 0.0)
    (run,) = seeds(1)
    with SweepLedger([run], tmp_path) as mine, SweepLedger([run], tmp_path) as other:
        other.settle(other.next(), Outcome("failed", sentence="no luck"))
        assert mine.next() is None
        assert mine.outcomes[run.name].sentence == "no luck"


def test_a_run_whose_worker_dies_is_tried_again_but_not_for_ever(tmp_path, seeds, events):
    (run,) = seeds(1)
    with SweepLedger([run], tmp_path, retries=2) as ledger:
        for _ in range(3):
            assert ledger.next() is run
            ledger.lost(run, "killed by SIGKILL")
        assert ledger.settled
        said = ledger.outcomes[run.name].sentence
    assert said == "its worker died 3 times, the last time: killed by SIGKILL"
    assert events(tmp_path, "lost") == [run.name] * 2
    assert (run.folder(tmp_path) / FAILED).exists()


def test_a_run_that_somebody_else_interrupts_is_queued_again(tmp_path, seeds):
    (run,) = seeds(1)
    with SweepLedger([run], tmp_path) as ledger:
        ledger.settle(ledger.next(), Outcome(STOPPED))
        assert not ledger.settled
        assert ledger.next() is run
        ledger.stopping = True
        ledger.settle(run, Outcome(STOPPED))
        assert not ledger.settled
        assert ledger.next() is None


def test_a_run_whose_gpu_failed_is_tried_again_and_then_says_why(tmp_path, seeds, events):
    torn = Outcome(BROKEN, sentence="CUDA error: misaligned address", reusable=False)
    with SweepLedger(seeds(2), tmp_path, retries=1) as ledger:
        first = ledger.next()
        ledger.settle(first, torn)
        assert not ledger.outcomes
        second = ledger.next()
        assert second is not first  # behind the others
        ledger.settle(second, Outcome(DONE, error=1.0))
        assert ledger.next() is first
        ledger.settle(first, torn)
    assert ledger.outcomes[first.name].sentence == torn.sentence
    assert ledger.outcomes[second.name].state == DONE
    assert events(tmp_path, "lost") == [first.name]


def test_a_worker_that_dies_after_writing_its_result_has_not_lost_it(tmp_path, loader, seeds):
    (run,) = seeds(1)
    with SweepLedger([run], tmp_path) as ledger:
        execute(ledger.next(), run.folder(tmp_path), loader)
        ledger.lost(run, "killed by SIGKILL")
        assert ledger.outcomes[run.name].state == DONE


def test_a_worker_is_given_what_it_has_loaded(tmp_path):
    content = {
        "base": {"method": "source", **SMALL},
        "grid": {"severity": [3, 5], "seed": [0, 1]},
    }
    runs = expand(content)
    with SweepLedger(runs, tmp_path) as ledger:
        first = ledger.next()
        other = next(run for run in runs if run.load_key != first.load_key)
        assert ledger.next(other.load_key).load_key == other.load_key
        assert ledger.next(first.load_key).load_key == first.load_key
