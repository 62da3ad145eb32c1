"""Statistics of source data that some methods start from: made once, kept in a file.

PeTTA's release takes the class of an image from the model's prediction, not from its label. A
class with fewer than two images has no variance; the release turns to NaN there and then predicts
one class for ever, so we give such a class the mean and variance of all images.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from multipool.core import as_float, batches, check_images, read_tensors, write_tensors
from multipool.engine.saving import check_unaltered, check_version, digest
from multipool.ops import Network

_KIND = "multipool source statistics"
_VERSION = "1"
_MOST_IMAGES = 100_000  # as released


@dataclass(frozen=True)
class SourceStatistics:
    """Per class, mean and variance of the penultimate features, and the number of images."""

    mean: Tensor  # (L, D) float32
    var: Tensor  # (L, D) float32, unbiased
    counts: Tensor  # (L,) int64

    @property
    def state(self) -> dict[str, Tensor]:
        """The tensors by the names they are saved under."""
        return {"mean": self.mean, "var": self.var, "counts": self.counts}

    def to(self, device: torch.device) -> SourceStatistics:
        """Return the same statistics on ``device``."""
        return SourceStatistics(**{name: t.to(device) for name, t in self.state.items()})


@torch.no_grad()
def gather(network: Network, source: object, num_classes: int) -> SourceStatistics:
    """Return the statistics of ``source`` under the source model; sums in float64."""
    device, total = network.device(), 0
    sums: list[Tensor] = []
    for given in batches(source):
        images = network.prepare(as_float(check_images(given).to(device)))
        logits = network.plain(images)
        features = network.features().double()
        member = torch.nn.functional.one_hot(logits.argmax(dim=1), num_classes).double()
        parts = [member.T @ features, member.T @ features.square(), member.sum(dim=0)]
        sums = [a + b for a, b in zip(sums, parts, strict=True)] if sums else parts
        total += len(images)
        if total > _MOST_IMAGES:
            break
    if not sums or total < 2:
        raise ValueError(f"source must hold at least 2 images to take a variance, got {total}")
    return _from_sums(*sums)


def _from_sums(first: Tensor, second: Tensor, counts: Tensor) -> SourceStatistics:
    """Return means and unbiased variances; classes of fewer than two images take the global."""
    n = counts.clamp_min(1)[:, None]
    mean = first / n
    var = (second - n * mean.square()).clamp_min(0) / (n - 1).clamp_min(1)
    total = counts.sum()
    global_mean = first.sum(dim=0) / total
    global_var = (second.sum(dim=0) - total * global_mean.square()).clamp_min(0) / (total - 1)
    few = (counts < 2)[:, None]
    mean, var = torch.where(few, global_mean, mean), torch.where(few, global_var, var)
    return SourceStatistics(mean.float(), var.float(), counts.long())


def write(path: str | Path, statistics: SourceStatistics) -> None:
    """Write statistics to a safetensors file, atomically."""
    sha256 = digest(statistics.state, _KIND)
    metadata = {"kind": _KIND, "version": _VERSION, "sha256": sha256}
    write_tensors(path, statistics.state, metadata)


def read(path: str | Path) -> SourceStatistics:
    """Return the statistics in a file made by :func:`write`, or say why it is none."""
    tensors, metadata = read_tensors(path)
    if metadata.get("kind") != _KIND or set(tensors) != {"mean", "var", "counts"}:
        raise ValueError(f"{path} holds no source statistics; make them with multipool statistics")
    advice = "make it again with multipool statistics"
    check_version(path, metadata.get("version"), _VERSION, advice)
    check_unaltered(path, tensors, _KIND, metadata)
    found = SourceStatistics(tensors["mean"], tensors["var"], tensors["counts"])
    if found.mean.ndim != 2 or found.mean.shape != found.var.shape:
        raise ValueError(f"{path} holds statistics of shapes that do not belong together")
    if not (found.mean.isfinite().all() and found.var.isfinite().all()):
        raise ValueError(f"{path} holds statistics that are not finite")
    return found


def obtain(network: Network, source: object, num_classes: int, method: str) -> SourceStatistics:
    """Return statistics from whatever the user gave as ``source``, fitting this model."""
    if source is None:
        raise ValueError(
            f"method '{method}' needs source data: pass source= an iterable of (images, labels) "
            "batches, a pair of arrays, or a file made by multipool statistics"
        )
    if isinstance(source, (str, Path)):
        found = read(source)
    elif isinstance(source, SourceStatistics):
        found = source
    elif isinstance(source, Mapping):  # as an adapter's state keeps them
        if not {"mean", "var", "counts"} <= source.keys():
            raise ValueError(
                "source as a dict must hold the statistics mean, var and counts, got "
                f"{', '.join(map(str, source)) or 'an empty one'}; pass batches of (images, labels)"
            )
        found = SourceStatistics(source["mean"], source["var"], source["counts"])
    else:
        found = gather(network, source, num_classes)
    _check(found, num_classes, network.feature_width())
    return found.to(network.device())


def _check(found: SourceStatistics, num_classes: int, width: int) -> None:
    """Raise ``ValueError`` unless statistics are numbers, of so many classes and features."""
    for name, values in found.state.items():
        if not isinstance(values, Tensor) or not bool(values.isfinite().all()):
            raise ValueError(f"the source statistics' {name} must be a tensor of finite numbers")
    if len(found.mean) != num_classes:
        raise ValueError(
            f"the source statistics are of {len(found.mean)} classes, the model has {num_classes}"
        )
    shapes = [tuple(values.shape) for values in found.state.values()]
    wanted = [(num_classes, width), (num_classes, width), (num_classes,)]
    if shapes != wanted:
        raise ValueError(
            f"the source statistics' mean, var and counts have shapes {_listed(shapes)}, the model "
            f"needs {_listed(wanted)}; make them with this model"
        )


def _listed(shapes: list[tuple[int, ...]]) -> str:
    return ", ".join(map(str, shapes))
