"""The datasets by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from multipool.core import Table, lookup
from multipool.data.cifar import cifar10_c, cifar100_c
from multipool.data.domainnet import domainnet126
from multipool.data.folder import folder
from multipool.data.imagenet import imagenet_c
from multipool.data.protocol import DataOptions, Dataset
from multipool.data.shapes_c import shapes_c
from multipool.data.tiny import tiny_imagenet_c

Opener = Callable[[DataOptions], Dataset]
_MEMBERS = ("num_classes", "domains", "labels", "images")  # without which there is no stream

BUILT_IN: dict[str, Opener] = {
    "shapes-c": shapes_c,
    "cifar10-c": cifar10_c,
    "cifar100-c": cifar100_c,
    "tiny-imagenet-c": tiny_imagenet_c,
    "imagenet-c": imagenet_c,
    "domainnet126": domainnet126,
    "folder": folder,
}


def _opener(name: str, found: object) -> Opener:
    """Return what opens the dataset that an entry point names, and looks whether it is one."""
    if not callable(found):
        raise ValueError(f"a dataset must be a function of DataOptions, got {type(found).__name__}")

    def opened(options: DataOptions) -> Dataset:
        made: Dataset = found(options)
        lacking = [member for member in _MEMBERS if not hasattr(made, member)]
        if lacking:
            raise ValueError(
                f"dataset '{name}' must have the members of multipool.data.Dataset; what its "
                f"package opens, {type(made).__name__}, has no {', '.join(lacking)}"
            )
        return made

    return opened


DATASETS: Table[Opener] = Table("dataset", "multipool.datasets", BUILT_IN, _opener)


def load(
    name: str,
    data_dir: str | Path | None = None,
    *,
    severity: int = 5,
    domains: tuple[str, ...] | None = None,
    size: int | None = None,
    image_list: str | Path | None = None,
    class_list: str | Path | None = None,
    seed: int = 0,
    cache_dir: str | Path | None = None,
) -> Dataset:
    """Open a dataset by name.

    Args:
        name: of ``DATASETS``, or what an installed package adds.
        data_dir: where datasets lie; left out: the environment's ``MULTIPOOL_DATA``.
        severity: of the corruptions, 1 to 5.
        domains: which ones, in stream order; left out: the paper's.
        size: side in pixels, where the dataset can choose it.
        image_list: ImageNet-C only: a file of ``class/name``, one a line.
        class_list: ImageNet-C only: a file of class folders, one a line, in label order.
        seed: of corruptions that are generated.
        cache_dir: where those are kept; left out: ``MULTIPOOL_CACHE``, else the user's cache.

    >>> load("shapes-c", domains=("fog",)).num_classes
    100
    """
    make = lookup(DATASETS, name, "dataset")
    if isinstance(domains, str):
        raise ValueError(f"domains must be a tuple of names, got {domains!r}; pass ({domains!r},)")
    chosen = None if domains is None else tuple(domains)
    return make(
        DataOptions(data_dir, severity, chosen, size, image_list, class_list, seed, cache_dir)
    )
