"""What the tables of the second look must say, and those of clean images, from their rows."""

from __future__ import annotations

from rows import load

Cells = dict[str, list[list[float] | None]]  # by the first cell of a line

_VIEWED = {
    "WRN-16-2, CIFAR-10": ("wrn16-2", "cifar10", "own"),
    "WRN-16-2, CIFAR-100": ("wrn16-2", "cifar100", "own"),
    "WRN-16-2, CIFAR-100, source's statistics": ("wrn16-2", "cifar100", "source"),
    "ResNeXt-29, CIFAR-100": ("resnext29-4x32d", "cifar100", "own"),
    "ResNet-18, Tiny-ImageNet": ("resnet18-64", "tiny-imagenet", "own"),
    "embedded model": ("wrn10-1", "shapes", "own"),
    "GroupNorm, CIFAR-10": ("wrn28-1-gn", "cifar10", "source"),
    "GroupNorm, CIFAR-100": ("wrn28-1-gn", "cifar100", "source"),
    "ViT, CIFAR-10": ("vit-tiny-32", "cifar10", "source"),
    "ViT, CIFAR-100": ("vit-tiny-32", "cifar100", "source"),
}
_COLUMNS = (
    *("error", "moved", "mirrored", "mirrored_and_moved", "both_and_plain"),
    *("quarter", "half", "left"),
)
_STREAMS = [
    *(("cifar10", "wrn16-2", protocol) for protocol in ("ctta", "mixed", "ptta")),
    *(("cifar100", "wrn16-2", protocol) for protocol in ("ctta", "mixed", "ptta")),
    ("cifar10", "wrn28-1-gn", "ctta"),
    ("cifar10", "wrn28-1-gn", "ptta"),
    ("cifar100", "wrn28-1-gn", "ctta"),
    ("cifar10", "vit-tiny-32", "ctta"),
    ("cifar10", "vit-tiny-32", "ptta"),
    ("cifar100", "vit-tiny-32", "ctta"),
]
_MODELS = (
    *("cifar10-wrn28-1-gn", "cifar10-vit-tiny-32"),
    *("cifar100-wrn28-1-gn", "cifar100-vit-tiny-32"),
)


def views() -> Cells:
    """Return the errors by views, each network one line."""
    rows = {(r["model"], r["dataset"], r["statistics"]): r for r in load("explore-21-views")}
    return {
        label: [[float(rows[key][column])] for column in _COLUMNS] for label, key in _VIEWED.items()
    }


def in_the_method() -> Cells:
    """Return undecoded and decoded errors by the share that is looked at again."""
    rows = {
        (r["looks"], r["dataset"], r["model"], r["protocol"]): (
            float(r["undecoded_error"]),
            float(r["error"]),
        )
        for r in load("explore-21-second-look")
    }
    found: Cells = {}
    for label, looks in (("nothing", "none"), ("a quarter", "a quarter"), ("half", "half")):
        both = [rows.get((looks, *stream)) for stream in _STREAMS]
        found[label] = [None if b is None else list(dict.fromkeys(b)) for b in both]
    return found


def clean() -> Cells:
    """Return the errors of both seeds on clean images."""
    found: Cells = {}
    for row in load("explore-22-clean"):
        line = found.setdefault(row["method"], [[] for _ in _MODELS])
        cell = line[_MODELS.index(row["model"])]
        assert cell is not None
        cell.append(float(row["error"]))
    return found
