"""A dataset shown in the order of a protocol, batch by batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from multipool.data.protocol import Dataset, Ints
from multipool.data.stream_config import StreamConfig
from multipool.data.stream_table import StreamTable

# A device copy of the whole stream is made when it fits in this many bytes.
RESIDENT_LIMIT = 8 * 2**30


@dataclass(frozen=True)
class Batch:
    """Consecutive samples of a stream; they may straddle a boundary between domains."""

    images: Tensor  # (B, C, H, W) uint8, on the stream's device
    labels: Tensor  # (B,) int64, on the host
    domains: Tensor  # (B,) int64, position in ``Stream.domains``, on the host
    rounds: Tensor  # (B,) int64, repetition of a recurring stream, else 0, on the host

    def __len__(self) -> int:
        return len(self.labels)


class Stream:
    """A dataset in the order of a protocol; ``len`` and ``[i]`` count batches.

    ``stream[i]`` reads batch i alone, so an interrupted run resumes at i without replaying.
    Iterating, or ``batches(start)``, reads ahead with threads where images must be decoded. On a
    device other than the CPU all images are kept there, if they fit; on the CPU they are gathered
    from files mapped into memory, which parallel runs share. ``resident`` says otherwise.

    A last batch of one sample is left out, as the published loops do, unless ``batch_size`` is 1.

    Args:
        dataset: what :func:`multipool.data.load` returns.
        config: the order and the part of it that is shown.
        device: where the images of a batch are.
        workers: threads that decode ahead, where images must be decoded.
        resident: whether all images are kept on the device; None: if they fit.

    Example:
        >>> from multipool.data import load
        >>> stream = Stream(load("shapes-c", domains=("fog",)), StreamConfig(limit=100))
        >>> [tuple(batch.images.shape) for batch in stream]
        [(64, 3, 32, 32), (36, 3, 32, 32)]
    """

    def __init__(
        self,
        dataset: Dataset,
        config: StreamConfig = StreamConfig(),
        *,
        device: torch.device | str = "cpu",
        workers: int = 4,
        resident: bool | None = None,
    ) -> None:
        self.dataset = dataset
        self.config = config
        self.device = torch.device(device)
        self.domains = dataset.domains
        self._workers = workers
        self._table = StreamTable.of(dataset, config)
        self._order = self._table.order(config)
        once = len(self._order) // (config.rounds if config.protocol == "recurring" else 1)
        self._once = once
        self._resident = self._upload(resident)

    @property
    def samples(self) -> int:
        """Return how many samples the batches hold together."""
        count = len(self._order)
        single = self.config.batch_size > 1 and count % self.config.batch_size == 1
        return count - 1 if single and count > 1 else count

    @property
    def labels(self) -> Ints:
        """Return the ``(samples,)`` labels in stream order."""
        return self._table.labels[self._order[: self.samples]]

    @property
    def domain_ids(self) -> Ints:
        """Return the ``(samples,)`` positions in ``domains`` in stream order."""
        return self._table.domains[self._order[: self.samples]]

    @property
    def rows(self) -> Ints:
        """Return the ``(samples,)`` rows inside their domain in stream order."""
        return self._table.rows[self._order[: self.samples]]

    def prepare(self, tell: Callable[[str], None] = lambda text: None) -> None:
        """Make now what reading would make on the way: corrupted copies that are not cached yet.

        One image of each domain and severity is read; ``tell`` hears which. Whoever measures time
        calls this before the first batch.
        """
        table = self._table
        parts = np.stack([table.domains, table.severities], axis=1)
        kinds, first = np.unique(parts, axis=0, return_index=True)
        for (domain, severity), position in zip(kinds.tolist(), first, strict=True):
            tell(f"{self.domains[domain]}{f' at severity {severity}' if severity else ''}")
            self._read(np.asarray([position]))

    def __len__(self) -> int:
        return -(-self.samples // self.config.batch_size)

    def __getitem__(self, index: int) -> Batch:
        """Return batch ``index``; negative numbers count from the end."""
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"the stream has {len(self)} batches, got index {index}")
        first = index * self.config.batch_size
        last = min(first + self.config.batch_size, self.samples)
        picked = self._order[first:last]
        return Batch(
            images=self._images(picked),
            labels=torch.from_numpy(self._table.labels[picked]),
            domains=torch.from_numpy(self._table.domains[picked]),
            rounds=torch.from_numpy(np.arange(first, last) // self._once),
        )

    def __iter__(self) -> Iterator[Batch]:
        return self.batches()

    def batches(self, start: int = 0) -> Iterator[Batch]:
        """Yield the batches from ``start`` on; at most twice as many as workers are read ahead."""
        if not self.dataset.lazy or self._resident is not None or self._workers < 1:
            for index in range(start, len(self)):
                yield self[index]
            return
        ahead: deque[Future[Batch]] = deque()
        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="decode")
        try:
            for index in range(start, len(self)):
                ahead.append(pool.submit(self.__getitem__, index))
                if len(ahead) > 2 * self._workers:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _images(self, picked: Ints) -> Tensor:
        if self._resident is not None:
            return self._resident[torch.from_numpy(picked).to(self.device)]
        images = self._read(picked)
        if self.device.type == "cuda":
            return images.pin_memory().to(self.device, non_blocking=True)
        return images.to(self.device)

    def _read(self, picked: Ints) -> Tensor:
        """Read table positions ``(B,)`` group by group: uint8 ``(B, C, H, W)`` on the host."""
        table = self._table
        groups = np.stack([table.domains[picked], table.severities[picked]], axis=1)
        kinds, member = np.unique(groups, axis=0, return_inverse=True)
        images: Tensor | None = None
        for kind, (domain, severity) in enumerate(kinds.tolist()):
            here = np.flatnonzero(member.reshape(-1) == kind)
            part = self.dataset.images(
                self.domains[domain], table.rows[picked[here]], severity or None
            )
            if len(here) == len(picked):
                return part
            if images is None:
                images = part.new_empty((len(picked), *part.shape[1:]))
            images[torch.from_numpy(here)] = part
        assert images is not None  # a batch is never empty
        return images

    def _upload(self, resident: bool | None) -> Tensor | None:
        """Copy every image of the table to the device, if asked to or if that is sensible."""
        size = len(self._table.labels) * 3 * self.dataset.size**2
        if resident is None:
            resident = (
                self.device.type != "cpu" and not self.dataset.lazy and size <= RESIDENT_LIMIT
            )
        if not resident:
            return None
        chunks = np.array_split(np.arange(len(self._table.labels)), max(1, size // 2**28))
        return torch.cat([self._read(chunk).to(self.device) for chunk in chunks])
