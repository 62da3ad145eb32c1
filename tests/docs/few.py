"""What the tables of streams that show few classes must say."""

from __future__ import annotations

from statistics import mean

from explorations import Cells
from rows import Row, load, two_errors

_SHARES = ("0", "0.25", "0.4", "0.5", "0.6", "0.75", "0.9", "1")
_SHOWN = {"all ten classes": "10", "five": "5", "two": "2", "one": "1"}
_PICTURES = ("gaussian_noise", "jpeg_compression", "contrast")
_NAMES = ("ImageNet, Gaussian noise", "ImageNet, JPEG", "ImageNet, contrast")


def shown() -> Cells:
    """Return draws, and mean error over them and 15 corruptions, by how many classes are shown."""
    found: Cells = {}
    for count, draws in (("1", 3), ("2", 3), ("5", 1)):
        found[count] = [[float(draws)]]
        for method in ("source", "bn", "multipool"):
            rows = [
                (row["shown"], row["method"], float(row["error"])) for row in load("few-classes")
            ]
            errors = [error for *key, error in rows if key == [count, method]]
            assert len(errors) == draws
            found[count].append([mean(errors)])
    return found


def compared() -> Cells:
    """Return undecoded and decoded errors of methods on the comparison's streams of few classes."""
    places = [(d, f"few-{n}") for d in ("cifar10-c", "cifar100-c") for n in (1, 2, 5)]
    found: Cells = {}
    for row in load("compare/few"):
        cells = found.setdefault(row["method"], [None] * len(places))
        cells[places.index((row["dataset"], row["kind"]))] = two_errors(row)
    return found


def three_seeds() -> Cells:
    """The same at full length, means of three seeds, of the methods that have them."""
    places = [(d, f"few-{n}") for d in ("cifar10-c", "cifar100-c") for n in (1, 2, 5)]
    every: dict[str, dict[tuple[str, str], list[Row]]] = {}
    for row in load("compare/few-full"):
        if row["memory"] != "mcm+" or row["method"] == "multipool":
            cell = every.setdefault(row["method"], {}).setdefault((row["dataset"], row["kind"]), [])
            cell.append(row)
    found: Cells = {}
    for method, cells in every.items():
        if all(len(rows) == 3 for rows in cells.values()):
            both = ("undecoded_error", "error")
            found[method] = [[mean(float(r[k]) for r in cells[p]) for k in both] for p in places]
    return found


def surer() -> Cells:
    """Return errors with the source's statistics, with early layers', with the surer and better."""
    names = {("cifar100", "1"): "one of a hundred", ("cifar100", "2"): "two of a hundred"}
    names |= {("cifar10", "1"): "one of ten", ("cifar10", "2"): "two of ten"}
    trials: dict[str, dict[tuple[str, str], dict[str, tuple[float, float]]]] = {}
    for row in load("explore-18-surer"):
        trial = trials.setdefault(names[row["dataset"], row["classes_shown"]], {})
        found = trial.setdefault((row["domain"], row["draw"]), {})
        found[row["weight"]] = float(row["error"]), float(row["certainty"])
    expected: Cells = {}
    for label, trial in trials.items():
        pairs = [(found["0.0"], found["0.85"]) for found in trial.values()]
        chosen = [own if own[1] - plain[1] > -0.02 else plain for plain, own in pairs]
        columns = [[a for (a, _), _ in pairs], [b for _, (b, _) in pairs], [e for e, _ in chosen]]
        columns.append([min(a, b) for (a, _), (b, _) in pairs])
        expected[label] = [[mean(column)] for column in columns]
    return expected


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
