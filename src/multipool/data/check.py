"""Whether a dataset is there, complete and unchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from multipool.core import brief, lookup
from multipool.data import cifar, domainnet, imagenet, tiny
from multipool.data.catalog import CATALOG
from multipool.data.corruptions import COMMON
from multipool.data.datasets import DATASETS, load
from multipool.data.files import list_lines
from multipool.data.places import data_folder, first_existing
from multipool.data.protocol import Dataset

Tell = Callable[[str], None]

# What each dataset's reader looks for in the data folder, first things first.
TRACES: dict[str, tuple[str, ...]] = {
    "shapes-c": (),
    "cifar10-c": cifar.traces(10),
    "cifar100-c": cifar.traces(100),
    "tiny-imagenet-c": tiny.TRACES,
    "imagenet-c": (*imagenet.OFFICIAL, *imagenet.VALIDATION, *COMMON),
    "domainnet126": (*domainnet.FOLDERS, *(f"{d}_list.txt" for d in domainnet.DOMAINS)),
    "folder": (".",),
}


@dataclass(frozen=True)
class Report:
    """What was found. ``state`` is ``complete``, ``incomplete``, ``absent`` or ``damaged``.

    ``incomplete`` is said of DomainNet-126: what is there is as published, but it is a part.
    """

    name: str
    state: str
    where: str
    found: str = ""  # what there is, in words
    faults: tuple[str, ...] = ()


def present(name: str, folder: Path) -> Path | None:
    """Return the first thing in ``folder`` that belongs to a dataset, if there is any.

    >>> present("cifar10-c", Path("/nowhere")) is None
    True
    """
    return first_existing(folder, TRACES[name])


def check(
    name: str, data_dir: str | Path | None = None, *, decode: bool = False, tell: Tell | None = None
) -> Report:
    """Open a dataset, count its images, compare checksums; ``decode`` reads every picture too.

    ``tell`` hears what is being looked at.
    """
    if name not in CATALOG:
        return _check_outside(name, data_dir, decode, tell)
    if name == "shapes-c":
        return Report(name, "complete", "in the package", CATALOG[name].about)
    try:
        folder = data_folder(data_dir, name)
    except FileNotFoundError as error:
        return Report(name, "absent", "nowhere", faults=(str(error),))
    try:
        if name == "domainnet126":
            return _check_lists(folder, decode, tell)
        dataset = load(name, folder)
        counts = {domain: len(dataset.labels(domain)) for domain in dataset.domains}
    except (FileNotFoundError, ValueError) as error:
        state = "damaged" if present(name, folder) else "absent"
        return Report(name, state, str(folder), faults=(str(error),))
    faults = _uneven(dataset, counts) + _changed(name, folder, tell)
    if decode:
        faults += _undecodable(dataset, tell)
    state = "damaged" if faults else "complete"
    return Report(name, state, str(folder), _counted(dataset, counts), tuple(faults))


def _check_outside(
    name: str, data_dir: str | Path | None, decode: bool, tell: Tell | None
) -> Report:
    """Open a dataset of another package: it alone knows where its images lie."""
    lookup(DATASETS, name, "dataset")
    where = f"package {DATASETS.origin(name)}" if data_dir is None else str(data_dir)
    try:
        dataset = load(name, data_dir)
        counts = {domain: len(dataset.labels(domain)) for domain in dataset.domains}
    except (FileNotFoundError, ValueError) as error:
        return Report(name, "absent", where, faults=(str(error),))
    faults = _uneven(dataset, counts) + (_undecodable(dataset, tell) if decode else [])
    state = "damaged" if faults else "complete"
    return Report(name, state, where, _counted(dataset, counts), tuple(faults))


def _check_lists(folder: Path, decode: bool, tell: Tell | None) -> Report:
    """Look at each domain of DomainNet-126 by itself, so that who has a part hears of which."""
    name = "domainnet126"
    root = domainnet.list_folder(folder, domainnet.DOMAINS)
    counts: dict[str, int] = {}
    lacks: list[str] = []
    faults = _changed(name, folder, tell)
    for domain in domainnet.DOMAINS:
        try:
            path = domainnet.list_file(root, domain)
        except FileNotFoundError as error:
            lacks.append(str(error))
            continue
        try:
            faults += _other_list(path, domain, tell)
            if lacking := _lacking(path):
                lacks.append(lacking + ("; none of them was decoded" if decode else ""))
                continue
            dataset = load(name, root, domains=(domain,))
            counts[domain] = len(dataset.labels(domain))
        except (OSError, ValueError) as error:
            faults.append(str(error))
            continue
        if decode:
            faults += _undecodable(dataset, tell)
    state = "damaged" if faults else "incomplete" if lacks else "complete"
    there = f" ({', '.join(counts)})" if counts else ""
    found = (
        f"{len(counts)} of {len(domainnet.DOMAINS)} domains{there}, "
        f"{sum(counts.values()):,} images, {domainnet.NUM_CLASSES} classes"
    )
    return Report(name, state, str(folder), found, (*faults, *lacks))


def _lacking(path: Path) -> str:
    """Say how many pictures of a list are not there, or nothing."""
    named = [image for _, image, _ in list_lines(path)]
    missing = [image for image in named if not (path.parent / image).is_file()]
    if not missing:
        return ""
    return (
        f"{path.parent} lacks {len(missing):,} of the {len(named):,} pictures that {path.name} "
        f"names, the first is {brief(missing[0])}; put them there (a list of your own without them "
        "runs too, but is not the published one)"
    )


def _other_list(path: Path, domain: str, tell: Tell | None) -> list[str]:
    """Compare a list with the published one; copies with the line ends of Windows are the same."""
    if tell is not None:
        tell(f"checksum of {path.name}")
    text = path.read_bytes().replace(b"\r\n", b"\n")
    found = hashlib.md5(text, usedforsecurity=False).hexdigest()
    expected = next(i.md5 for i in CATALOG["domainnet126"].downloads if i.file == path.name)
    if found == expected:
        return []
    images = sum(1 for line in text.splitlines() if line.strip())
    return [
        f"{path} is not the published list: it names {images:,} pictures and has the MD5 sum "
        f"{found}, the published one {domainnet.PUBLISHED[domain]:,} and {expected}; put that one "
        "there unless yours is meant"
    ]


def _counted(dataset: Dataset, counts: dict[str, int]) -> str:
    images = sum(counts.values())
    known = getattr(dataset, "labelled", True)
    classes = f"{dataset.num_classes} classes" if known else "no labels"
    return f"{len(counts)} domains, {images:,} images, {classes}"


def _uneven(dataset: Dataset, counts: dict[str, int]) -> list[str]:
    """Domains that are corruptions of one set must have one length."""
    if not dataset.severities:
        return []
    most = max(counts.values())
    return [
        f"{domain} has {count:,} images, other domains have {most:,}"
        for domain, count in counts.items()
        if count != most
    ]


def _changed(name: str, folder: Path, tell: Tell | None) -> list[str]:
    """Compare what has a published checksum: official arrays, and archives that lie there."""
    entry = CATALOG[name]
    sums = [(folder / item.file, item.md5) for item in entry.downloads if item.archive]
    if entry.arrays and (home := cifar.official_folder(folder, 10 if name == "cifar10-c" else 100)):
        sums += [(home / f"{array}.npy", md5) for array, md5 in entry.arrays.items()]
    faults = []
    for path, expected in sums:
        if not path.is_file():
            continue
        if tell is not None:
            tell(f"checksum of {path.name}")
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "md5").hexdigest()
        if found != expected:
            faults.append(f"{path} has the MD5 sum {found}, the published one is {expected}")
    return faults


def _undecodable(dataset: Dataset, tell: Tell | None) -> list[str]:
    """Read every image once, and report those that cannot be read."""
    faults = []
    for domain in dataset.domains:
        if tell is not None:
            tell(f"reading {domain}")
        rows = np.arange(len(dataset.labels(domain)))
        for start in range(0, len(rows), 64):
            faults += _first_fault(dataset, domain, rows[start : start + 64])
    return faults


def _first_fault(dataset: Dataset, domain: str, rows: np.ndarray) -> list[str]:
    try:
        dataset.images(domain, rows)
    except (ValueError, FileNotFoundError):
        faults = []
        for row in rows:  # one by one, to name each
            try:
                dataset.images(domain, np.asarray([row]))
            except (ValueError, FileNotFoundError) as error:
                faults.append(str(error))
        return faults
    return []
