"""What the tables of streams that show few classes must say."""

from __future__ import annotations

from statistics import mean

from explorations import Cells
from rows import Row, load

_SHARES = ("0", "0.25", "0.4", "0.5", "0.6", "0.75", "0.9", "1")
_SHOWN = {"all ten classes": "10", "five": "5", "two": "2", "one": "1"}
_PICTURES = ("gaussian_noise", "jpeg_compression", "contrast")
_NAMES = ("ImageNet, Gaussian noise", "ImageNet, JPEG", "ImageNet, contrast")


def shown() -> Cells:
    """Return the mean error over 15 corruptions by how many of ten classes a stream shows."""
    found: Cells = {}
    for count in ("1", "2", "5", "10"):
        found[count] = []
        for method in ("source", "bn", "multipool", "multipool before"):
            errors = [
                float(row["error"])
                for row in load("few-classes")
                if (row["dataset"], row["shown"], row["method"]) == ("cifar10-c", count, method)
            ]
            assert len(errors) in (0, 15)
            found[count].append([mean(errors)] if errors else None)
    return found


def layers() -> Cells:
    """Return error and classes predicted by the share of layers with a batch's statistics."""
    rows = load("explore-14-layers")
    found: Cells = {}
    for label, count in _SHOWN.items():
        mine = [r for r in rows if (r["dataset"], r["classes_shown"]) == ("cifar10", count)]
        found[label] = [_means(mine, share) for share in _SHARES]
    for label, domain in zip(_NAMES, _PICTURES, strict=True):
        mine = [r for r in rows if (r["dataset"], r["domain"]) == ("imagenet", domain)]
        found[label] = [_means(mine, share) for share in _SHARES]
    return found


def _means(rows: list[Row], share: str) -> list[float] | None:
    mine = [row for row in rows if row["share_of_layers"] == share]
    return [mean(float(row[key]) for row in mine) for key in ("error", "classes_predicted")]
