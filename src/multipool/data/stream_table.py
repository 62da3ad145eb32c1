"""The images that a stream shows: which rows of which domain, before they are put in order."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import numpy as np

from multipool.data.few import shown_rows
from multipool.data.protocol import Dataset, Ints
from multipool.data.stream_config import StreamConfig
from multipool.data.streams import PROTOCOLS
from multipool.data.subset import balanced_rows, dealt_rows


@dataclass(frozen=True)
class StreamTable:
    """Every image of the stream once, domain by domain; severity 0 is the dataset's own."""

    labels: Ints  # (T,)
    domains: Ints  # (T,)
    rows: Ints  # (T,)
    severities: Ints  # (T,)

    @classmethod
    def of(cls, dataset: Dataset, config: StreamConfig) -> StreamTable:
        """Return the images of ``dataset`` that a stream with this ``config`` shows."""
        levels: tuple[int, ...] = (0,)
        if config.protocol == "gradual":
            levels = dataset.severities
            if not levels:
                raise ValueError(
                    f"a gradual stream needs severities, which {dataset.name} does not have; "
                    "choose another protocol"
                )
        share = _share(config.limit, len(dataset.domains), len(levels))
        dealt = _dealt(dataset, config.seed) if config.distinct else None
        columns: list[Ints] = []
        for d, domain in enumerate(dataset.domains):
            labels = dataset.labels(domain)
            kept = np.arange(len(labels)) if dealt is None else dealt[d]
            if config.protocol == "few":  # before the limit, which counts images that are shown
                kept = kept[shown_rows(labels[kept], config.shown, config.seed, d)]
            rows = kept[balanced_rows(labels[kept], share, config.seed)]
            for level in levels:
                ones = np.ones(len(rows), dtype=np.int64)
                columns.append(np.stack([labels[rows], d * ones, rows, level * ones]))
        return cls(*np.ascontiguousarray(np.concatenate(columns, axis=1)))

    def order(self, config: StreamConfig) -> Ints:
        """Return positions in the table, as the protocol with those options that it takes says."""
        protocol = PROTOCOLS[config.protocol]
        options = {
            "gamma": config.gamma,
            "slots": config.slots,
            "rounds": config.rounds,
            "drop_absent": config.drop_absent,
            "cameras": config.cameras,
            "shown": config.shown,
            "severities": self.severities,
        }
        taken = inspect.signature(protocol).parameters
        chosen = {name: value for name, value in options.items() if name in taken}
        return protocol(self.labels, self.domains, seed=config.seed, **chosen)


def _dealt(dataset: Dataset, seed: int) -> list[Ints]:
    """Return rows of its own for every domain of copies of the same images."""
    first, *others = (dataset.labels(domain) for domain in dataset.domains)
    for domain, labels in zip(dataset.domains[1:], others, strict=True):
        if not np.array_equal(first, labels):
            raise ValueError(
                f"distinct deals out the images that all domains share, but {domain} of "
                f"{dataset.name} has other images than {dataset.domains[0]}; leave it out"
            )
    if len(first) < len(dataset.domains):
        raise ValueError(
            f"distinct needs an image for each of {len(dataset.domains)} domains, got {len(first)}"
        )
    return dealt_rows(first, len(dataset.domains), seed)


def _share(limit: int | None, domains: int, levels: int) -> int | None:
    """Return how many rows each domain gives under ``limit``."""
    if limit is None:
        return None
    share = limit // domains // levels
    if share < 1:
        raise ValueError(
            f"limit must be at least {domains * levels}, one image of each of {domains} domains"
            f"{f' at {levels} severities' if levels > 1 else ''}, got {limit}"
        )
    return share
