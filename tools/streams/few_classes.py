"""Streams that show few classes, in random order: errors of methods beside the source model's.

For every domain and seed other classes are drawn; each stream has an adapter of its own, without
the decoder. Prints a table and, with --csv, writes a line for each domain:

    python tools/streams/few_classes.py WEIGHTS --dataset cifar10-c --shown 1,2,5,10 --data-dir DATA
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from multipool import data, methods, models
from multipool.data import Dataset


def picked(labels: np.ndarray, shown: int, images: int, seed: int) -> np.ndarray:
    """Return ``images`` places of ``labels`` ``(N,)`` of ``shown`` classes, in random order.

    Where there are fewer, all of them come again in another order.
    """
    draw = np.random.default_rng(seed)
    classes = draw.permutation(int(labels.max()) + 1)[:shown]
    mine = np.flatnonzero(np.isin(labels, classes))
    rounds = -(-images // len(mine))
    return np.concatenate([draw.permutation(mine) for _ in range(rounds)])[:images]


def error(
    model: torch.nn.Module, method: str, dataset: Dataset, domain: str, rows: np.ndarray, size: int
) -> float:
    """Return the error in per cent on these ``rows`` of a domain, in batches of ``size``."""
    adapter, wrong = methods.adapt(model, method, decode="none", seed=0), 0
    labels = torch.from_numpy(np.asarray(dataset.labels(domain))[rows])
    for start in range(0, len(rows), size):
        answers = adapter(dataset.images(domain, rows[start : start + size])).argmax(dim=1)
        wrong += int((answers.cpu() != labels[start : start + size]).sum())
    return 100 * wrong / len(rows)


def lines(given: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Return a line for each number of classes, size of batches, domain and method."""
    model = models.load(given.weights).eval()
    dataset = data.load(given.dataset, data_dir=given.data_dir)
    for shown in (int(n) for n in given.shown.split(",")):
        for size in (int(n) for n in given.batch_sizes.split(",")):
            for number, domain in enumerate(dataset.domains):
                labels = np.asarray(dataset.labels(domain))
                rows = picked(labels, shown, given.images, given.seed + number)
                for method in given.methods.split(","):
                    found = error(model, method, dataset, domain, rows, size)
                    yield {
                        "dataset": given.dataset, "weights": Path(given.weights).name,
                        "shown": shown, "batch_size": size, "images": given.images,
                        "seed": given.seed, "domain": domain, "method": method,
                        "error": round(found, 2),
                    }  # fmt: skip


def main() -> None:
    """Ask every method and print the means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights")
    parser.add_argument("--dataset", default="cifar10-c")
    parser.add_argument("--data-dir")
    parser.add_argument("--shown", default="1,2,5,10", help="how many classes streams show")
    parser.add_argument("--batch-sizes", default="64")
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--methods", default="source,bn,multipool")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    found = list(lines(given))
    if given.csv is not None:
        with given.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(found)
    cells: dict[tuple[object, ...], list[float]] = {}
    for line in found:
        key = (line["shown"], line["batch_size"], line["method"])
        cells.setdefault(key, []).append(float(str(line["error"])))
    for (shown, size, method), errors in cells.items():
        mean = statistics.mean(errors)
        print(f"{shown:>4} classes, batches of {size:>3}: {method:<10} {mean:5.1f}")


if __name__ == "__main__":
    main()
