"""Published settings that differ from a method's defaults, by the dataset they were published for.

A method's own defaults are those for CIFAR-100-C, so only the other columns stand here. A method
never knows a dataset's name; this table is where the two meet.
"""

from __future__ import annotations

from collections.abc import Mapping

# Datasets without a column of their own use that of the benchmark most like them.
COLUMNS: dict[str, str] = {
    "shapes-c": "cifar100-c",
    "cifar10-c": "cifar10-c",
    "cifar100-c": "cifar100-c",
    "tiny-imagenet-c": "imagenet-c",
    "imagenet-c": "imagenet-c",
    "domainnet126": "domainnet126",
    "folder": "cifar100-c",
}

HYPERPARAMETERS: dict[str, dict[str, Mapping[str, object]]] = {
    "petta": {
        "imagenet-c": {"loss": "ce"},
        "domainnet126": {"loss": "ce", "pull": 1.0},
    },
    # Only ImageNet-C's settings are published; the same rate for DomainNet-126 is our choice.
    "resitta": {
        "imagenet-c": {"lr": 1e-6},
        "domainnet126": {"lr": 1e-6},
    },
}

# Which clean images the published code makes its source statistics from.
SOURCE_SPLITS: dict[str, str] = {"petta": "test", "eata": "test", "mecta": "test", "rmt": "train"}

# Weights that come with the package, by the dataset they were trained for.
SHIPPED_FOR: dict[str, str] = {"shapes-c": "shapes-wrn10-1"}


def published(method: str, dataset: str) -> Mapping[str, object]:
    """Return the options of ``method`` that were published for ``dataset``; none: its defaults.

    >>> published("source", "imagenet-c")
    {}
    """
    column = COLUMNS.get(dataset, "cifar100-c")
    return HYPERPARAMETERS.get(method, {}).get(column, {})
