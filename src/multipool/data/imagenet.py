"""``imagenet-c``: the official folders, or copies made from a validation folder on demand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from multipool.data.assembled import SEVERITIES, AssembledDataset, corruptions
from multipool.data.corrupted_files import FileCopies, label_names, official_files, pick_files
from multipool.data.files import Framing, class_folders
from multipool.data.places import cache_folder, data_folder, first_existing
from multipool.data.protocol import DataOptions, SourceImages

OFFICIAL = ("ImageNet-C", "imagenet-c", "ImageNetC")
VALIDATION = ("val", "imagenet/val", "ImageNet/val", "ILSVRC2012/val", "imagenet-val", "validation")
TRAINING = ("train", "imagenet/train", "ImageNet/train", "ILSVRC2012/train")
IMAGE_LIST = "imagenet_test_image_ids.txt"  # the name of the 5,000-image list where it is published
FRAMING = Framing(224, 256)  # how ImageNet-C was cut from ImageNet; its own files stay as they are


def imagenet_c(options: DataOptions = DataOptions()) -> AssembledDataset:
    """Return ImageNet-C: ``<corruption>/<severity>/<wnid>/*.JPEG``, or made from ``val/<wnid>/``.

    Labels are positions among the sorted wnids present, or in ``class_list``. ``image_list`` keeps
    the pictures it names (``wnid/file`` a line); a file ``imagenet_test_image_ids.txt`` in the
    data folder is used without asking.
    """
    name = "imagenet-c"
    folder = data_folder(options.data_dir, name)
    if options.image_list is None and (folder / IMAGE_LIST).is_file():
        options = replace(options, image_list=folder / IMAGE_LIST)

    def source_of(split: str, classes: tuple[str, ...]) -> SourceImages:
        if split == "train":
            return _training(folder, classes)
        pictures = pick_files(_validation(folder), classes, FRAMING, options)
        return SourceImages(pictures.labels, pictures.read, "test")

    official = first_existing(folder, OFFICIAL)
    if official is None and any((folder / c).is_dir() for c in corruptions(options.domains)):
        official = folder
    if official is not None:
        return official_files(name, official, FRAMING, options, source_of)
    place = _validation(folder)
    classes = label_names(options, place)
    files = pick_files(place, classes, FRAMING, options)
    return AssembledDataset(
        name=name,
        num_classes=len(classes),
        size=FRAMING.size,
        resize=FRAMING.describe(),
        domains=corruptions(options.domains),
        labels_of=lambda domain: files.labels,
        read=FileCopies(files, cache_folder(options.cache_dir) / name, options.seed),
        source_of=lambda split: source_of(split, classes),
        classes=classes,
        severities=SEVERITIES,
        severity=options.severity,
        lazy=True,
    )


def _training(folder: Path, classes: tuple[str, ...]) -> SourceImages:
    """Return the training pictures; a stream shows the validation ones, which never stand in."""
    train = first_existing(folder, TRAINING)
    if train is None:
        raise FileNotFoundError(
            f"no ImageNet training images in {folder}: put train/<wnid>/*.JPEG there "
            "('multipool data list' says where to get them)"
        )
    files = class_folders(train, classes, FRAMING)
    return SourceImages(files.labels, files.read, "train")


def _validation(folder: Path) -> Path:
    place = first_existing(folder, VALIDATION)
    if place is None:
        raise FileNotFoundError(
            f"no ImageNet pictures in {folder}: put the official ImageNet-C or val/<wnid>/*.JPEG "
            "there ('multipool data list' says where to get them)"
        )
    return place
