"""Where a method wins and where it fails: read from the rows of ``multipool compare``."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

from multipool.bench.compare.entrant import is_corrector

ROWS = Path(__file__).resolve().parents[2] / "docs" / "data" / "compare"
KEPT, SMALL, FIELD = "compare.csv", "small.csv", "field.csv"
_SETS = {"cifar10-c": "CIFAR-10-C", "cifar100-c": "CIFAR-100-C", "shapes-c": "the embedded data"}
_KINDS = {
    "ptta": "classes in runs, domain after domain",
    "gamma-0.01": "long runs of one class",
    "gamma-1": "short runs of one class",
    "ctta": "shuffled, domain after domain",
    "mixed": "shuffled, all domains at once",
    "interleaved": "several cameras woven into one",
    "recurring": "domains that come back",
    "gradual": "severity that climbs and falls",
    "domains-250": "short domains",
    "few-1": "one class a domain, shuffled",
    "few-2": "two classes a domain, shuffled",
    "few-5": "five classes a domain, shuffled",
    "batch-1": "one image at a time",
    "batch-4": "batches of 4",
    "batch-16": "batches of 16",
    "batch-200": "batches of 200",
}


@dataclass(frozen=True)
class Cell:
    """One method on one kind of stream; errors in per cent, without the decoder."""

    kind: str
    dataset: str
    error: float
    frozen: float
    best: float
    winner: str
    methods: int  # that were run on this stream

    @property
    def regret(self) -> float:
        """Return how many points of error it has more than the best method."""
        return self.error - self.best

    @property
    def words(self) -> str:
        """Return the stream in words."""
        return f"{_KINDS.get(self.kind, self.kind)} ({_SETS.get(self.dataset, self.dataset)})"


@cache
def _streams(file: str) -> dict[tuple[str, ...], dict[str, float]]:
    """Return the errors by dataset, model and kind: means over seeds, ``METHOD+MEMORY`` as keys."""
    errors: dict[tuple[str, ...], dict[str, list[float]]] = {}
    with (ROWS / file).open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            ours = row["method"].partition(":")[0] == "multipool"
            plain = row["memory"] in ("", "single") or ours
            name = row["method"] if plain else f"{row['method']}+{row['memory']}"
            stream = errors.setdefault((row["dataset"], row["model"], row["kind"]), {})
            stream.setdefault(name, []).append(float(row["undecoded_error"] or row["error"]))
    return {s: {n: fmean(e) for n, e in found.items()} for s, found in errors.items()}


def cells(name: str) -> list[Cell]:
    """Return a method's kinds of stream, of the comparison that has more of them."""
    return max((_cells(name, file) for file in (KEPT, SMALL)), key=len)


def _cells(name: str, file: str) -> list[Cell]:
    found = []
    for (dataset, _, kind), errors in _streams(file).items():
        if name in errors and "source" in errors and len(errors) > 2:
            # As in ``compare``: what corrects its answers by itself sets no stream's best.
            rivals = [other for other in errors if not is_corrector(other)]
            winner = min(rivals, key=lambda other: errors[other])
            numbers = errors[name], errors["source"], errors[winner]
            found.append(Cell(kind, dataset, *numbers, winner, len(errors)))
    return sorted(found, key=lambda cell: [*_KINDS, cell.kind].index(cell.kind))


def is_small(found: list[Cell]) -> bool:
    """Tell whether these come from the small comparison, on the embedded data."""
    return all(cell.dataset == "shapes-c" for cell in found)


def section(name: str) -> str:
    """Return the part of a card that says where a method stands, as Markdown."""
    found, short = cells(name), one_seed(name)
    parts = []
    if not found and not short and cells(f"{name}+mcm+"):
        name, found = f"{name}+mcm+", cells(f"{name}+mcm+")
        parts += ['Compared with `memory="mcm+"` only.', ""]
    if short:
        parts += _told(name, short, "CIFAR, 15 corruptions of 1,000 images, one seed")
    if found:
        small = "the embedded data, one seed"
        place = small if is_small(found) else "CIFAR-10-C and CIFAR-100-C"
        parts += ["", *_told(name, found, place)] if short else _told(name, found, place)
    if not parts:
        return "Not compared yet: `multipool compare --methods` runs it beside others.\n"
    parts += ["", "Errors in per cent. Rows: `docs/data/compare`, made as [here](../compare.md)."]
    return "\n".join(parts) + "\n"


def one_seed(name: str) -> list[Cell]:
    """Return the kinds of CIFAR stream of a method that was run with one seed only."""
    return [] if _cells(name, KEPT) else _cells(name, FIELD)


def _told(name: str, found: list[Cell], place: str) -> list[str]:
    """Return the lines of one comparison: in words, then as a table."""
    most = max(cell.methods for cell in found)
    told = [f"{_gap(found, place, most)} {_harm(name, found)}", ""]
    if is_corrector(name):
        told[0] += (
            " It corrects its answers by their neighbours, as the decoder does, so no other "
            "method is measured by it here, and it can be below the best of them."
        )
    ranked = sorted(found, key=lambda cell: cell.regret)
    if ends := min(3, len(ranked) // 2):  # one stream is in the table, and that is all
        told += [f"- **Nearest to the best** on {_listed(ranked[:ends])}."]
        told += [f"- **Farthest from it** on {_listed(ranked[: -ends - 1 : -1])}."]
    told += [line for word in ("mcm", "mcm+") for line in _variant(name, word)]
    return [*told, "", *_table(found)]


def _gap(found: list[Cell], place: str, most: int) -> str:
    """Return how far from the best method it was, in a sentence."""
    where = f"({place}; all methods without the decoder)"
    more = "points of error more than the best"
    if len(found) == 1:
        (cell,) = found
        return f"On one kind of stream {where} it has {cell.regret:.1f} {more} of {most} choices."
    mean, worst = fmean(c.regret for c in found), max(c.regret for c in found)
    won = sum(cell.regret <= 0 for cell in found)
    return (
        f"Over {len(found)} kinds of stream {where} it has {mean:.1f} {more} of up to {most} "
        f"choices on average and {worst:.1f} at worst; it is the best on {won or 'none'}."
    )


def _table(found: list[Cell]) -> list[str]:
    """Return one line a kind of stream, with three columns for each dataset."""
    sets = sorted({cell.dataset for cell in found}, key=list(_SETS).index)
    head = ["stream"]
    for name in sets:
        head += [f"{_SETS[name]}", "frozen model", "best there"]
    lines = [head, ["---"] * len(head)]
    for kind in dict.fromkeys(cell.kind for cell in found):
        line = [_KINDS.get(kind, kind)]
        for name in sets:
            here = [c for c in found if (c.kind, c.dataset) == (kind, name)]
            line += [
                text
                for c in here
                for text in (f"**{c.error:.1f}**", f"{c.frozen:.1f}", f"{c.best:.1f} {_won(c)}")
            ] or ["–"] * 3
        lines.append(line)
    return [f"| {' | '.join(line)} |" for line in lines]


def _won(cell: Cell) -> str:
    """Return who was best, its options in words that may be wrapped."""
    name, _, option = cell.winner.partition(":")
    return f"`{name}` {option}".strip()


def _harm(name: str, found: list[Cell]) -> str:
    if name == "source":
        return "It is what the others are measured by."
    worse = [cell for cell in found if cell.error > cell.frozen]
    if not worse:
        return "It was never worse than the frozen model."
    by = max(cell.error - cell.frozen for cell in worse)
    if len(found) == 1:
        return f"It was worse than the frozen model, by {by:.1f} points."
    return f"On {len(worse)} it was worse than the frozen model, by up to {by:.1f} points."


def _listed(found: list[Cell]) -> str:
    return "; ".join(f"{cell.words}, {cell.regret:+.1f}" for cell in found)


def _variant(name: str, memory: str) -> list[str]:
    found = cells(f"{name}+{memory}")
    if not found:
        return []
    mean, worst = fmean(c.regret for c in found), max(c.regret for c in found)
    return [f'- With `memory="{memory}"` it is {mean:.1f} points on average, {worst:.1f} at worst.']
