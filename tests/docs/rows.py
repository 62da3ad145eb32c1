"""The rows in docs/data, and means and paired differences over them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from functools import cache
from math import sqrt
from statistics import mean, stdev

from pages import ROOT

Row = Mapping[str, str]
COMMON = (
    *("motion_blur", "snow", "fog", "shot_noise", "defocus_blur", "contrast", "zoom_blur"),
    *("brightness", "frost", "elastic_transform", "glass_blur", "gaussian_noise", "pixelate"),
    *("jpeg_compression", "impulse_noise"),
)


@cache
def load(name: str) -> tuple[Row, ...]:
    """Return the rows of ``docs/data/NAME.csv``."""
    with (ROOT / "docs" / "data" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def pick(name: str, **wanted: str) -> list[Row]:
    """Return the rows whose columns have these values; an underscore stands for a blank or dot."""
    rows = [
        row
        for row in load(name)
        if all(row.get(_column(row, key), "") == value for key, value in wanted.items())
    ]
    if not rows:
        raise AssertionError(f"docs/data/{name}.csv has no row with {wanted}")
    return rows


def _column(row: Row, key: str) -> str:
    named = [key, key.replace("_", " "), f"set.memory.{key}", f"set.{key}"]
    return next((name for name in named if name in row), key)


def two_errors(row: Row | None) -> list[float]:
    """Return undecoded and decoded error; without a row no number, so that a dash is asked for."""
    return [] if row is None else [float(row["undecoded_error"]), float(row["error"])]


def by_seed(rows: list[Row], column: str = "error") -> dict[str, float]:
    """Return a column by what tells runs apart beside the memory: method and seed."""
    found = {f"{row['method']} {row['seed']}": float(row[column]) for row in rows}
    assert len(found) == len(rows), "two rows are of the same run"
    return found


def average(rows: list[Row], column: str = "error") -> float:
    """Return the mean of a column over seeds."""
    return mean(by_seed(rows, column).values())


def corruptions(rows: list[Row]) -> list[list[float]]:
    """Return the error of each of the 15 corruptions, mean over seeds, a cell each."""
    prefix = "" if "motion_blur" in rows[0] else "error "
    return [[average(rows, prefix + name)] for name in COMMON]


def difference(rows: list[Row], base: list[Row]) -> list[float]:
    """Return the mean of ``rows - base``, paired, and its standard error."""
    first, second = by_seed(rows), by_seed(base)
    return spread(first[key] - second[key] for key in first if key in second)


def spread(values: Iterable[float]) -> list[float]:
    """Return the mean of differences and its standard error.

    >>> spread([1.0, 3.0])
    [2.0, 1.0]
    """
    gaps = list(values)
    assert gaps, "no two rows have a seed in common"
    return [mean(gaps), stdev(gaps) / sqrt(len(gaps)) if len(gaps) > 1 else float("nan")]


def gain(rows: list[Row], base: list[Row]) -> list[float]:
    """Return by how much ``rows`` lower the error of ``base``, and its standard error."""
    change, error = difference(rows, base)
    return [-change, error]
