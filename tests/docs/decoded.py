"""What the table of the decoder's streams must say, before and after runs had several kinds."""

from __future__ import annotations

from statistics import mean

from rows import Row, load

Cells = dict[str, list[list[float] | None]]  # by the first cell of a line

_TEN, _HUNDRED = ("cifar10", "wrn16-2"), ("cifar100", "wrn16-2")
_GROUPNORM, _VIT = "wrn28-1-gn with BatchNorm put in", "vit-tiny-32 with BatchNorm put in"
_OWN = "wrn16-2, statistics of each domain"
_FIVE, _EIGHT_HUNDRED = "gamma 0.1, domains of 2000", "gamma 0.1, domains of 800"
_HARD = "four made-up, hard"

# A stream by its line: dataset, model, order and, where that is not enough, domains.
_TOLD = {
    "C10, three domains of 8,000": (*_TEN, "runs, gamma 0.1, domains of 8000"),
    "C10, two domains of 8,000, gamma 0.01": (*_TEN, "runs, gamma 0.01, domains of 8000"),
    "C10, five domains of 2,000, gamma 0.01": (*_TEN, "runs, gamma 0.01, domains of 2000"),
    "C10, five domains of 2,000": (*_TEN, f"runs, {_FIVE}"),
    "C10, eleven domains of 800": (*_TEN, f"runs, {_EIGHT_HUNDRED}"),
    "C10, two cameras woven at random": (*_TEN, "two cameras woven, gamma 0.1"),
    "C10, four cameras woven at random": (*_TEN, "four cameras woven, gamma 0.1"),
    "C10, GroupNorm with BatchNorm put in, the same": (
        *("cifar10", _GROUPNORM),
        "four cameras woven, gamma 0.1",
    ),
    "C10, GroupNorm with BatchNorm put in, five domains of 2,000": (
        *("cifar10", _GROUPNORM),
        f"runs, {_FIVE}",
    ),
    "C10, ViT with BatchNorm put in, five domains of 2,000": ("cifar10", _VIT, f"runs, {_FIVE}"),
    "C100, five domains of 2,000, gamma 0.01": (*_HUNDRED, "runs, gamma 0.01, domains of 2000"),
    "C100, five domains of 2,000": (*_HUNDRED, f"runs, {_FIVE}"),
    "C100, four cameras woven at random, gamma 0.01": (
        *_HUNDRED,
        "four cameras woven, gamma 0.01",
    ),
    "C10, random order, domains of 800": (*_TEN, "random, domains of 800"),
    "C10, one class in each domain": (*_TEN, "random, one class in each domain"),
}
_NOT_TOLD = {
    "C10, hard domains, each with images of its own": (
        *("cifar10", _OWN),
        *("runs, gamma 0.1, distinct images", _HARD),
    ),
    "C100, hard domains, the same images in each": (
        *("cifar100", _OWN),
        *("runs, gamma 0.1, the same images", _HARD),
    ),
    "C10, source model, twelve domains of 800": (*_TEN, f"runs, {_EIGHT_HUNDRED}"),
    "C100, source model, twelve domains of 800": (*_HUNDRED, f"runs, {_EIGHT_HUNDRED}"),
    "C100, GroupNorm, twelve domains of 800": (
        *("cifar100", "wrn28-1-gn"),
        f"runs, {_EIGHT_HUNDRED}",
    ),
    "C100, source model, random order, domains of 250": (*_HUNDRED, "random, domains of 250"),
}


def streams() -> Cells:
    """Return errors undecoded, before and now: of single streams, and means of those in runs."""
    found: Cells = {}
    for told, chosen in (("yes", _TOLD), ("no", _NOT_TOLD)):
        rows = [row for row in load("explore-26-decoder") if row["told_domains"] == told]
        for label, stream in chosen.items():
            found[label] = _errors([row for row in rows if _is_of(row, stream)], count=1)
        runs = [row for row in rows if not row["order"].startswith("random")]
        found[f"mean of the {len(runs)} streams in runs"] = _errors(runs, count=len(runs))
    return found


def _is_of(row: Row, stream: tuple[str, ...]) -> bool:
    """Tell whether a row is of this dataset, model and order, and of the domains if named."""
    named = (row["dataset"], row["model"], row["order"], row["domains"])
    return named[: len(stream)] == stream


def _errors(rows: list[Row], count: int) -> list[list[float] | None]:
    """Return no cell for what was told, then the mean errors of so many rows."""
    assert len(rows) == count, "a stream is named so that it is one row"
    columns = ("undecoded", "before", "now")
    return [None, *([mean(float(row[column]) for row in rows)] for column in columns)]
