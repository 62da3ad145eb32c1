"""From the names on the command line to the adapter of each stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from multipool import methods
from multipool.engine import Adapter
from multipool.ops import Network


@dataclass(frozen=True)
class Recipe:
    """How the adapter of every stream is made; one seed for all, so that all begin alike."""

    method: str = "multipool"
    memory: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    memory_options: Mapping[str, object] = field(default_factory=dict)
    decode: str | None = None
    seed: int = 0
    reset_every: int | None = None


class AdapterMaker:
    """Makes and loads adapters over one shared, frozen model; the guard is always on.

    ``source`` is what methods that need source data are given: best a file of statistics, which
    is read again for each new stream.
    """

    def __init__(self, network: Network, recipe: Recipe, source: object | None = None) -> None:
        self.network, self.recipe, self._source = network, recipe, source

    def make(self, network: Network) -> Adapter:
        """Return the adapter of a stream that begins."""
        recipe = self.recipe
        made = methods.adapt(
            network,
            recipe.method,
            recipe.memory,
            source=self._source,
            seed=recipe.seed,
            options=recipe.options,
            memory_options=recipe.memory_options,
            precision=network.precision,
            compile=network.compiled,
            reset_every=recipe.reset_every,
            decode=recipe.decode,
        )
        return _without_graphs(made)

    def load(self, path: Path, network: Network) -> Adapter:
        """Return the adapter of a file, or raise ``ValueError``."""
        return _without_graphs(methods.load(path, network, source=self._source))

    def identity(self) -> dict[str, Any]:
        """Return what the files of one folder have in common."""
        return {
            "model": self.make(self.network).fingerprint(),
            "precision": self.network.precision,
            **asdict(self.recipe),
        }


def _without_graphs(adapter: Adapter) -> Adapter:
    """Replay nothing: on a GPU a graph holds memory for every stream and every size of batch."""
    for replayed in adapter.method.passes:
        replayed.enabled = False
    return adapter
