"""The results in a folder, found by what was run: whoever made them, and wherever."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from multipool.bench.paper.case import Case, identity
from multipool.bench.paper.setting import Setting
from multipool.bench.run import loader as loading
from multipool.bench.run.result import Result
from multipool.bench.sweep.collect import complete


class Found:
    """The complete runs of a folder ``out/runs``.

    A run is found by its settings without paths and device. Its weights are told by the name of
    their file (those asked for, or, where none are, the only ones in the folder), and by their
    digest where the file is on this machine.
    """

    def __init__(self, out: Path, setting: Setting) -> None:
        self.setting, self.out = setting, out
        self._runs: dict[str, list[Result]] = {}
        for _, run in complete(out):
            self._runs.setdefault(identity(run.settings), []).append(run)

    def runs(self, case: Case) -> dict[int, Result]:
        """Return the results of a case by seed, as far as they are there."""
        found = {}
        for seed in self.setting.runs_seeds:
            run = self._chosen(case, seed)
            if run is not None:
                found[seed] = run
        return found

    def missing(self, cases: Iterable[Case]) -> list[tuple[Case, int]]:
        """Return the case and seed of every run that is not there."""
        seeds = self.setting.runs_seeds
        return [(case, seed) for case in cases for seed in seeds if not self._chosen(case, seed)]

    def _chosen(self, case: Case, seed: int) -> Result | None:
        runs = self._runs.get(case.identity(self.setting, seed), [])
        wanted = self.setting.weights_of(self.setting.dataset(case.dataset))
        if wanted is not None:
            runs = [run for run in runs if _weights(run) == Path(wanted).name]
            now = None
            with suppress(ValueError):  # who wants to run with such a file is told then
                now = loading.weights_digest(wanted)
            runs = [run for run in runs if now in (None, run.weights.get("digest", now))]
        names = sorted({_weights(run) for run in runs})
        if len(names) > 1:
            raise ValueError(
                f"{self.out} has runs of {case.dataset} with different weights "
                f"({', '.join(names)}); say which with --weights"
            )
        return runs[-1] if runs else None


def _weights(run: Result) -> str:
    return Path(str(run.settings.get("weights"))).name
