"""``folder``: a user's own pictures, class folders inside domain folders."""

from __future__ import annotations

from functools import cache

from multipool.core import lookup
from multipool.data.assembled import AssembledDataset
from multipool.data.files import FileImages, Framing, class_folders, folders
from multipool.data.places import data_folder
from multipool.data.protocol import DataOptions, SourceImages

SOURCE = "source"
DEFAULT_SIZE = 224


def folder(options: DataOptions = DataOptions()) -> AssembledDataset:
    """Return ``ROOT/<domain>/<class>/<image>``; ``ROOT/source/<class>/`` are the source images.

    Domains are visited in sorted order unless they are named; classes are the sorted names over
    all folders. Source images are one set and never a domain: they come as ``"train"`` whichever
    split is asked for. The shorter side is scaled to ``size`` (224 if not given) and the centre is
    kept.
    """
    root = data_folder(options.data_dir, "folder")
    present = folders(root)
    targets = tuple(name for name in present if name != SOURCE)
    if not targets:
        raise FileNotFoundError(f"{root} must hold <domain>/<class>/<image>, got no domain folder")
    domains = targets if options.domains is None else options.domains
    for domain in domains:
        lookup(dict.fromkeys(targets), domain, "domain folder")
    classes = tuple(sorted({name for place in present for name in folders(root / place)}))
    if len(classes) < 2:
        raise ValueError(f"{root} must have at least 2 class folders, got {len(classes)}")
    size = options.size or DEFAULT_SIZE

    @cache
    def files(domain: str) -> FileImages:
        return class_folders(root / domain, classes, Framing(size, size))

    def source_of(split: str) -> SourceImages:
        if SOURCE not in present:
            raise FileNotFoundError(
                f"there are no source images: put them into {root / SOURCE}/<class>/"
            )
        return SourceImages(files(SOURCE).labels, files(SOURCE).read, "train")

    return AssembledDataset(
        name="folder",
        num_classes=len(classes),
        size=size,
        domains=domains,
        labels_of=lambda domain: files(domain).labels,
        read=lambda domain, severity, rows: files(domain).read(rows),
        source_of=source_of,
        classes=classes,
        lazy=True,
    )
