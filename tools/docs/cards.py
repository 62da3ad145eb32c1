"""A card for every method: from its docstrings, its options and the rows of ``compare``."""

from __future__ import annotations

import csv
import inspect
import re
from dataclasses import fields
from functools import cache
from pathlib import Path
from statistics import fmean

from multipool.engine import Method
from multipool.methods.table import BUILT_IN

ROWS = Path(__file__).resolve().parents[2] / "docs" / "data" / "compare" / "compare.csv"


def overview() -> str:
    """Return the page that lists all methods."""
    lines = [
        "# Methods",
        "",
        "Every method runs behind the same call, `multipool.adapt(model, NAME)`, and is held to "
        "the same contract. *Regret* is how many points of error a method has more than the best "
        "one of the same stream, averaged over the kinds of stream of [compare](../compare.md) "
        "that it was run on, all methods without the decoder; the last column counts the streams "
        "on which it was worse than the frozen model. How to choose: "
        "[choose a method](../guides/choose.md).",
        "",
        "| method | what it does | memory | source data | mean regret | worse than frozen |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, kind in BUILT_IN.items():
        told = regret(name)
        numbers = "– | –" if told is None else f"{told[0]:.1f} | {told[2]} of {told[3]}"
        memory = "yes" if kind.takes_memory else "–"
        source = "needs them" if kind.needs_source else "–"
        lines.append(
            f"| [`{name}`]({name}.md) | {_first(kind)} | {memory} | {source} | {numbers} |"
        )
    return "\n".join(lines) + "\n"


def card(name: str) -> str:
    """Return the page of one method."""
    kind = BUILT_IN[name]
    module = inspect.getdoc(inspect.getmodule(kind)) or ""
    title, _, origin = module.partition("\n\n")
    parts = [f"# `{name}`: {kind.__name__}", "", plain(title), "", plain(origin), ""]
    parts += [
        "**What it does.** " + plain((inspect.getdoc(kind) or "").partition("\n\nArgs:")[0]),
        "",
    ]
    parts += ["**What it needs.** " + _needs(kind), "", _options(kind), "", standing(name)]
    parts += [
        "",
        "```python",
        f'adapter = multipool.adapt(model, "{name}"{_source(kind)})',
        "```",
        "",
    ]
    return "\n".join(parts)


def standing(name: str) -> str:
    """Return where a method stood in the comparison, in words."""
    told = regret(name)
    if told is None:
        return "**Where it stands.** Not among the methods of the kept comparison.\n"
    mean, worst, harmed, count = told
    return (
        f"**Where it stands.** On {count} kinds of stream it had {mean:.1f} points more error than "
        f"the best method of each on average, {worst:.1f} at worst, and was worse than the frozen "
        f"model on {harmed} ([compare](../compare.md)).\n"
    )


@cache
def _streams() -> dict[tuple[str, ...], dict[str, float]]:
    """Return the errors of all methods by dataset, model and stream: means over seeds.

    All without the decoder, and each with its own memory where it was run with it.
    """
    errors: dict[tuple[str, ...], dict[str, dict[str, list[float]]]] = {}
    with ROWS.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            stream = errors.setdefault((row["dataset"], row["model"], row["kind"]), {})
            banks = stream.setdefault(row["method"], {})
            banks.setdefault(row["memory"], []).append(
                float(row["undecoded_error"] or row["error"])
            )
    return {
        stream: {name: fmean(banks.get("single") or next(iter(banks.values())))
                 for name, banks in methods.items()}
        for stream, methods in errors.items()
    }  # fmt: skip


def regret(name: str) -> tuple[float, float, int, int] | None:
    """Return mean and worst regret, streams worse than frozen, and streams; None without rows."""
    streams = [s for s in _streams().values() if name in s and "source" in s and len(s) > 2]
    if not streams:
        return None
    gaps = [stream[name] - min(stream.values()) for stream in streams]
    harmed = sum(stream[name] > stream["source"] for stream in streams)
    return fmean(gaps), max(gaps), harmed, len(streams)


def _needs(kind: type[Method]) -> str:
    told = ["Labelled source data." if kind.needs_source else "No source data."]
    if kind.takes_memory:
        bank = kind.prefers or kind.takes_memory
        told.append(f"It keeps samples in a memory (`{bank}` unless said otherwise).")
    if kind.expensive:
        told.append("A prediction takes many passes.")
    return " ".join(told)


def _options(kind: type[Method]) -> str:
    settings = fields(kind.Config)
    if not settings:
        return "It has no options."
    about = plain(inspect.getdoc(kind.Config) or "")
    comments = _comments(kind.Config)
    rows = [about, "", "| option | default | |", "| --- | --- | --- |"]
    for one in settings:
        said = comments.get(one.name, "").replace("|", "\\|")
        rows.append(f"| `{one.name}` | `{one.default}` | {said} |")
    return "\n".join(rows)


def _comments(config: type) -> dict[str, str]:
    """Return what stands beside each field in the source."""
    found = re.findall(r"^    (\w+): [^#\n]*# (.+)$", inspect.getsource(config), re.MULTILINE)
    return {name: text for name, text in found}


def _source(kind: type[Method]) -> str:
    return ", source=batches_of_images_and_labels" if kind.needs_source else ""


def _first(kind: type[Method]) -> str:
    return plain(inspect.getdoc(kind) or "").split("\n")[0].replace("|", "\\|")


def plain(text: str) -> str:
    """Return a docstring's text as Markdown.

    >>> plain("``a`` and :class:`B`")
    '`a` and `B`'
    """
    text = re.sub(r":(?:class|func|meth|mod|attr):`~?([^`]+)`", r"`\1`", text)
    return re.sub(r"``([^`]+)``", r"`\1`", text.partition("\n\n>>>")[0])
