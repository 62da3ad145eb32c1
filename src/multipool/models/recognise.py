"""Which architecture a state dict is of, by its names and shapes alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from multipool.models.table import MODELS, skeleton

_COUNTER = "num_batches_tracked"  # of a batch-norm layer; files of old versions of torch have none
# Names under which checkpoints carry the normalisation: RobustBench's AugMix models, and its
# layer in front of a model, after or before the model's own prefix is taken away.
_MEANS = ("mu", "normalize.mean", "mean")
_STDS = ("sigma", "normalize.std", "std")


def recognise(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Return the only architecture of ``MODELS`` with these names and shapes, or say so."""
    found = [name for name in MODELS if _fits(name, tensors)]
    if len(found) == 1:
        return found[0]
    told = f"it fits {' and '.join(found)}" if found else "its names and shapes fit none of them"
    raise ValueError(
        f"{path} does not say its architecture, and {told}; pass architecture= (--model), one of: "
        f"{', '.join(MODELS)}"
    )


def take_normalisation(tensors: dict[str, Tensor]) -> tuple[Tensor | None, Tensor | None]:
    """Take mean and std out of a checkpoint that carries them; None where it does not."""
    mean, std = (
        next((tensors.pop(name) for name in names if name in tensors), None)
        for names in (_MEANS, _STDS)
    )
    return mean, std


def with_counters(wanted: Mapping[str, Tensor], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with a zero for every counter of batches that an old file lacks."""
    some = next(iter(tensors.values()))
    missing = [name for name in wanted if name.endswith(_COUNTER) and name not in tensors]
    return tensors | {name: some.new_zeros((), dtype=wanted[name].dtype) for name in missing}


def _fits(name: str, tensors: Mapping[str, Tensor]) -> bool:
    bias = tensors.get(f"{MODELS[name].head}.bias")
    if bias is None or bias.ndim != 1 or len(bias) < 2:
        return False
    wanted = _shapes(skeleton(name, len(bias)).state_dict())
    return wanted == _shapes(tensors)


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {k: tuple(v.shape) for k, v in tensors.items() if not k.endswith(_COUNTER)}
