"""What the table of the decoder's streams must say, before and after runs had several kinds."""

from __future__ import annotations

from statistics import mean

from rows import Row, load

Cells = dict[str, list[list[float] | None]]  # by the first cell of a line

_TEN, _HUNDRED = ("cifar10", "wrn16-2"), ("cifar100", "wrn16-2")
_GROUPNORM, _VIT = "wrn28-1-gn with BatchNorm put in", "vit-tiny-32 with BatchNorm put in"
_OWN = "wrn16-2, statistics of each domain"
_FIVE, _EIGHT_HUNDRED = "gamma 0.1, domains of 2000", "gamma 0.1, domains of 800"
_HARD, _MILD_DOMAINS = "four made-up, hard", "four extra, severities 5 and 3"

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
_MILD = {
    "C10, mild domains of 1,000, gamma 0.01": (*_TEN, "runs, gamma 0.01, domains of 1000"),
    "C10, mild domains of 1,000": (*_TEN, "runs, gamma 0.1, domains of 1000"),
    "C10, mild domains of 1,000, gamma 1": (*_TEN, "runs, gamma 1.0, domains of 1000"),
    "C10, GroupNorm with BatchNorm put in, mild domains of 600": (
        *("cifar10", _GROUPNORM),
        "runs, gamma 0.1, domains of 600",
    ),
    "C10, ViT with BatchNorm put in, mild domains of 600": (
        *("cifar10", _VIT),
        "runs, gamma 0.1, domains of 600",
    ),
    "C100, mild domains of 1,000, gamma 0.01": (*_HUNDRED, "runs, gamma 0.01, domains of 1000"),
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
    "C10, ViT, twelve domains of 800, gamma 1": (
        *("cifar10", "vit-tiny-32"),
        "runs, gamma 1.0, domains of 800",
    ),
    "C100, source model, twelve domains of 800": (*_HUNDRED, f"runs, {_EIGHT_HUNDRED}"),
    "C100, GroupNorm, twelve domains of 800": (
        *("cifar100", "wrn28-1-gn"),
        f"runs, {_EIGHT_HUNDRED}",
    ),
    "C100, source model, random order, domains of 250": (*_HUNDRED, "random, domains of 250"),
}


def streams() -> Cells:
    """Return errors undecoded, before and now: of single streams, and means of those in runs."""
    rows = load("explore-26-decoder")
    found: Cells = {}
    for told, mild, chosen in (
        ("yes", False, _TOLD),
        ("yes", True, _MILD),
        ("no", False, _NOT_TOLD),
    ):
        of = [r for r in rows if (r["told_domains"], r["domains"] == _MILD_DOMAINS) == (told, mild)]
        seeds = len({row["seed"] for row in of})
        for label, stream in chosen.items():
            found[label] = _errors([row for row in of if _is_of(row, stream)], count=seeds)
        runs = [row for row in of if not row["order"].startswith("random")]
        count = len(runs) // seeds
        kept = f"{count} streams {'on mild domains' if mild else 'in runs'}"
        found[f"mean of the {kept}"] = _errors(runs, count=count * seeds)
    return found


def _is_of(row: Row, stream: tuple[str, ...]) -> bool:
    """Tell whether a row is of this dataset, model and order, and of the domains if named."""
    named = (row["dataset"], row["model"], row["order"], row["domains"])
    return named[: len(stream)] == stream


def _errors(rows: list[Row], count: int) -> list[list[float] | None]:
    """Return no cell for what was told, then the mean errors of so many rows."""
    assert len(rows) == count, "a stream is named so that it is one row of each seed"
    columns = ("undecoded", "before", "now")
    return [None, *([mean(float(row[column]) for row in rows)] for column in columns)]
