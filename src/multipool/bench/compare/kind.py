"""A kind of stream shown to one model: a column of the comparison, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from multipool.bench.compare.entrant import Entrant
from multipool.bench.run.experiment import Experiment
from multipool.data import COMMON


@dataclass(frozen=True)
class Kind:
    """What is streamed, how, and which model predicts it.

    ``weights`` is a file in the folder of weights; None: those that come with the package.
    ``domains`` counts the corruptions in the paper's order, taken as they come.
    """

    name: str
    dataset: str
    model: str  # as tables call it
    weights: str | None = None
    protocol: str = "ptta"
    gamma: float = 0.1
    length: int = 1000  # images of each domain
    batch: int = 64
    rounds: int = 1
    domains: int = len(COMMON)
    shown: int = 1  # classes of each domain, of a stream of few
    distinct: bool = False  # no image twice; else every domain shows the same ones

    @property
    def column(self) -> str:
        """Return the name of the column, which no other has.

        >>> Kind("mixed", "cifar10-c", "wrn16-2", protocol="mixed").column
        'cifar10-c/wrn16-2/mixed'
        """
        return f"{self.dataset}/{self.model}/{self.name}"

    @property
    def images(self) -> int:
        """Return how many images the stream shows."""
        return self.length * self.domains * self.rounds

    def describe(self) -> str:
        """Return the stream in words.

        >>> Kind("batch-4", "shapes-c", "wrn10-1", length=250, batch=4).describe()
        'ptta, gamma 0.1, 15 domains of 250 images, batches of 4'
        """
        parts = [self.protocol]
        if self.protocol in ("ptta", "recurring", "interleaved"):
            parts.append(f"gamma {self.gamma:g}")
        if self.protocol == "few":
            parts.append(f"{self.shown} class{'es' if self.shown > 1 else ''} a domain")
        if self.rounds > 1:
            parts.append(f"{self.rounds} rounds")
        many = f"batches of {self.batch}" if self.batch > 1 else "one image at a time"
        whose = "images of their own" if self.distinct else "images"
        return ", ".join([*parts, f"{self.domains} domains of {self.length:,} {whose}", many])

    def experiment(
        self,
        entrant: Entrant,
        seed: int,
        *,
        data_dir: str | None = None,
        weights_dir: str | None = None,
        device: str = "auto",
    ) -> Experiment:
        """Return the run of ``entrant`` on this stream."""
        return Experiment(
            dataset=self.dataset,
            method=entrant.method,
            memory=entrant.memory,
            protocol=self.protocol,
            weights=self._file(weights_dir),
            data_dir=data_dir,
            domains=None if self.domains == len(COMMON) else COMMON[: self.domains],
            batch_size=self.batch,
            gamma=self.gamma,
            rounds=self.rounds,
            shown=self.shown,
            distinct=self.distinct,
            seed=seed,
            device=device,
            limit=self.length * self.domains,
            options=dict(entrant.options),
        )

    def _file(self, weights_dir: str | None) -> str | None:
        if self.weights is None:
            return None
        path = Path(weights_dir or ".") / self.weights
        if not path.is_file():
            raise FileNotFoundError(
                f"no weights at {path} for {self.column}; say where they are with --weights-dir, "
                "or choose other columns with --kinds"
            )
        return str(path)
