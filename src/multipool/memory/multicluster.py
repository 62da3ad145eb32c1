"""The multi-cluster memory (Sec. 3.2 to 3.4 of the paper)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from multipool.core import Retrieved, numpy_generator, numpy_state, restore_numpy
from multipool.memory.arrivals import arrive, check_batch, check_width
from multipool.memory.checks import count
from multipool.memory.compiled import organise
from multipool.memory.descriptors import DESCRIPTORS
from multipool.memory.options import MultiClusterOptions
from multipool.memory.retrievals import DRAWS, RETRIEVALS, draw
from multipool.memory.state import dump, read
from multipool.memory.store import ImageStore
from multipool.memory.view import Clusters


class MultiClusterMemory:
    """Up to K_max clusters of up to N samples that look alike.

    Decisions are made on the host from a few numbers a sample, one sample after another; images
    stay on their device. A batch gives the same result as its samples one by one, bit for bit.

    Args:
        num_classes: L, the number of classes.
        capacity: N, samples a cluster holds.
        max_clusters: K_max; ``None`` is min(5, max(1, L // 20)).
        threshold: tau, the distance beyond which a sample opens a cluster; ``None`` is the
            paper's best for the distance (an error for ``spatial_mean`` and ``histogram``).
        descriptor: a key of ``DESCRIPTORS``; ``feature`` reads ``add(features=...)``.
        distance: a key of ``DISTANCES``, used for assignment, merging and H(x).
        consolidation: a key of ``CONSOLIDATIONS``: which clusters are merged at K_max.
        retrieval: a key of ``RETRIEVALS``: how many samples each cluster gives.
        spawn: a key of ``SPAWNS``: whether a far sample opens a cluster at K_max.
        replacement: a key of ``REPLACEMENTS``: whether a full cluster may refuse a sample.
        fill: whether ``retrieve(n)`` tops up to min(n, len) from the rest.
        storage: ``uint8`` keeps round(255 x); ``float`` keeps the first batch's float type.
        age_weight: lambda_t of H(x).
        uncertainty_weight: lambda_u of H(x).
        distance_weight: lambda_d of H(x).
        age_unit: what the index counts, and so ages, ``created`` and ``last_used``: every
            ``sample`` given to ``add``, or every ``step``, a call of it.
        seed: seed of the memory's own generator.
        class_quota: at most so many members of one known label in a cluster; the one with the
            highest H(x) makes room. Not the paper's.
        draw: a key of ``DRAWS``: which members of a cluster are handed out, ``random`` ones as in
            the paper or the ``newest``.
        run_share: while one known label has at least this share of the last N samples, a sample of
            another that is among the less certain half of them pushes nobody out. Not the paper's.

    >>> memory = MultiClusterMemory(num_classes=100)
    >>> memory.add(torch.stack((torch.zeros(3, 8, 8), torch.ones(3, 8, 8))))
    >>> len(memory), len(memory.clusters), memory.retrieve(64).ages.tolist()
    (2, 2, [2, 1])
    """

    def __init__(
        self,
        num_classes: int,
        capacity: int = 64,
        max_clusters: int | None = None,
        threshold: float | None = None,
        descriptor: str = "pixel",
        distance: str = "l2",
        consolidation: str = "acc",
        retrieval: str = "uniform",
        spawn: str = "always",
        replacement: str = "always",
        fill: bool = False,
        storage: str = "uint8",
        age_weight: float = 1.0,
        uncertainty_weight: float = 1.0,
        distance_weight: float = 1.0,
        age_unit: str = "sample",
        seed: int = 0,
        class_quota: int | None = None,
        draw: str = "random",
        run_share: float | None = None,
    ) -> None:
        given = locals()
        given.pop("self")
        self.options = options = MultiClusterOptions(**given)
        self._organiser = organise(options)
        self._store = ImageStore(options.slots, storage)
        self._generator = numpy_generator(seed)

    @property
    def capacity(self) -> int:
        """N, the samples of one cluster: losses divide ages by it."""
        return self.options.capacity

    @property
    def num_classes(self) -> int:
        """L, the number of classes."""
        return self.options.num_classes

    @property
    def events(self) -> dict[str, int]:
        """What happened since construction, by name."""
        return dict(self._organiser.events)

    @property
    def clusters(self) -> Clusters:
        """Sizes, centroids, created and last_used of the clusters, in order of creation."""
        return Clusters.of(self._organiser.view())

    @property
    def image_shape(self) -> tuple[int, ...] | None:
        """(C, H, W) of the images stored, and so of all that may come; None: not known yet."""
        return self._store.shape

    @property
    def image_bytes(self) -> int:
        """Bytes taken by images: those stored, and room for half as many more at the most."""
        return self._store.nbytes

    @property
    def nbytes(self) -> int:
        """Bytes taken by images and by all that is kept about them."""
        return self._store.nbytes + self._organiser.nbytes

    def __len__(self) -> int:
        return len(self._organiser)

    @torch.no_grad()
    def add(
        self,
        images: Tensor,
        uncertainty: Tensor | None = None,
        labels: Tensor | None = None,
        features: Tensor | None = None,
        *,
        checked: bool = False,
    ) -> None:
        """Take in a batch, one sample after another in stream order.

        Args:
            images: ``(B, C, H, W)``, float in [0, 1] or uint8, all batches of one shape.
            uncertainty: ``(B,)`` prediction entropy in nats; missing: 0.
            labels: ``(B,)`` predicted classes, int; missing or unknown: -1.
            features: ``(B, D)``, read by the descriptor ``feature`` only.
            checked: the caller knows that all pixels lie in [0, 1].

        Raises:
            ValueError: for anything else; the memory is then as before the call.
        """
        batch = check_batch(images, uncertainty, labels, features)
        self._store.check(images)
        if self.options.descriptor == "feature":
            check_width(batch.features, self._organiser.holdings.width)
        # One pass, where it is compiled, reads, describes and rounds the pixels.
        seen = self._store.look(images) if self.options.descriptor == "pixel" else None
        describe = DESCRIPTORS[self.options.descriptor]
        arrivals = arrive(batch, describe, self.num_classes, checked=checked, seen=seen)
        self._store.prepare(images)
        slots, rows = self._organiser.place(arrivals)
        self._store.write(slots, images, rows, seen)

    @torch.no_grad()
    def retrieve(self, n: int | None = 64) -> Retrieved:
        """Return samples for adaptation: shares of ``n`` by ``retrieval``, ``None``: everything.

        Everything comes cluster by cluster and by index, and draws no random number. Otherwise
        samples come in the order drawn: cluster by cluster, then those of ``fill``.
        """
        wanted, view = count(n), self._organiser.view()
        rows = np.arange(len(view.members), dtype=np.int64)
        if wanted is not None and len(view):
            counts = RETRIEVALS[self.options.retrieval](view, wanted)
            order = DRAWS[self.options.draw]
            rows = draw(view, counts, wanted, self.options.fill, order, self._generator)
        members = view.members.take(rows)
        with torch.inference_mode(False):
            return Retrieved(
                images=self._store.read(members.slots),
                ages=torch.from_numpy(members.ages),
                uncertainty=torch.from_numpy(members.uncertainty),
                labels=torch.from_numpy(members.labels),
                clusters=torch.from_numpy(members.owner),
            )

    def clear(self) -> None:
        """Return to the state after construction; only ``events`` go on."""
        self._organiser.clear()
        self._store.clear()
        self._generator = numpy_generator(self.options.seed)

    def state_dict(self) -> dict[str, Tensor]:
        """Return a copy of everything the next decisions depend on, flat, str to Tensor.

        Images are those of the members, as stored, on their device; all else is on the host.
        """
        slots, _ = self._organiser.holdings.listed()
        return {
            "images": self._store.raw(slots),
            "dtype": torch.zeros((), dtype=self._store.dtype),
            "random": numpy_state(self._generator),
            **dump(self._organiser),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a state saved by a memory with the same options, or raise ``ValueError``.

        Images stay on the device they come on until the next ``add``, which takes them to its own.
        """
        organiser = read(type(self._organiser)(self.options), state)
        generator = numpy_generator(self.options.seed)
        restore_numpy(generator, state["random"])
        store = ImageStore(self._store.slots, self._store.storage)
        store.restore(state["images"], state["dtype"], len(organiser))
        organiser.events = self._organiser.events
        self._organiser, self._store, self._generator = organiser, store, generator
