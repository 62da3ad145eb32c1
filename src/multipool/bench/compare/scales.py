"""Which kinds of stream, methods and seeds are compared, by the name of the scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from multipool.bench.compare.entrant import Entrant
from multipool.bench.compare.kind import Kind
from multipool.core import unknown
from multipool.methods import METHODS

_FEW = ("source", "bn", "tent", "lame", "rotta", "tribe", "multipool")
_LONGEST = 1000  # images of a domain: shortened to images of its own, it is still that stream
_OWN = 650  # images for each of 15 domains, of sets of 10,000
_VARIANTS = (
    *("rotta+mcm", "petta+mcm", "resitta+mcm"),  # the paper's hosts of its memory
    "tent:loss=come",  # a publication of its own: another loss in methods that are there
)


@dataclass(frozen=True)
class Scale:
    """How much is compared."""

    kinds: tuple[Kind, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]

    def entrants(self) -> list[Entrant]:
        """Return its methods."""
        return [Entrant.parse(word) for word in self.methods]


def around(base: Kind, short: int, long: int, rounds: int, each: int) -> tuple[Kind, ...]:
    """Return ``base`` and the streams that differ from it in one thing each.

    ``short`` and ``long`` are other lengths of a domain; small batches and many rounds take many
    steps, so they have short domains. ``each`` is how many images a class has in a domain; few
    classes have no more than that.
    """
    return (
        base,
        replace(base, name=f"domains-{short}", length=short),
        replace(base, name=f"domains-{long}", length=long),
        replace(base, name="gamma-0.01", gamma=0.01),
        replace(base, name="gamma-1", gamma=1.0),
        replace(base, name="ctta", protocol="ctta"),
        replace(base, name="recurring", protocol="recurring", length=short, rounds=rounds),
        replace(base, name="gradual", protocol="gradual"),
        replace(base, name="mixed", protocol="mixed"),
        replace(base, name="interleaved", protocol="interleaved"),
        replace(base, name="batch-1", batch=1, length=short),
        replace(base, name="batch-4", batch=4, length=short),
        replace(base, name="batch-16", batch=16),
        replace(base, name="batch-200", batch=200),
        *(_few(base, shown, each) for shown in (1, 2, 5)),
    )


def distinct(kinds: Sequence[Kind], most: int) -> tuple[Kind, ...]:
    """Return those of ``kinds`` that can show no image twice, so that they do not.

    Domains have ``most`` images of their own, or fewer. What shows its images again by itself, in
    rounds or at several severities, is left out, and so are few classes, of which there would be
    a handful of images.
    """
    return tuple(
        replace(kind, name=f"distinct-{kind.name}", length=min(kind.length, most), distinct=True)
        for kind in kinds
        if kind.protocol not in ("recurring", "gradual", "few") and kind.length <= _LONGEST
    )


def _few(base: Kind, shown: int, each: int) -> Kind:
    length = min(base.length, shown * each)
    return replace(base, name=f"few-{shown}", protocol="few", shown=shown, length=length)


_SHAPES = Kind("ptta", "shapes-c", "wrn10-1", length=300, domains=5)
_CIFAR10 = Kind("ptta", "cifar10-c", "wrn16-2", "cifar10_wrn16_2.safetensors")
_CIFAR100 = Kind("ptta", "cifar100-c", "wrn16-2", "cifar100_wrn16_2.safetensors")
_WIDE = Kind("ptta", "cifar10-c", "wrn28-10", "cifar10_wrn28_10.safetensors")
_RESNEXT = Kind("ptta", "cifar100-c", "resnext29", "cifar100_resnext29_4x32d.safetensors")
_TINY = Kind("ptta", "tiny-imagenet-c", "resnet18", "tinyimagenet200_resnet18.safetensors")

_SMALL = (
    _SHAPES,
    # A hundred classes need long domains to be correlated at all.
    replace(_SHAPES, name="gamma-0.01", gamma=0.01, length=1000, domains=2),
    replace(_SHAPES, name="ctta", protocol="ctta"),
    replace(_SHAPES, name="recurring", protocol="recurring", length=75, rounds=4),
    replace(_SHAPES, name="gradual", protocol="gradual"),
    replace(_SHAPES, name="mixed", protocol="mixed"),
    replace(_SHAPES, name="interleaved", protocol="interleaved"),
    replace(_SHAPES, name="batch-1", batch=1, length=20),
    # Twenty images a class: one class is one small batch of each corruption.
    replace(_few(_SHAPES, 1, 20), domains=15, batch=20),
    replace(_few(_SHAPES, 5, 20), domains=15),
)
_SUBSET = (
    *around(replace(_CIFAR10, length=250), 50, 1000, 5, 1000),
    *around(replace(_CIFAR100, length=250), 50, 1000, 5, 100),
)
_FULL = (
    *around(_CIFAR10, 250, 10_000, 20, 1000),
    *around(_CIFAR100, 250, 10_000, 20, 100),
    *(_WIDE, replace(_WIDE, name="ctta", protocol="ctta")),
    *(_RESNEXT, replace(_RESNEXT, name="domains-10000", length=10_000)),
    replace(_RESNEXT, name="ctta", protocol="ctta"),
    *(_TINY, replace(_TINY, name="ctta", protocol="ctta")),
)

_DISTINCT = distinct(_FULL, _OWN)

SCALES: dict[str, Scale] = {
    "small": Scale(_SMALL, tuple(name for name in _FEW if name in METHODS), (0,)),
    "subset": Scale(_SUBSET, (*METHODS, *_VARIANTS), (0,)),
    "full": Scale(_FULL, (*METHODS, *_VARIANTS), (0, 1, 2)),
    "distinct": Scale(_DISTINCT, (*METHODS, *_VARIANTS), (0, 1, 2)),
}


def choose(kinds: Sequence[Kind], words: Sequence[str]) -> list[Kind]:
    """Return the kinds that a word names, in their own order.

    A word is the name of a kind, or a pattern of whole columns, DATASET/MODEL/NAME.

    >>> [kind.column for kind in choose(_FULL, ["tiny*", "batch-4"])][1:]
    ['cifar100-c/wrn16-2/batch-4', 'tiny-imagenet-c/resnet18/ptta', 'tiny-imagenet-c/resnet18/ctta']
    """
    for word in words:
        if not any(_named(kind, word) for kind in kinds):
            raise unknown("kind of stream", word, {kind.name for kind in kinds})
    return [kind for kind in kinds if any(_named(kind, word) for word in words)]


def _named(kind: Kind, word: str) -> bool:
    return word == kind.name or fnmatchcase(kind.column, word)
