"""What the tables of rules for a change of domain, and of steps without BatchNorm, must say."""

from __future__ import annotations

from statistics import mean

from explorations import Cells
from rows import load

_COLUMNS = [
    ("wrn16-2", "10", "extra", "ctta", "1000", "", "64"),
    ("wrn16-2", "10", "made", "ctta", "1000", "", "64"),
    ("wrn16-2", "10", "made", "ptta", "1000", "0.1", "64"),
    ("wrn16-2", "10", "made", "ptta", "1000", "0.1", "16"),
    ("wrn16-2", "10", "extra", "ptta", "5000", "0.1", "64"),
    ("wrn16-2", "100", "made", "ctta", "1000", "", "64"),
    ("wrn16-2", "100", "made", "ptta", "1000", "1.0", "64"),
    ("wrn16-2", "100", "made", "ptta", "1000", "0.1", "64"),
    ("wrn16-2", "100", "extra", "ptta", "5000", "0.1", "64"),
    ("resnext29-4x32d", "100", "extra", "ctta", "1000", "", "64"),
]
_WHERE = ("model", "classes", "domains", "order", "images_a_domain", "gamma", "batch_size")
_LINES = {
    "before": "before",
    "the pool begins at the change": "cut at the change",
    "and images in units of their own variation": "cut and own variation",
}
_THRESHOLDS = {name: name for name in ("0.07, 0.05", "0.05, 0.03")}
_WITHOUT = [
    (classes, domains, order, images)
    for classes in ("10", "100")
    for domains, images in (("extra", "2000"), ("made", "500"))
    for order in ("ctta", "ptta")
]
_DONE = ("source", "as it was", "re-centred, one memory", "re-centred, five memories")
_RECENTRED = [f"{model}: {what}" for model in ("GroupNorm", "ViT") for what in _DONE]
_TRIED = [
    *("GroupNorm: steps of 0.001", "GroupNorm: steps on a class-balanced bank"),
    *(
        f"{model}: {what}"
        for model in ("GroupNorm", "ViT")
        for what in (
            "steps in runs, too",
            "EATA's choice, steps of 0.001",
            "re-centred, EATA's choice in runs",
        )
    ),
]
_LONG = [
    (classes, "extra", order, "5000") for classes in ("10", "100") for order in ("ctta", "ptta")
]


def changes() -> dict[str, Cells]:
    """Undecoded and decoded errors, means of three seeds; the mean of all undecoded ones."""
    return _lines("explore-11-changes", _LINES)


def thresholds() -> dict[str, Cells]:
    """The same with smaller thresholds."""
    return _lines("explore-12-steps", {"0.1, 0.08": "as it is", **_THRESHOLDS})


def _lines(file: str, names: dict[str, str]) -> dict[str, Cells]:
    def cell(row: str, key: tuple[str, ...], column: str) -> float:
        every = [
            float(r[column])
            for r in load(file)
            if r["row"] == row and tuple(r[part] for part in _WHERE) == key
        ]
        assert len(every) == 3
        return mean(every)

    first, found = next(iter(names.values())), {}
    for label, row in names.items():
        pairs = [[cell(row, k, c) for c in ("undecoded_error", "decoded_error")] for k in _COLUMNS]
        before = [cell(first, k, "undecoded_error") for k in _COLUMNS]
        gain = mean(p[0] - b for p, b in zip(pairs, before, strict=True))
        found[label] = [*pairs, [gain]]
    return found


def steps() -> dict[str, Cells]:
    """Undecoded errors of two models without BatchNorm, by the length of a step."""
    found: dict[str, Cells] = {}
    for word, model in {"ViT": "vit-small-32", "GroupNorm": "resnet26-gn"}.items():
        source = [(c, d, "ctta", i) for c, d, _, i in _WITHOUT]  # in any order
        found[f"{word}: source"] = _of_model(model, "source", source)
        for rate in ("0.0003", "0.001", "0.002"):
            found[f"{word}: steps of {rate}"] = _of_model(model, f"step {rate}", _WITHOUT)
    return found


def long_steps() -> dict[str, Cells]:
    """Undecoded and decoded errors of the ViT on longer streams."""
    rates = ("0.0003", "0.0009", "0.0018")
    both = ("undecoded_error", "decoded_error")
    return {f"steps of {r}": _of_model("vit-small-32", f"step {r}", _LONG, both) for r in rates}


def _of_model(
    model: str,
    name: str,
    places: list[tuple[str, ...]],
    columns: tuple[str, ...] = ("undecoded_error",),
) -> Cells:
    where = ("classes", "domains", "order", "images_a_domain")
    rows = {
        tuple(r[part] for part in where): [float(r[column]) for column in columns]
        for r in load("explore-12-steps")
        if (r["model"], r["row"]) == (model, name)
    }
    return [rows[place] for place in places]


def recentred() -> dict[str, Cells]:
    """Undecoded and decoded errors of two models without BatchNorm, by what is done for them."""
    places = [
        (classes, domains, gamma)
        for classes in ("10", "100")
        for domains, gamma in (("extra", ""), ("extra", "0.1"), ("extra", "0.01"), ("made", ""))
        + (("made", "0.1"),)
    ]
    words = {"resnet26-gn": "GroupNorm", "vit-small-32": "ViT"}
    found: dict[str, Cells] = {}
    for row in load("explore-16-without-batchnorm"):
        label = f"{words[row['model']]}: {row['row']}"
        cells = found.setdefault(label, [None] * len(places))
        place = places.index((row["classes"], row["domains"], row["gamma"]))
        cells[place] = [float(row["undecoded_error"]), float(row["decoded_error"])]
    shown = {*_RECENTRED, *(name for name in _TRIED if None not in found.get(name, [None]))}
    return {label: cells for label, cells in found.items() if label in shown}


def few() -> dict[str, Cells]:
    """Undecoded errors on streams of few classes, means of nine domains."""
    places = [("1", "64"), ("1", "7"), ("1", "1"), ("2", "64"), ("2", "1"), ("5", "64")]
    found: dict[str, Cells] = {}
    for row in load("explore-13-few-classes"):
        cells = found.setdefault(row["row"], [None] * len(places))
        place = places.index((row["classes_shown"], row["batch_size"]))
        cells[place] = [float(row["undecoded_error"])]
    return found
