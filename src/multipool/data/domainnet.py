"""``domainnet126``: pictures named by list files, real as source, three domains to adapt to."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from multipool.core import brief, lookup
from multipool.data.assembled import AssembledDataset, check_labels
from multipool.data.files import FileImages, Framing, listed
from multipool.data.places import data_folder
from multipool.data.protocol import DataOptions, SourceImages

NUM_CLASSES = 126
SOURCE = "real"
TARGETS = ("clipart", "painting", "sketch")
DOMAINS = (SOURCE, *TARGETS)
PUBLISHED = {"real": 69_622, "clipart": 18_523, "painting": 30_042, "sketch": 24_147}  # lines
FOLDERS = ("domainnet126", "domainnet-126", "DomainNet-126", "DomainNet126", "domainnet")
# The published test transform scales every picture, those that are 224 x 224 already too.
FRAMING = Framing(224, 256, square=True, keep=False)


def domainnet126(options: DataOptions = DataOptions()) -> AssembledDataset:
    """Return DomainNet-126 from ``<domain>_list.txt`` files with ``relative/path label`` lines.

    Pictures are scaled to 256 x 256 and the central 224 x 224 is kept. There is one list of real
    pictures, and a source model learns from it: whichever split is asked for, they come as
    ``"train"``. A stream that shows them has no source left.
    """
    name = "domainnet126"
    domains = TARGETS if options.domains is None else options.domains
    for domain in domains:
        lookup(dict.fromkeys(DOMAINS), domain, f"domain of {name}")
    root = list_folder(data_folder(options.data_dir, name), domains)
    for domain in domains:
        list_file(root, domain)
    files = cache(lambda domain: _files(root, domain))

    def source_of(split: str) -> SourceImages:
        if SOURCE in domains:
            raise FileNotFoundError(
                f"the source images of {name} are the {SOURCE} pictures, which this stream shows; "
                f"leave {SOURCE} out of the domains"
            )
        real = files(SOURCE)
        return SourceImages(real.labels, real.read, "train")

    return AssembledDataset(
        name=name,
        num_classes=NUM_CLASSES,
        size=FRAMING.size,
        resize=FRAMING.describe(),
        domains=domains,
        labels_of=lambda domain: files(domain).labels,
        read=lambda domain, severity, rows: files(domain).read(rows),
        source_of=source_of,
        lazy=True,
    )


def list_folder(folder: Path, domains: Sequence[str]) -> Path:
    """Return the place in a data folder that has most of ``domains``: lists, with pictures first.

    A list that lies elsewhere as well, with no pictures beside it, must not hide them.
    """
    found = {place: _found(place, domains) for place in (folder, *(folder / f for f in FOLDERS))}
    if not any(any(counts) for counts in found.values()):
        raise FileNotFoundError(
            f"no DomainNet-126 in {folder}: put {SOURCE}_list.txt, {TARGETS[0]}_list.txt and so on "
            f"with their pictures into {folder / FOLDERS[0]} ('multipool data list' says from "
            "where)"
        )
    return max(found, key=lambda place: found[place])  # of equal ones the first


def _found(place: Path, domains: Sequence[str]) -> tuple[int, int, bool]:
    """Count the asked domains with list and pictures, and those with a list; is there any list?"""
    lists = {domain for domain in DOMAINS if (place / f"{domain}_list.txt").is_file()}
    asked = lists.intersection(domains)
    return sum((place / domain).is_dir() for domain in asked), len(asked), bool(lists)


def list_file(root: Path, domain: str) -> Path:
    """Return the list of a domain, or say that it is not there."""
    path = root / f"{domain}_list.txt"
    if not path.is_file():
        raise FileNotFoundError(
            f"{root} has no {path.name}: put the list of the {domain} pictures there"
        )
    return path


def _files(root: Path, domain: str) -> FileImages:
    path = list_file(root, domain)
    entries = listed(path, root)
    unlabelled = next((name for name, label in entries if not label), None)
    if unlabelled is not None:
        raise ValueError(
            f"{path} gives no label for {brief(unlabelled)}; expected 'path label' lines"
        )
    numbers = [int(label) for _, label in entries]
    labels = check_labels(numbers, NUM_CLASSES, f"the labels of {path}")
    return FileImages(root, [name for name, _ in entries], labels, FRAMING)
