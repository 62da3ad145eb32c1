"""Run experiments again whose errors were recorded, and compare to the last digit, on one CPU core.

``golden.csv`` holds what commit 2a01efe measured, before the rooms were rebuilt: seed 0, everything
else as ``multipool run`` had it by default. ``python tests/golden/compare.py [WORD ...]`` runs the
rows that have all the words (``... compare.py shapes-c rotta``); without words, all. An error of
two numbers is what that commit measured on two processors, whose sums are rounded otherwise.
"""

from __future__ import annotations

import csv
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from multipool.bench.run import Experiment, run
from multipool.bench.run.loader import Loader

ROWS = Path(__file__).with_name("golden.csv")
# Sums are rounded in another order elsewhere, and a single prediction may tip over.
MADE_WITH = ("2.13.0", "AVX2")
WEIGHTS = {
    "shapes-c": None,
    "cifar10-c": "cifar10_wrn16_2.safetensors",
    "cifar100-c": "cifar100_wrn16_2.safetensors",
}
SOURCES = {"petta": "test", "eata": "test", "mecta": "test", "rmt": "train"}


@dataclass(frozen=True)
class Golden:
    """One recorded run."""

    dataset: str
    method: str
    memory: str  # "": the method's own pool, or none
    limit: int
    errors: tuple[float, ...]

    @property
    def name(self) -> str:
        """Return what the row is chosen by."""
        return f"{self.dataset} {self.method} {self.memory or 'own'} {self.limit}"


def golden() -> list[Golden]:
    """Return every recorded run."""
    with ROWS.open(newline="") as file:
        lines = list(csv.DictReader(file))
    return [
        Golden(
            r["dataset"],
            r["method"],
            r["memory"],
            int(r["limit"]),
            tuple(map(float, r["error"].split())),
        )  # fmt: skip
        for r in lines
    ]


def measure(row: Golden, loader: Loader, shared: Path | None = None) -> float | None:
    """Return the error of a recorded run as it is now; real data lie in the folder ``shared``."""
    weights = WEIGHTS[row.dataset]
    real = weights is not None and shared is not None
    experiment = Experiment(
        dataset=row.dataset,
        method=row.method,
        memory=row.memory or None,
        weights=str(shared / "weights" / weights) if real else None,
        data_dir=str(shared / "data") if real else None,
        source=SOURCES.get(row.method),
        limit=row.limit,
        device="cpu",
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return run(experiment, loader=loader).error
    finally:
        torch.set_num_threads(threads)


def made_here() -> bool:
    """Return whether torch and the processor are those that the numbers were recorded with."""
    found = (torch.__version__.partition("+")[0], torch.backends.cpu.get_cpu_capability())
    return found == MADE_WITH


def main(words: list[str]) -> int:
    """Compare the rows chosen, print a line for each, and return how many differ."""
    shared = Path(os.environ.get("MULTIPOOL_SHARED", ROWS.resolve().parents[3] / "shared"))
    loader, differ = Loader(), 0
    for row in golden():
        if not set(words) <= set(row.name.split()):
            continue
        found = measure(row, loader, shared)
        differ += found not in row.errors
        said = "same" if found in row.errors else f"differs from {row.errors}"
        print(f"{row.name}: {found} {said}", flush=True)
    print(f"{differ} differ" + ("" if made_here() else f"; recorded with {MADE_WITH}"))
    return differ


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
