"""``tiny-imagenet-c``: the official folders, or copies made from the clean validation set."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from multipool.data.assembled import AssembledDataset
from multipool.data.copies import CorruptedCopies
from multipool.data.corrupted_files import official_files
from multipool.data.domains import SEVERITIES, corruptions
from multipool.data.files import class_folders, folders
from multipool.data.places import cache_folder, data_folder, first_existing
from multipool.data.protocol import DataOptions, SourceImages
from multipool.data.tiny_clean import (
    ANNOTATIONS,
    ARCHIVES,
    FRAMING,
    HOME,
    TRAINING_ARCHIVES,
    clean_validation,
    packed_training,
)

OFFICIAL = ("Tiny-ImageNet-C", "tiny-imagenet-c", "TinyImageNet-C")
TRACES = (*OFFICIAL, HOME, *ARCHIVES, ANNOTATIONS)


def tiny_imagenet_c(options: DataOptions = DataOptions()) -> AssembledDataset:
    """Return Tiny-ImageNet-C: official ``<corruption>/<severity>/<wnid>/``, or made from ``val``.

    A label is the position of the class folder among the sorted wnids.
    """
    name = "tiny-imagenet-c"
    folder = data_folder(options.data_dir, name)
    cached = cache_folder(options.cache_dir)
    clean = cache(lambda: clean_validation(folder, cached))

    def source_of(split: str, classes: tuple[str, ...]) -> SourceImages:
        # The validation images are what the stream is made of: never training images.
        return _training(folder, cached, classes) if split == "train" else clean().source("test")

    official = first_existing(folder, OFFICIAL)
    if official is not None:
        return official_files(name, official, FRAMING, options, source_of)
    test = clean()
    classes = test.classes or ()
    return AssembledDataset(
        name=name,
        num_classes=len(classes),
        size=FRAMING.size,
        domains=corruptions(options.domains),
        labels_of=lambda domain: test.labels,
        read=CorruptedCopies(clean, cached / name, options.seed),
        source_of=lambda split: source_of(split, classes),
        classes=classes,
        severities=SEVERITIES,
        severity=options.severity,
    )


def _training(folder: Path, cached: Path, classes: tuple[str, ...]) -> SourceImages:
    """Return ``train/<wnid>[/images]/*`` of a folder or archive; labels are those of the stream."""
    train = first_existing(folder, (f"{HOME}/train",))
    if train is None and (folder / ANNOTATIONS).is_file():  # the data folder is the set itself
        train = first_existing(folder, ("train",))
    if train is not None:
        present = folders(train)
        nested = bool(present) and (train / present[0] / "images").is_dir()
        files = class_folders(train, classes, FRAMING, "images" if nested else "")
        return SourceImages(files.labels, files.read, "train")
    archive = first_existing(folder, TRAINING_ARCHIVES)
    if archive is not None:
        return packed_training(archive, classes, cached).source("train")
    raise FileNotFoundError(
        f"no Tiny-ImageNet training images in {folder}: put {HOME}/train/<wnid>/images/*.JPEG or "
        f"{' or '.join(TRAINING_ARCHIVES)} there ('multipool data fetch tiny-imagenet-c' gets all)"
    )
