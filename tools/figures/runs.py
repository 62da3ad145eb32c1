"""Figures of methods at work, on the embedded dataset or from kept curves."""

from __future__ import annotations

import csv
from pathlib import Path

import torch
from matplotlib.figure import Figure
from style import BLUE, COLOURS, GREEN, GREY, ORANGE, RULE, figure, quiet

from multipool.bench.report.pools import domain_stretches, pool_stretches
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.loader import Loader
from multipool.bench.run.result import Result
from multipool.bench.run.runner import run
from multipool.data import COMMON, load
from multipool.models import load as load_model

DATA = Path(__file__).resolve().parents[2] / "docs" / "data"
DOMAINS = COMMON[:6]


def statistics() -> Figure:
    """Draw one channel's values under two domains, and the errors with either statistics."""
    dataset = load("shapes-c", domains=DOMAINS)
    model = load_model("shapes-wrn10-1")
    layer = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)][2]
    seen: list[torch.Tensor] = []
    hook = layer.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    rows = range(0, 400)
    with torch.no_grad():
        for name in (None, "contrast"):
            images = (
                dataset.source("test").whole().images[:400]
                if name is None
                else dataset.images(name, torch.arange(len(rows)).numpy())
            )
            model(images.float() / 255)
    hook.remove()
    gap = (seen[0].mean((0, 2, 3)) - seen[1].mean((0, 2, 3))).abs() / layer.running_var.sqrt()
    channel = int(gap.argmax())
    drawn = figure(5.6)
    left, right = drawn.subplots(2, 1)
    for values, colour, name in zip(seen, (GREY, ORANGE), ("as trained", "contrast"), strict=True):
        flat = values[:, channel].flatten().numpy()
        left.hist(flat, bins=80, density=True, color=colour, alpha=0.6, label=name)
    left.axvline(float(layer.running_mean[channel]), color=GREY, linewidth=1)
    left.set_title("values of one channel before its normalisation", fontsize=11)
    left.set_yticks([])
    left.legend()
    errors = {name: _run(method=name).errors for name in ("source", "bn")}
    for place, (name, colour) in enumerate((("source", GREY), ("bn", BLUE))):
        at = [i + 0.4 * place for i in range(len(DOMAINS))]
        label = "statistics of training" if name == "source" else "statistics of the batch"
        right.bar(at, [errors[name][d] for d in DOMAINS], width=0.38, color=colour, label=label)
    names = [d.replace("_", "\n") for d in DOMAINS]
    right.set_xticks([i + 0.2 for i in range(len(DOMAINS))], names)
    right.set_ylabel("error, %")
    right.set_ylim(0, 95)  # room for the legend
    right.legend(loc="upper left", ncols=2, fontsize=10)
    return drawn


def pools() -> Figure:
    """Draw the domains of a stream that comes back, and the pools that multipool sorts it into."""
    kind = {"protocol": "recurring", "rounds": 2, "domains": DOMAINS[:4], "limit": 1600}
    found = _run(method="multipool", **kind)
    rows = {"shown": domain_stretches(found), "sorted into": pool_stretches(found)}
    drawn = figure(2.2)
    axes = drawn.subplots()
    for place, (_, stretches) in enumerate(rows.items()):
        colours = {
            n: COLOURS[i % 8] for i, n in enumerate(dict.fromkeys(s.name for s in stretches))
        }
        for part in stretches:
            axes.barh(-place, part.end - part.start, left=part.start, height=0.8,
                      color=colours[part.name], edgecolor="white", linewidth=0.8)  # fmt: skip
            if part.end - part.start > 260:
                text = part.name.replace("_", "\n")
                middle = (part.start + part.end) / 2
                axes.text(middle, -place, text, ha="center", va="center", color="white", fontsize=9)
    quiet(axes)
    axes.set_yticks([0, -1], list(rows))
    axes.set_xticks(range(0, found.samples + 1, 1600))
    axes.set_xlabel("images seen")
    axes.margins(0)
    return drawn


def guard() -> Figure:
    """Draw TENT on the whole CIFAR-100-C stream, with and without the guard, from kept rows."""
    with (DATA / "tent-guard-full.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["seed"] == "0"]
    drawn = figure(3.4)
    axes = drawn.subplots()
    for name, colour, method, fallback in (
        ("TENT", ORANGE, "tent", ""),
        ("TENT with the guard", BLUE, "tent", "snapshot"),
        ("no learning (bn)", GREY, "bn", ""),
    ):
        (row,) = (r for r in rows if (r["method"], r["fallback"]) == (method, fallback))
        errors = [float(row[f"error {domain}"]) for domain in COMMON]
        _curve(
            axes, list(enumerate(errors, start=1)), colour, f"{name}, {float(row['error']):.0f} %"
        )
    axes.set_xticks(range(1, len(COMMON) + 1, 2))
    axes.set_xlabel("corruption, in the order of the stream")
    axes.set_ylabel("error, %")
    axes.set_ylim(0, 100)
    axes.legend(loc="lower right")
    return drawn


def front() -> Figure:
    """Draw the error over a drifting stream from the curves that are kept in docs/data."""
    with (DATA / "drift-cifar10c.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    drawn = figure(3.3)
    axes = drawn.subplots()
    names = {"source": ("frozen model", GREY), "tribe": ("best published (TRIBE)", ORANGE)}
    names["multipool"] = ("multipool", GREEN)
    for method, (name, colour) in names.items():
        mine = [row for row in rows if row["method"] == method]
        mean = float(mine[0]["mean"])
        points = [(int(row["samples"]), float(row["error"])) for row in mine]
        _curve(axes, points, colour, f"{name}: {mean:.0f} % wrong")
    for start in sorted({int(row["start"]) for row in rows if row["method"] == "source"}):
        axes.axvline(start, color=RULE, linewidth=0.8, zorder=0)
    last = max(int(row["samples"]) for row in rows)
    axes.set_xlim(0, 1.01 * last)
    axes.set_xticks(range(0, last + 1, last // 3))
    axes.set_ylim(0, 100)
    axes.set_xlabel("images seen; lines: the corruption changes")
    axes.set_ylabel("error, %")
    axes.legend(loc="upper left", frameon=True, framealpha=1, edgecolor="white")
    return drawn


def _curve(axes, points, colour, name) -> None:  # noqa: ANN001
    axes.plot(*zip(*points, strict=True), color=colour, label=name, linewidth=2)


_LOADER = Loader()


def _run(**settings: object) -> Result:
    """Return a run on the embedded data, 500 images of each of the first six corruptions."""
    usual = {"domains": DOMAINS, "limit": 3000, "device": "cpu"}
    return run(Experiment(**{**usual, **settings}), loader=_LOADER)  # type: ignore[arg-type]
