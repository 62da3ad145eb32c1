"""Readers of lists: images, annotations, classes."""

from pathlib import Path

import numpy as np
from PIL import Image
from reader import Reader

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


LIST_READERS = {
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
}  # fmt: skip
