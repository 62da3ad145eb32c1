"""Figures of streams and of what memories keep of them; no method runs."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from style import BLUE, COLOURS, GREY, ORANGE, SOFT, figure, quiet

from multipool.data import COMMON, Stream, StreamConfig, load
from multipool.data.streams import ctta, ptta
from multipool.decode import SequenceDecoder
from multipool.memory import FifoPool, MultiClusterMemory
from multipool.models import load as load_model

DOMAINS = COMMON[:6]


def drift() -> Figure:
    """Draw a picture under seven corruptions, and what the frozen model makes of such."""
    import torch

    domains = COMMON[:7]
    dataset = load("shapes-c", domains=domains)
    model = load_model("shapes-wrn10-1")
    clean = dataset.source("test").whole()
    rows = np.arange(0, 500)
    sets = {"as trained": clean.images[rows]}
    sets |= {domain: dataset.images(domain, rows) for domain in domains}
    labels = torch.from_numpy(dataset.labels(domains[0])[rows])
    drawn = figure(3.7)
    places = drawn.subplots(2, 4).flat
    for axes, (name, images) in zip(places, sets.items(), strict=True):
        with torch.no_grad():
            wrong = (model(images.float() / 255).argmax(dim=1) != labels).float().mean()
        quiet(axes)
        axes.imshow(images[3].permute(1, 2, 0).numpy(), interpolation="none")
        axes.set_title(name.replace("_", " "), fontsize=11)
        axes.set_xlabel(f"{100 * float(wrong):.0f} % wrong", fontsize=11)
    return drawn


def correlation() -> Figure:
    """Draw the labels of one domain in the order of an i.i.d. and of a correlated stream."""
    labels = np.repeat(np.arange(10), 40)
    domains = np.zeros_like(labels)
    orders = {
        "independent (ctta): every class may be next": ctta(labels, domains, seed=0),
        "correlated (ptta): a class comes in runs": ptta(labels, domains, gamma=0.1, seed=0),
    }
    drawn = figure(5.0)
    for axes, (title, order) in zip(drawn.subplots(2, 1, sharex=True), orders.items(), strict=True):
        axes.scatter(np.arange(len(order)), labels[order], s=6, color=BLUE, linewidths=0)
        axes.set_title(title, fontsize=11)
        axes.set_ylabel("class")
        axes.set_yticks(range(0, 10, 3))
    drawn.axes[1].set_xlabel("image of the stream")
    return drawn


def memory() -> Figure:
    """Draw of which domains a single pool and a multi-cluster memory hold samples over time."""
    stream = Stream(load("shapes-c", domains=DOMAINS), StreamConfig(limit=6 * 300, batch_size=30))
    banks = {
        "the newest 256 images": FifoPool(100, capacity=256),
        "four clusters of 64 by appearance": MultiClusterMemory(
            100, capacity=64, max_clusters=4, threshold=0.15
        ),
    }
    origin = stream.domain_ids
    shares: dict[str, list[np.ndarray]] = {name: [] for name in banks}
    seen = 0
    for batch in stream:
        seen += len(batch)
        for name, bank in banks.items():
            bank.add(batch.images)
            held = origin[seen - bank.retrieve(None).ages.numpy()]
            shares[name].append(np.bincount(held, minlength=len(DOMAINS)) / len(held))
    drawn = figure(5.6)
    steps = np.arange(1, len(stream) + 1) * 30
    for axes, (name, rows) in zip(drawn.subplots(2, 1, sharex=True), shares.items(), strict=True):
        axes.stackplot(steps, 100 * np.stack(rows).T, colors=COLOURS, linewidth=0)
        axes.set_title(name, fontsize=11)
        axes.set_ylabel("share, %")
        axes.margins(0)
    drawn.axes[1].set_xlabel("images seen")
    names = [name.replace("_", " ") for name in DOMAINS]
    drawn.legend(drawn.axes[0].collections, names, loc="outside lower center", ncols=3)
    return drawn


def decoder() -> Figure:
    """Draw a doubtful model's answers in a correlated stream, before and after the decoder."""
    import torch

    rng = np.random.default_rng(3)
    truth = np.repeat(rng.integers(0, 6, 9), rng.integers(10, 24, 9))[:120]
    logits = rng.normal(0, 1.0, (len(truth), 6))
    logits[np.arange(len(truth)), truth] += 1.6
    decode = SequenceDecoder(6)
    warm = np.repeat(rng.integers(0, 6, 20), 16)  # the decoder learns the stream's order first
    before = rng.normal(0, 1.0, (len(warm), 6))
    before[np.arange(len(warm)), warm] += 1.6
    decode(torch.from_numpy(before).float())
    plain = logits.argmax(axis=1)
    read = decode(torch.from_numpy(logits).float()).argmax(dim=1).numpy()
    drawn = figure(5.2)
    for axes, (name, answers) in zip(
        drawn.subplots(2, 1, sharex=True),
        {"each image by itself": plain, "read in order": read}.items(),
        strict=True,
    ):
        right = answers == truth
        axes.plot(truth, color=GREY, linewidth=5, alpha=0.35, drawstyle="steps-mid", label="truth")
        place = np.arange(len(truth))
        axes.scatter(place[right], answers[right], s=14, color=BLUE, label="right", zorder=2)
        axes.scatter(place[~right], answers[~right], s=24, color=ORANGE, marker="x", label="wrong")
        axes.set_title(f"{name}: {100 * (~right).mean():.0f} % wrong", fontsize=11)
        axes.set_ylabel("class")
    drawn.axes[1].set_xlabel("image of the stream")
    handles, labels = drawn.axes[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=3, labelcolor=SOFT)
    return drawn
