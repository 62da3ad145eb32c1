"""``folder``: a user's own pictures, in class folders inside domain folders, or without classes."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np

from multipool.core import lookup
from multipool.data.assembled import SEVERITIES, AssembledDataset
from multipool.data.class_list import read_class_list
from multipool.data.files import EXTENSIONS, FileImages, Framing, class_folders, folders
from multipool.data.places import data_folder
from multipool.data.protocol import DataOptions, SourceImages

SOURCE = "source"
DEFAULT_SIZE = 224


def folder(options: DataOptions = DataOptions()) -> AssembledDataset:
    """Return ``ROOT/<domain>/<class>/<image>``; ``ROOT/source/<class>/`` are the source images.

    Domains are visited in sorted order unless they are named; classes are the sorted names over
    all folders, or those of ``class_list`` in its order. A domain may have severities, as
    ``multipool corrupt --images`` writes them: ``ROOT/<domain>/<1 to 5>/<class>/<image>``. Without
    class folders, ``ROOT/<domain>/<image>``, there are no labels, and the pictures of a domain come
    in the order of their names. Source images are one set and never a domain: they come as
    ``"train"`` whichever split is asked for. The shorter side is scaled to ``size`` (224 if not
    given) and the centre is kept.
    """
    root = data_folder(options.data_dir, "folder")
    present = folders(root)
    targets = tuple(name for name in present if name != SOURCE)
    if not targets:
        raise FileNotFoundError(
            f"{root} must hold <domain>/<class>/<image>, or <domain>/<image> without labels, "
            "got no domain folder"
        )
    domains = targets if options.domains is None else options.domains
    for domain in domains:
        lookup(dict.fromkeys(targets), domain, "domain folder")
    levels = _severities(root, targets)
    inside = {
        name: folders(_place(root, name, options.severity, levels))
        for name in (*domains, *(n for n in present if n == SOURCE))
    }
    labelled = _labelled(root, {name: inside[name] for name in domains})
    found = tuple(sorted({name for classes in inside.values() for name in classes}))
    listed = read_class_list(options.class_list)
    classes = found if listed is None else listed.names
    if not any(inside.values()) and labelled:
        raise FileNotFoundError(
            f"the domain folders of {root} have neither class folders nor pictures"
        )
    if labelled and len(classes) < 2:
        raise ValueError(f"{root} must have at least 2 class folders, got {len(classes)}")
    size = options.size or DEFAULT_SIZE
    framing = Framing(size, size)

    @cache
    def files(domain: str, severity: int) -> FileImages:
        place = _place(root, domain, severity, levels)
        if labelled or domain == SOURCE:
            return class_folders(place, classes, framing)
        names = _images(place)
        if not names:
            raise FileNotFoundError(f"{place} has no images")
        return FileImages(place, names, np.zeros(len(names), dtype=np.int64), framing)

    def source_of(split: str) -> SourceImages:
        if SOURCE not in present:
            raise FileNotFoundError(
                f"there are no source images: put them into {root / SOURCE}/<class>/"
            )
        kept = files(SOURCE, options.severity)
        return SourceImages(kept.labels, kept.read, "train")

    def path_of(domain: str, row: int) -> str:
        kept = files(domain, options.severity)
        return (kept.root / kept.names[row]).relative_to(root).as_posix()

    return AssembledDataset(
        name="folder",
        num_classes=len(classes),  # 0: there are neither class folders nor a list
        size=size,
        resize=framing.describe(),
        domains=domains,
        labels_of=lambda domain: files(domain, options.severity).labels,
        read=lambda domain, severity, rows: files(domain, severity or options.severity).read(rows),
        source_of=source_of,
        classes=classes or None,
        severities=levels,
        severity=options.severity if levels else 0,
        lazy=True,
        labelled=labelled,
        outputs=None if listed is None else listed.outputs,
        path_of=path_of,
    )


def _severities(root: Path, targets: tuple[str, ...]) -> tuple[int, ...]:
    """Return the severities that every domain has, if domains are divided into such at all."""
    known = {str(level): level for level in SEVERITIES}
    inner = [set(folders(root / name)) for name in targets]
    if not all(names and names <= known.keys() for names in inner):
        return ()
    return tuple(sorted(known[name] for name in set.intersection(*inner)))


def _place(root: Path, domain: str, severity: int, levels: tuple[int, ...]) -> Path:
    """Return where a domain's class folders lie."""
    if not levels or domain == SOURCE:
        return root / domain
    if severity not in levels:
        shown = ", ".join(map(str, levels))
        raise ValueError(f"{root} has severities {shown}, got {severity}; pass --severity")
    return root / domain / str(severity)


def _labelled(root: Path, inside: dict[str, tuple[str, ...]]) -> bool:
    """Return whether pictures lie in class folders, in all domains alike."""
    with_classes = [name for name, classes in inside.items() if classes]
    for name, classes in inside.items():
        if with_classes and not classes and _images(root / name):
            raise ValueError(
                f"{root / name} has pictures without class folders, {root / with_classes[0]} has "
                "class folders; give all domains classes, or none"
            )
    return bool(with_classes) or not any(_images(root / name) for name in inside)


def _images(place: Path) -> list[str]:
    with os.scandir(place) as entries:
        return sorted(e.name for e in entries if e.name.lower().endswith(EXTENSIONS))
