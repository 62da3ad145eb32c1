"""At what scale, on which data and with which seeds the paper's experiments are made again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from multipool.bench.run.hyperparameters import SHIPPED_FOR
from multipool.core import lookup
from multipool.data import DATASETS
from multipool.methods import METHODS
from multipool.ops.flat import DTYPES

# Domains of a stream, by dataset: a limit for each of them is a limit for all, times this.
DOMAINS = {"domainnet126": 3}
_CORRUPTIONS = 15


@dataclass(frozen=True)
class Scale:
    """How much of an experiment is made; None is what the paper did."""

    limit: int | None  # images of each domain
    rounds: int  # of recurring streams
    seeds: tuple[int, ...]
    stand_in: str | None = None  # a dataset that takes the place of all others


SCALES: dict[str, Scale] = {
    "full": Scale(None, 20, (0, 1, 2)),
    "subset": Scale(1000, 20, (0, 1, 2)),
    "small": Scale(30, 2, (0, 1), "shapes-c"),
}


@dataclass(frozen=True)
class Setting:
    """What is common to all runs of a reproduction. None: what ``scale`` says.

    ``limit`` is images of each domain. ``weights`` gives a file or name for a dataset; ``methods``
    keeps the rows of these methods only.
    """

    scale: str = "full"
    seeds: tuple[int, ...] | None = None
    limit: int | None = None
    rounds: int | None = None
    device: str = "auto"
    precision: str = "float32"
    data_dir: str | None = None
    weights: Mapping[str, str] = field(default_factory=dict)
    methods: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lookup(SCALES, self.scale, "scale")
        lookup(DTYPES, self.precision, "precision")
        for name in ("limit", "rounds"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        for dataset in self.weights:
            lookup(DATASETS, dataset, "dataset")
        for method in self.methods:
            lookup(METHODS, method, "method")
        if self.seeds is not None and (not self.seeds or len(set(self.seeds)) != len(self.seeds)):
            raise ValueError(f"seeds must be different numbers, at least one, got {self.seeds}")

    @property
    def runs_seeds(self) -> tuple[int, ...]:
        """Return the seeds of every row."""
        return self.seeds if self.seeds is not None else SCALES[self.scale].seeds

    @property
    def images(self) -> int | None:
        """Return the images of each domain; None: all."""
        return self.limit if self.limit is not None else SCALES[self.scale].limit

    @property
    def repeats(self) -> int:
        """Return the rounds of recurring streams."""
        return self.rounds if self.rounds is not None else SCALES[self.scale].rounds

    @property
    def stand_in(self) -> str | None:
        """Return the dataset that takes the place of the paper's; None: the paper's own."""
        return SCALES[self.scale].stand_in

    def dataset(self, name: str) -> str:
        """Return the dataset that is used where the paper used ``name``."""
        return self.stand_in or name

    def total(self, dataset: str) -> int | None:
        """Return the images of a stream, as ``Experiment.limit`` counts them.

        >>> Setting("subset").total("cifar100-c"), Setting().total("cifar100-c")
        (15000, None)
        """
        if self.images is None:
            return None
        return self.images * DOMAINS.get(dataset, _CORRUPTIONS)

    def weights_of(self, dataset: str) -> str | None:
        """Return the weights for a dataset, in the package or given; None: there are none."""
        return self.weights.get(dataset) or SHIPPED_FOR.get(dataset)

    def face(self, recurring: bool = False) -> str:
        """Return what every table and figure says about its scale.

        >>> Setting("subset", seeds=(0,)).face()
        'SUBSET: 1,000 images of each domain, not all; 1 seed'
        """
        seeds = f"{len(self.runs_seeds)} seed{'s' if len(self.runs_seeds) > 1 else ''}"
        parts = []
        if self.stand_in is not None:
            parts.append(f"{self.stand_in} in place of the paper's data and models")
        if self.images is not None:
            many = f"{self.images:,} image{'s' if self.images > 1 else ''}"
            parts.append(f"{many} of each domain, not all")
        if recurring and self.repeats != 20:
            parts.append(f"recurring streams of {self.repeats} rounds, not 20")
        seeds = seeds if self.precision == "float32" else f"{seeds}; in {self.precision}"
        if not parts:
            return f"FULL: the paper's streams; {seeds}"
        name = "SMALL" if self.stand_in else "SUBSET"
        return f"{name}: {', '.join(parts)}; {seeds}"


def assign_weights(given: Iterable[str], datasets: Iterable[str]) -> dict[str, str]:
    """Return weights by dataset from words ``FILE`` or ``DATASET=FILE``.

    A file alone belongs to the only dataset that is used.

    >>> assign_weights(["a.pt"], ["cifar100-c"]), assign_weights(["cifar10-c=b.pt"], [])
    ({'cifar100-c': 'a.pt'}, {'cifar10-c': 'b.pt'})
    """
    used = sorted(set(datasets))
    found: dict[str, str] = {}
    for word in given:
        dataset, sign, file = word.partition("=")
        if sign and not Path(word).exists():
            lookup(DATASETS, dataset, "dataset")
            found[dataset] = file
        elif len(used) == 1:
            found[used[0]] = word
        else:
            raise ValueError(
                f"several datasets are used ({', '.join(used)}), got weights for one: '{word}'; "
                "write DATASET=FILE for each"
            )
    return found
