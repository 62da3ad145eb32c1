"""The options of multipool, which no dataset, model or stream needs changed."""

from __future__ import annotations

from dataclasses import dataclass

_LEAST = {
    "most": 1,
    "new": 0,
    "runs": 0,
    "same": 0,
    "mixed": 0,
    "width": 1,
    "young": 0,
    "update_every": 1,
    "samples": 2,
    "lr": 0,
    "learn_until": 0,
    "lr_without": 0,
}


@dataclass(frozen=True)
class MultiPoolConfig:
    """One setting for every dataset, model and stream, chosen as docs/notebook/pools.md says."""

    most: int = 16  # pools, then the one longest unused makes room
    new: float = 0.05  # a pool begins this far from all others, squared, per dimension
    runs: float = 0.2  # added to new, a quarter to same: classes in runs look like domains
    same: float = 0.03  # two pools nearer than this, by the same measure, become one
    mixed: float = 0.33  # nats a sample by which two domains must fit a pool better than one
    depth: float = 0.4  # of the normalisation layer that describes images, 0 the first, 1 the last
    width: int = 96  # numbers that describe an image
    prior: float = 16.0  # samples that the source's statistics are worth, at a distance of 1
    likeness: float = 0.6  # correlation of samples of one class, where they come in runs
    rate: float = 0.05  # least share of the bank in each statistics update
    young: int = 512  # samples below which a pool is updated whenever it is used
    update_every: int = 256  # samples between two updates of an older pool
    samples: int = 64  # asked of the bank at each update
    again: float = 0.25  # share of images looked at again in a mirror; young pools: twice; 0: none
    lr: float = 0.004  # of learning by gradients where the stream is in random order; 0: none
    learn_until: int = 1024  # samples of a pool that are learned from, its first
    lr_without: float = 0.0003  # in place of lr for a model with other norms than BatchNorm
    centre: float = 0.5  # share of the classes that such a model's stream shows; 1: not centred

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if not getattr(self, name) >= least:
                got = getattr(self, name)
                raise ValueError(f"multipool's {name} must be at least {least}, got {got}")
        for name in ("depth", "likeness", "rate", "again", "centre"):
            if not 0 <= getattr(self, name) <= 1:
                got = getattr(self, name)
                raise ValueError(f"multipool's {name} must be between 0 and 1, got {got}")
        if not self.prior > 0:
            raise ValueError(f"multipool's prior must be above 0, got {self.prior}")
