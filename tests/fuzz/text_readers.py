"""Readers of text: lists of images, annotations, sweep files, results."""

import json
from pathlib import Path

import numpy as np
from PIL import Image
from reader import Reader

from multipool.bench.report.summary import sections
from multipool.bench.run import result as results
from multipool.bench.run.rerun import command
from multipool.bench.sweep import grid
from multipool.data import load

CLASSES = ("ant", "bee", "cat")


def _pictures(root: Path) -> None:
    for label, name in enumerate(CLASSES):
        (root / name).mkdir(parents=True)
        for k in range(2):
            Image.new("RGB", (8, 8), (80 * label, 40 * k, 0)).save(root / name / f"{k}.jpg")


def _make_domainnet(folder: Path) -> Path:
    root = folder / "domainnet126"
    _pictures(root / "sketch")
    lines = [f"sketch/{name}/{k}.jpg {label}" for label, name in enumerate(CLASSES) for k in (0, 1)]
    (root / "sketch_list.txt").write_text("\n".join(lines) + "\n")
    (folder / "secret.jpg").write_bytes((root / "sketch/ant/0.jpg").read_bytes())
    return root / "sketch_list.txt"


def _read_domainnet(path: Path) -> object:
    dataset = load("domainnet126", path.parent.parent, domains=("sketch",))
    return [dataset.labels("sketch"), dataset.images("sketch", np.array([0]))]


def _sound_domainnet(value: object) -> None:
    labels, images = value
    assert ((labels >= 0) & (labels < 126)).all()
    assert tuple(images.shape) == (1, 3, 224, 224)


def list_specials(data: bytes) -> list[bytes]:
    """Paths that leave the folder, labels that are none, bytes that are no text."""
    names = (
        "../secret.jpg",
        "/etc/hostname",
        "sketch/../../secret.jpg",
        "..\\secret.jpg",
        "C:/x.jpg",
    )
    names += ("sketch", ".", "", "sketch/ant/0.jpg\x00", "sketch/ant/0.jpg/x", "a" * 5000, "~/x")
    labels = ("0", "-1", "126", "9" * 5000, "1.0", "\u0663", "\u00b2", "", "x")
    found = [f"{name} {label}\n".encode() for name in names for label in labels[:2]]
    found += [f"sketch/ant/0.jpg {label}\n".encode() for label in labels]
    found += [b"", b"\n\n", b"\xff\xfe\x00", data.decode().encode("utf-16"), b"\xef\xbb\xbf" + data]
    return [*found, data.replace(b"\n", b"\r\n"), data * 50]


def _make_imagenet(folder: Path, damaged: str) -> Path:
    _pictures(folder / "val")
    (folder / "list.txt").write_text("".join(f"{name}/1.jpg\n" for name in CLASSES))
    (folder / "classes.txt").write_text("".join(f"{name}\n" for name in reversed(CLASSES)))
    return folder / damaged


def _read_imagenet(path: Path) -> object:
    here = path.parent
    dataset = load(
        "imagenet-c", here, domains=("fog",), cache_dir=here / "cache",
        image_list=here / "list.txt", class_list=here / "classes.txt",
    )  # fmt: skip
    return [dataset.labels("fog"), dataset.num_classes, dataset.classes]


def _sound_imagenet(value: object) -> None:
    labels, count, classes = value
    assert len(labels) > 0
    assert ((labels >= 0) & (labels < count)).all()
    assert count == len(set(classes))


def _make_folder(folder: Path) -> Path:
    _pictures(folder / "own" / "day")
    lines = (f"{7 * label} {name}\n" for label, name in enumerate(CLASSES))
    (folder / "classes.txt").write_text("".join(lines))
    return folder / "classes.txt"


def _read_folder(path: Path) -> object:
    dataset = load("folder", path.parent / "own", size=8, class_list=path)
    assert dataset.outputs is None or len(set(dataset.outputs)) == dataset.num_classes
    return [dataset.labels("day"), dataset.num_classes, dataset.classes]


def image_list_specials(data: bytes) -> list[bytes]:
    return [line.replace(b"sketch/", b"") for line in list_specials(data)]


def _make_tiny(folder: Path, damaged: str) -> Path:
    home = folder / "tiny-imagenet-200"
    (home / "val" / "images").mkdir(parents=True)
    for k in range(3):
        Image.new("RGB", (64, 64), (80 * k, 0, 0)).save(home / "val" / "images" / f"val_{k}.JPEG")
    rows = [f"val_{k}.JPEG\tn0{k}\t0\t0\t62\t62\n" for k in range(3)]
    (home / "val" / "val_annotations.txt").write_text("".join(rows))
    (home / "wnids.txt").write_text("n00\nn01\nn02\n")
    return home / damaged


def _read_tiny(path: Path) -> object:
    folder = next(p for p in path.parents if p.name == "tiny-imagenet-200").parent
    dataset = load("tiny-imagenet-c", folder, domains=("contrast",), cache_dir=folder / "cache")
    return [dataset.labels("contrast"), dataset.num_classes, dataset.classes]


GOOD_SWEEP = {
    "base": {"dataset": "shapes-c", "limit": 150, "set": {"lr": 0.001}},
    "grid": {
        "method": ["rotta"],
        "memory": ["single", {"name": "mcm", "options": {"capacity": 9}}],
    },
    "runs": [{"method": "tent", "seed": [0, 1], "set": {}}],
}
YAML = """\
base: {dataset: shapes-c, limit: 150, protocol: ptta}
grid:
  method: [rotta, petta]
  memory: [single, {name: mcm, label: nine, options: {capacity: 9}}]
  seed: [0, 1]
runs:
  - {method: source, set: {}}
  - method: tent
    set.lr: 1e-3
"""


def _make_sweep(folder: Path, ending: str) -> Path:
    path = folder / f"sweep.{ending}"
    path.write_text(json.dumps(GOOD_SWEEP) if ending == "json" else YAML)
    return path


def _read_sweep(path: Path) -> object:
    return [[run.name, run.label, run.settings] for run in grid.read(path)]


def _sound_sweep(value: object) -> None:
    assert value
    for name, label, settings in value:
        assert isinstance(label, str)
        assert "/" not in name
        assert json.loads(json.dumps(settings)) == settings


def yaml_specials(data: bytes) -> list[bytes]:
    """Alias bombs, tags that make objects, grids without end, values of the wrong kind."""
    bomb = ["a: &a0 [x, x, x, x, x, x, x, x, x]"]
    bomb += [f"b{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 12)]
    merge = ["a0: &m0 {x: 1}"]
    merge += [f"a{k}: &m{k} {{<<: [{', '.join([f'*m{k - 1}'] * 9)}]}}" for k in range(1, 9)]
    wide = "\n".join(f"  {key}: [{', '.join(map(str, range(1, 400)))}]" for key in _NUMBERS)
    grids = [f"grid:\n{wide}\n", "grid: {seed: &s [*s]}", "&a [*a]", "base: &b {set: *b}"]
    grids += ["\n".join(bomb) + "\ngrid: {seed: *a11}", "\n".join(merge) + "\nbase: *m8\n"]
    grids += ["\n".join(bomb).replace("a: &", "grid: &", 1)]
    tags = ("!!python/object/apply:os.system ['touch executed']", "!!python/name:os.system")
    tags += ("!!binary aGVsbG8=", "!!set {a, b}", "!!timestamp 2001-01-01", "2001-01-01", "0x1_0")
    tags += ("!!int x", "!!float x", "!!binary x", "? [a]\n: b", "!!omap [a: 1]", "1e999", ".nan")
    tags += ("190:20:30", "1_000", "~", "[]", "{}", "[[]]", "'\\0'", "9" * 5000, "-1", "true")
    keys = ("method", "seed", "memory", "limit", "gamma", "domains", "set", "rounds", "device")
    keys += (
        "severity",
        "batch-size",
        "guard",
        "precision",
        "data_dir",
        "weights",
        "model",
        "source",
    )
    found = [
        *grids,
        *tags,
        *(f"base: {{{key}: {tag}}}\ngrid: {{seed: [0]}}" for key in keys for tag in tags),
    ]
    found += [f"grid: {{{key}: [{tag}]}}" for key in keys for tag in tags]
    found += [
        "",
        "\t",
        "a: b: c",
        "%TAG",
        "---\n---\n",
        "[" * 20_000,
        "{a: " * 20_000,
        "- " * 20_000,
    ]
    return [text.encode() for text in found] + [b"\xff\xfe", b"\x00", YAML.encode("utf-16")]


_NUMBERS = ("seed", "limit", "rounds", "batch_size", "severity", "gamma", "reset_every")


def json_specials(data: bytes) -> list[bytes]:
    values = (
        "null",
        "[]",
        "{}",
        "-1",
        "1e999",
        "NaN",
        '"x"',
        "true",
        "[[1]]",
        '{"a": 1}',
        "9" * 5000,
    )
    content = json.loads(data)
    keys = [json.dumps(key) for key in content]
    found = [f"{{{key}: {value}}}".encode() for key in keys for value in values]
    for key in keys:  # the whole file with one value exchanged
        for value in values:
            marked = json.dumps({**content, json.loads(key): "@@@"})
            found.append(marked.replace('"@@@"', value).encode())
    found += [value.encode() for value in values]
    return [
        *found,
        b"",
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"\xff",
        data.decode().encode("utf-16"),
    ]


def _make_result(folder: Path) -> Path:
    settings = {
        "method": "rotta",
        "dataset": "shapes-c",
        "seed": 1,
        "memory": "mcm",
        "guard": False,
    }
    return results.Result(
        error=41.5, errors={"fog": 40.0, "snow": 43.0}, complete=True,
        settings={**results_settings(), **settings}, versions={"multipool": "0.1.0"}, seed=1,
        samples=640, total=640, curve=[{"samples": 640, "error": 41.5}],
        changes=[{"sample": 0, "domain": "fog", "round": 0}], counts={"updates": 10},
        memory={"size": 9, "sizes": [9], "events": {"added": 640}, "trace": []},
        timing={"stream": 1.5, "load": 0.5}, host={"device": "cpu"}, samples_per_second=426.7,
    ).write(folder / "run")  # fmt: skip


def results_settings() -> dict[str, object]:
    from multipool.bench.run.experiment import Experiment

    return dict(Experiment(method="rotta", memory="mcm").settings())


def _read_result(path: Path) -> object:
    """Read it, and group it as a report does: what is accepted must be good enough for that."""
    found = results.read(path)
    assert all(row.label and row.mean < 1e300 for part in sections([found]) for row in part.rows)
    assert command(found.settings).startswith("multipool run --dataset ")
    return found.as_dict()


def _sound_result(value: object) -> None:
    assert value["error"] is None or isinstance(value["error"], (int, float))
    assert isinstance(value["complete"], bool)
    assert all(isinstance(v, (int, float)) for v in value["errors"].values())


TEXT_READERS = {
    "a list of DomainNet": Reader(
        _make_domainnet, _read_domainnet, _sound_domainnet, list_specials
    ),
    "a list of ImageNet images": Reader(
        lambda folder: _make_imagenet(folder, "list.txt"),
        _read_imagenet, _sound_imagenet, image_list_specials,
    ),
    "a list of classes": Reader(
        lambda folder: _make_imagenet(folder, "classes.txt"),
        _read_imagenet, _sound_imagenet, image_list_specials, named="txt",
    ),
    "classes with numbers": Reader(
        _make_folder, _read_folder, _sound_imagenet, list_specials, named="classes"
    ),
    "annotations of Tiny-ImageNet": Reader(
        lambda folder: _make_tiny(folder, "val/val_annotations.txt"),
        _read_tiny, _sound_imagenet, list_specials,
    ),
    "a sweep, YAML": Reader(
        lambda folder: _make_sweep(folder, "yaml"), _read_sweep, _sound_sweep, yaml_specials
    ),
    "a sweep, JSON": Reader(
        lambda folder: _make_sweep(folder, "json"), _read_sweep, _sound_sweep, json_specials
    ),
    "a result": Reader(_make_result, _read_result, _sound_result, json_specials),
}  # fmt: skip
