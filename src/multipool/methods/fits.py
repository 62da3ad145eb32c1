"""Which method works on which kind of model: one rule, for the error and for the table."""

from __future__ import annotations

import logging

from torch import nn

from multipool.engine import Method
from multipool.methods.table import BUILT_IN, METHODS
from multipool.ops import Network

_log = logging.getLogger("multipool")
_LIBRARIES = ("timm", "torchvision", "transformers")
# Kinds of model: whether any normalisation layer keeps statistics, whether any has weights.
_KINDS = {
    "BatchNorm": (True, True),
    "LayerNorm, GroupNorm, InstanceNorm, RMSNorm": (False, True),
    "BatchNorm and others": (True, True),
    "none": (False, False),
}


def works(kind: type[Method], *, statistics: bool, affine: bool) -> bool:
    """Tell whether a method runs on a model by what its normalisation layers have.

    >>> works(METHODS["tent"], statistics=False, affine=True)
    True
    >>> works(METHODS["bn"], statistics=False, affine=True)
    False
    """
    return {"none": True, "affine": affine, "batchnorm": statistics}[kind.needs_norm]


def check_fits(kind: type[Method], network: Network) -> None:
    """Raise ``ValueError`` if a method cannot work on a model; name all that can."""
    statistics, affine = network.has_statistics, network.source is not None
    if works(kind, statistics=statistics, affine=affine):
        return
    needed = "BatchNorm layers" if kind.needs_norm == "batchnorm" else "normalisation layers"
    found = ", ".join(sorted(set(network.kinds)))
    has = f"{found} only" if found else "none with weights of their own"
    names = [n for n, k in METHODS.items() if works(k, statistics=statistics, affine=affine)]
    advice = "put BatchNorm into it with models.with_batchnorm, or " if affine else ""
    raise ValueError(
        f"method '{kind.name}' adapts {needed} and this model has {has}; {advice}choose a method "
        f"that works on it: {', '.join(names)}"
    )


def is_without_statistics(method: Method) -> bool:
    """Tell whether a method keeps statistics of normalisation layers and this model has none."""
    network = method.network
    return (
        method.normalises_by == "kept" and network.source is not None and not network.has_statistics
    )


def notice_library(model: nn.Module) -> None:
    """Say so if a model comes as a library has it, which leaves normalisation to its caller."""
    library = type(model).__module__.partition(".")[0]
    if library in _LIBRARIES:
        _log.warning(
            "%s is a model of %s, which takes normalised images, and adapt gives it images in "
            "[0, 1]: pass models.wrap(model, mean, std) with the mean and std of its configuration",
            type(model).__name__,
            library,
        )


def markdown() -> str:
    """Return the table of methods and kinds of model, as the docs show it."""
    head = ["method", *_KINDS, "reads features"]
    lines = [_row(head), _row(["---"] * len(head))]
    for name, kind in BUILT_IN.items():
        cells = [_cell(kind, statistics, affine) for statistics, affine in _KINDS.values()]
        lines.append(_row([f"`{name}`", *cells, "yes" if kind.reads_features else "–"]))
    return "\n".join(lines) + "\n"


def _cell(kind: type[Method], statistics: bool, affine: bool) -> str:
    if not works(kind, statistics=statistics, affine=affine):
        return "–"
    return "without statistics" if kind.normalises_by == "kept" and not statistics else "yes"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
