"""Whether the guard takes a correlated stream for a collapse, and whether it sees a real one.

``python trips.py STREAM [METHOD[+MEMORY][@LR] ...]`` prints a row for each method: its error
without the guard, that of the same state without learning, in how many windows of probes the rule
holds, and, where it holds in any, what the guard makes of the run. ``MULTIPOOL_SHARED`` says where
the CIFAR images and weights are. Every batch is probed here, so all windows that start at any batch
are judged, not only those of each sixteenth.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from multipool.bench.run.experiment import Experiment
from multipool.bench.run.loader import Loader
from multipool.bench.run.session import Session
from multipool.data import PROTOCOLS
from multipool.engine.collapse import QUICK, WINDOW, Verdict, judge, tally
from multipool.engine.recovery import probe_interval
from multipool.methods import METHODS, Adapter

SHARED = Path(os.environ.get("MULTIPOOL_SHARED", Path(__file__).resolve().parents[4] / "shared"))
STABLE = (
    *("rotta", "rotta+mcm", "petta", "petta+mcm", "resitta", "resitta+mcm+", "note", "tribe"),
    *("roid", "eata", "rdumb", "mecta", "rmt", "cotta"),
)
STREAMS: dict[str, dict[str, object]] = {
    "shapes": {"gamma": 0.1, "seed": 1},
    "shapes, seed 2": {"gamma": 0.1, "seed": 2},
    "shapes, gamma 0.01": {"gamma": 0.01, "seed": 1},
    "shapes, gamma 0.001": {"gamma": 0.001, "seed": 2},
    "shapes, 6 rounds": {"protocol": "recurring", "rounds": 6, "seed": 1, "limit": 6000},
    "shapes, 10 classes": {"protocol": "recurring", "rounds": 8, "seed": 1},
    "shapes, clean first": {"gamma": 0.1, "seed": 1, "limit": 15000},
    "cifar10": {"dataset": "cifar10-c", "gamma": 0.1, "seed": 1, "limit": 12000},
    "cifar10, gamma 0.01": {"dataset": "cifar10-c", "gamma": 0.01, "seed": 2, "limit": 12000},
    "cifar10, clean first": {"dataset": "cifar10-c", "gamma": 0.1, "seed": 3, "limit": 9000},
    "cifar100": {"dataset": "cifar100-c", "gamma": 0.1, "seed": 1, "limit": 12000},
    "cifar100, gamma 0.01": {"dataset": "cifar100-c", "gamma": 0.01, "seed": 1, "limit": 12000},
}
FEW = 10  # classes shown, where a stream says so; the model knows 100
CLEAN = 4096  # images shown before the first corruption, where a stream says "clean first"
OPTIONS = {"cotta": {"views": 4}, "rmt": {"warmup_images": 640}}


def session(stream: str, method: str, *, guard: bool) -> Session:
    """Return a run of ``method[+memory][@lr]`` on a stream, not yet begun."""
    name, _, rate = method.partition("@")
    name, _, memory = name.partition("+")
    settings = dict(STREAMS[stream])
    kind = str(settings.get("dataset", "shapes-c"))
    if kind != "shapes-c":
        weights = SHARED / "weights" / f"{kind.removesuffix('-c')}_wrn16_2.safetensors"
        settings |= {"data_dir": str(SHARED / "data"), "weights": str(weights)}
    options = OPTIONS.get(name, {}) | ({"lr": float(rate)} if rate else {})
    experiment = Experiment(
        method=name, memory=memory or None, device="cpu", guard=guard, options=options, **settings
    )
    return Session(experiment, Loader(), torch.device("cpu"))


def batches(stream: str, found: Session) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield images and labels; a stream may begin with clean images, or show some classes only."""
    if stream.endswith("classes"):
        yield from few(found)
        return
    if stream.endswith("clean first"):
        clean = found.stream.dataset.source("test").whole()
        labels = torch.as_tensor(clean.labels)
        order = torch.from_numpy(PROTOCOLS["ptta"](labels, torch.zeros_like(labels), seed=1))[
            :CLEAN
        ]
        for rows in order.split(64):
            yield torch.as_tensor(clean.images)[rows], labels[rows]
    start = 0
    for images in found.remaining():
        yield images, torch.from_numpy(found.stream.labels[start : start + len(images)])
        start += len(images)


def few(found: Session) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of the images of the first classes, in the order of the stream."""
    labels, kept = torch.from_numpy(found.stream.labels), []
    for number, images in enumerate(found.remaining()):
        own = labels[64 * number : 64 * number + len(images)]
        kept += [(image, label) for image, label in zip(images, own, strict=True) if label < FEW]
        while len(kept) >= 64:
            rows, kept = kept[:64], kept[64:]
            yield torch.stack([image for image, _ in rows]), torch.stack([c for _, c in rows])


def look(stream: str, method: str) -> tuple[Tensor, list[float]]:
    """Run without the guard; return tallies ``(batches, 2, L + 1)`` and both errors."""
    live, home = session(stream, method, guard=False), session(stream, method, guard=False)
    tallies, wrong, count = [], [0, 0], 0
    for images, labels in batches(stream, live):
        answers = [live.adapter(images), home.adapter.predict(images)]
        tallies.append(torch.stack([tally(a) for a in answers]))
        for i, answer in enumerate(answers):
            wrong[i] += int((answer.argmax(dim=1) != labels).sum())
        count += len(labels)
    return torch.stack(tallies), [round(100 * w / count, 2) for w in wrong]


def verdicts(tallies: Tensor, every: int) -> list[Verdict]:
    """Return the verdict after each batch, had it and each ``every``-th before it been probed."""
    found = []
    for last in range(len(tallies)):
        window = tallies[last % every : last + 1 : every][-WINDOW:]
        if len(window) >= QUICK:
            found.append(judge(window))
    return found


def guarded(stream: str, method: str) -> tuple[float, Adapter]:
    """Run with the guard; return the error and the adapter."""
    found = session(stream, method, guard=True)
    wrong = count = 0
    for images, labels in batches(stream, found):
        wrong += int((found.adapter(images).argmax(dim=1) != labels).sum())
        count += len(labels)
    return round(100 * wrong / count, 2), found.adapter


def row(stream: str, method: str) -> dict[str, object]:
    """Return the facts of one method on one stream."""
    tallies, (error, home) = look(stream, method)
    if folder := os.environ.get("MULTIPOOL_TRIPS"):
        torch.save(tallies, Path(folder) / f"{stream} {method}.pt")
    every = probe_interval(METHODS[method.partition("@")[0].partition("+")[0]])
    seen = verdicts(tallies, every)
    full = [v for v in seen if v.full]
    facts: dict[str, object] = {
        "stream": stream, "method": method, "batches": len(tallies), "windows": len(seen),
        "collapsed": sum(v.collapsed for v in seen),
        "least diversity": round(min((v.diversity for v in full), default=1.0), 3),
        "least certainty": round(min((v.certainty for v in full), default=1.0), 3),
        "least spread": round(min((v.spread for v in full), default=1.0), 3),
        "least ruin": round(min((v.ruin for v in seen), default=1.0), 3),
        "error": error, "home": home,
    }  # fmt: skip
    if facts["collapsed"]:
        facts["guarded"], adapter = guarded(stream, method)
        facts["restored"] = adapter.counts["restored"]
    return facts


if __name__ == "__main__":
    for chosen in sys.argv[2:] or STABLE:
        print(json.dumps(row(sys.argv[1], chosen)), flush=True)
