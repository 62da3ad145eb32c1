"""No image of a stream is ever in what ``source("train")`` returns, for every dataset."""

from __future__ import annotations

import hashlib
import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from multipool.data import DATASETS, Stream, StreamConfig, load, shapes_c

DOMAINS = ("contrast", "brightness")
WNIDS = ("n01", "n02", "n03")


class Writer:
    """Random pictures under a folder; no two of them are alike."""

    def __init__(self, root):
        self.root = root
        self.rng = np.random.default_rng(0)

    def pixels(self, count, side):
        return self.rng.integers(0, 256, (count, side, side, 3), dtype=np.uint8)

    def picture(self, side=64):
        file = io.BytesIO()
        Image.fromarray(self.pixels(1, side)[0]).save(file, "PNG")
        return file.getvalue()

    def file(self, name, content):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def tree(self, place, classes, inner="", each=2):
        for name in classes:
            for i in range(each):
                self.file(f"{place}/{name}/{inner}{name}_{i}.png", self.picture())

    def npz(self, name, count, num_classes):
        labels = np.arange(count) % num_classes
        np.savez(self.root / name, images=self.pixels(count, 32), labels=labels)


def shapes(writer, training):
    return None


def cifar(num_classes):
    def write(writer, training):
        writer.npz(f"cifar{num_classes}_test.npz", num_classes, num_classes)
        if training:
            writer.npz(f"cifar{num_classes}_train2k.npz", num_classes, num_classes)

    return write


def tiny(writer, training):
    home = "tiny-imagenet-200"
    lines = []
    for i in range(6):
        writer.file(f"{home}/val/images/val_{i}.JPEG", writer.picture())
        lines.append(f"val_{i}.JPEG\t{WNIDS[i % 3]}\t0\t0\t1\t1")
    writer.file(f"{home}/val/val_annotations.txt", "\n".join(lines).encode())
    if training:
        writer.tree(f"{home}/train", WNIDS, "images/")


def packed_tiny(writer, training):
    tiny(writer, training=False)
    if training:
        with tarfile.open(writer.root / "tiny-imagenet-200-train2k.tar", "w") as file:
            for wnid in WNIDS[1:]:  # fewer classes than the stream: labels are the stream's
                content = writer.picture()
                info = tarfile.TarInfo(f"tiny-imagenet-200/train/{wnid}/images/{wnid}_0.JPEG")
                info.size = len(content)
                file.addfile(info, io.BytesIO(content))


def official_tiny(writer, training):
    for domain in DOMAINS:
        writer.tree(f"Tiny-ImageNet-C/{domain}/5", WNIDS)
    tiny(writer, training)


def imagenet(writer, training):
    writer.tree("val", WNIDS)
    if training:
        writer.tree("train", WNIDS[1:])


def official_imagenet(writer, training):
    for domain in DOMAINS:
        writer.tree(f"ImageNet-C/{domain}/5", WNIDS)
    imagenet(writer, training)


def domainnet(writer, training):
    for domain in ("clipart", "painting", "sketch", *(("real",) if training else ())):
        names = [f"{domain}/class_{i}/{domain}_{i}.png" for i in range(3)]
        for name in names:
            writer.file(f"domainnet126/{name}", writer.picture())
        lines = [f"{name} {i}" for i, name in enumerate(names)]
        writer.file(f"domainnet126/{domain}_list.txt", "\n".join(lines).encode())


def own_pictures(writer, training):
    for domain in ("day", "night", *(("source",) if training else ())):
        writer.tree(domain, WNIDS)


LAYOUTS = [
    ("shapes-c", shapes),
    ("cifar10-c", cifar(10)),
    ("cifar100-c", cifar(100)),
    ("tiny-imagenet-c", tiny),
    ("tiny-imagenet-c", packed_tiny),
    ("tiny-imagenet-c", official_tiny),
    ("imagenet-c", imagenet),
    ("imagenet-c", official_imagenet),
    ("domainnet126", domainnet),
    ("folder", own_pictures),
]


@pytest.fixture(autouse=True)
def few_shapes(monkeypatch):
    monkeypatch.setattr(shapes_c, "COUNTS", {"train": 300, "test": 200})
    shapes_c.drawn.cache_clear()
    yield
    shapes_c.drawn.cache_clear()


def opened(name, folder):
    corrupted = name.endswith("-c")
    return load(name, folder, domains=DOMAINS if corrupted else None)


def digests(images):
    return {hashlib.blake2b(image.numpy().tobytes()).digest() for image in images}


def shown(dataset):
    """Return the digests of all that a stream shows, and of the clean images behind it."""
    found = set()
    for batch in Stream(dataset, StreamConfig(batch_size=32)):
        found |= digests(batch.images)
    if dataset.severities:
        clean = dataset.source("test")
        assert clean.split == "test"
        found |= digests(clean.whole().images)
    return found


def test_every_dataset_has_a_layout_here():
    assert {name for name, _ in LAYOUTS} == set(DATASETS)


@pytest.mark.parametrize(("name", "write"), LAYOUTS)
def test_no_image_of_a_stream_is_among_the_training_images(tmp_path, name, write):
    write(Writer(tmp_path), training=True)
    dataset = opened(name, tmp_path)
    source = dataset.source("train")
    assert source.split == "train"
    training = digests(source.whole().images)
    assert len(training) == len(source.labels) > 0
    assert not training & shown(dataset)


@pytest.mark.parametrize(("name", "write"), [case for case in LAYOUTS if case[0] != "shapes-c"])
def test_without_training_images_a_sentence_says_what_to_put_where(tmp_path, name, write):
    write(Writer(tmp_path), training=False)
    dataset = opened(name, tmp_path)
    with pytest.raises(FileNotFoundError, match="put ") as caught:
        dataset.source("train")
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_pictures_that_a_stream_shows_are_no_source(tmp_path):
    domainnet(Writer(tmp_path), training=True)
    dataset = load("domainnet126", tmp_path, domains=("sketch", "real"))
    for split in ("train", "test"):
        with pytest.raises(FileNotFoundError, match="leave real out of the domains"):
            dataset.source(split)


@pytest.mark.parametrize("name", ["tiny-imagenet-c", "imagenet-c"])
def test_training_labels_are_those_of_the_stream(tmp_path, name):
    write = packed_tiny if name == "tiny-imagenet-c" else imagenet
    write(Writer(tmp_path), training=True)
    assert set(opened(name, tmp_path).source("train").labels.tolist()) == {1, 2}


@pytest.mark.parametrize(
    "name", ["cifar10-c", "cifar100-c", pytest.param("tiny-imagenet-c", marks=pytest.mark.slow)]
)
def test_the_real_training_images_are_none_of_the_stream(shared, name):
    dataset = load(name, shared, domains=("contrast",))
    try:
        training = dataset.source("train")
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    assert len(training.labels) == 2000
    assert np.bincount(training.labels).tolist() == [2000 // dataset.num_classes] * (
        dataset.num_classes
    )
    ours = digests(training.whole().images)
    assert not ours & digests(dataset.source("test").whole().images)
