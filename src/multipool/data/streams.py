"""The order in which a stream shows its images: pure functions from labels and domains to indices.

Every order is a numpy int64 array of positions in ``labels``, all of them but in ``few``. Domains
are visited by ascending id, but for ``mixed`` and ``interleaved``.
Each part of an order has a generator of its own, seeded by (seed, repetition, domain), so an order
depends on nothing that was drawn before, and the first round of ``recurring`` is ``ptta``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from multipool.core import numpy_generator
from multipool.data.few import few
from multipool.data.protocol import Ints
from multipool.data.stream_checks import checked, checked_shares, integers, whole


def ptta(
    labels: npt.ArrayLike,
    domains: npt.ArrayLike,
    gamma: float = 0.1,
    slots: int | None = None,
    seed: int = 0,
    *,
    drop_absent: bool = False,
) -> Ints:
    """Order a practical stream: domain after domain, labels temporally correlated (RoTTA Sec. 3.1).

    Per domain, each class is cut in dataset order into ``slots`` consecutive chunks of
    Dirichlet(``gamma``) shares, and every slot shows its chunks in random order.

    Args:
        labels: ``(N,)`` class ids from 0.
        domains: ``(N,)`` domain ids from 0.
        gamma: concentration; small values give long runs of one class.
        slots: parts of a domain; None is the number of distinct labels, at most 100.
        seed: same seed, same order.
        drop_absent: iterate the labels 0..L-1, L the number of *distinct* labels, as the published
            loaders do, so labels of L and above are never shown; else the labels present.

    >>> order = ptta([0, 1, 0, 1, 2, 2], [0, 0, 0, 1, 1, 1], seed=1)
    >>> sorted(order[:3].tolist()), sorted(order[3:].tolist())
    ([0, 1, 2], [3, 4, 5])
    """
    return recurring(labels, domains, gamma, slots, seed, rounds=1, drop_absent=drop_absent)


def recurring(
    labels: npt.ArrayLike,
    domains: npt.ArrayLike,
    gamma: float = 0.1,
    slots: int | None = None,
    seed: int = 0,
    rounds: int = 20,
    *,
    drop_absent: bool = False,
) -> Ints:
    """Order the practical stream ``rounds`` times over, each round with newly drawn shares.

    Args:
        labels: ``(N,)`` class ids from 0.
        domains: ``(N,)`` domain ids; lower ones come first.
        gamma: concentration; smaller means longer runs of one class.
        slots: pieces that each class is cut into; None: as in :func:`ptta`.
        seed: same seed, same order.
        rounds: how often the sequence of domains is repeated.
        drop_absent: as in :func:`ptta`.

    Returns:
        ``(rounds * N,)`` positions; every index comes exactly once a round.

    >>> len(recurring([0, 1, 0, 1], [0, 0, 1, 1], rounds=3))
    12
    """
    labels, domains = checked(labels, domains, seed)
    whole("rounds", rounds, 1)
    classes, slots = checked_shares(labels, gamma, slots)
    if drop_absent:
        classes = np.arange(len(classes))
    kept = np.isin(labels, classes)
    parts = [np.flatnonzero((domains == d) & kept) for d in np.unique(domains)]
    ids = np.unique(domains).tolist()
    order = []
    for repetition in range(rounds):
        for d, part in zip(ids, parts, strict=True):
            rng = numpy_generator(seed, "ptta", repetition, d)
            order.append(part[_correlated(labels[part], classes, gamma, slots, rng)])
    return np.concatenate(order)


def ctta(labels: npt.ArrayLike, domains: npt.ArrayLike, seed: int = 0) -> Ints:
    """Order a continual stream: domain after domain, each in random order.

    Args:
        labels: ``(N,)`` class ids.
        domains: ``(N,)`` domain ids; lower ones come first.
        seed: same seed, same order.

    Returns:
        ``(N,)`` positions into ``labels``, each once.

    >>> ctta([0, 1, 2], [1, 0, 1])[0]
    np.int64(1)
    """
    labels, domains = checked(labels, domains, seed)
    order = []
    for d in np.unique(domains).tolist():
        part = np.flatnonzero(domains == d)
        order.append(part[numpy_generator(seed, "ctta", 0, d).permutation(len(part))])
    return np.concatenate(order)


def gradual(
    labels: npt.ArrayLike, domains: npt.ArrayLike, severities: npt.ArrayLike, seed: int = 0
) -> Ints:
    """Order a gradual stream: inside each domain the severity climbs to its top and falls again.

    With severities 1 to 5 a domain shows 1-2-3-4-5-4-3-2-1, each step in random order. A severity
    below the top is passed twice, so a random half of its images comes on the way up and the other
    half on the way down: every index exactly once. (The common benchmarks show all of them twice.)

    Args:
        labels: ``(N,)`` class ids.
        domains: ``(N,)`` domain ids.
        severities: ``(N,)`` severity of each index, whole numbers from 1.
        seed: same seed, same order.

    >>> gradual([0] * 5, [0] * 5, [2, 1, 1, 3, 2])[2]
    np.int64(3)
    """
    labels, domains = checked(labels, domains, seed)
    levels = integers("severities", severities, 1)
    if len(levels) != len(labels):
        raise ValueError(
            f"severities must have one entry per label, got {len(levels)} for {len(labels)} labels"
        )
    order = []
    for d in np.unique(domains).tolist():
        inside = domains == d
        up, down = [], []
        *lower, top = np.unique(levels[inside]).tolist()
        for level in [*lower, top]:
            part = np.flatnonzero(inside & (levels == level))
            part = part[numpy_generator(seed, "gradual", level, d).permutation(len(part))]
            half = len(part) if level == top else (len(part) + 1) // 2
            up.append(part[:half])
            down.append(part[half:])
        order += up + down[::-1]
    return np.concatenate(order)


def mixed(labels: npt.ArrayLike, domains: npt.ArrayLike, seed: int = 0) -> Ints:
    """Order a mixed stream: all domains shuffled together.

    Args:
        labels: ``(N,)`` class ids.
        domains: ``(N,)`` domain ids.
        seed: same seed, same order.

    Returns:
        ``(N,)`` positions into ``labels``, each once.

    >>> sorted(mixed([0, 1, 2], [1, 0, 1]).tolist())
    [0, 1, 2]
    """
    labels, domains = checked(labels, domains, seed)
    return numpy_generator(seed, "mixed").permutation(len(labels))


def interleaved(
    labels: npt.ArrayLike,
    domains: npt.ArrayLike,
    gamma: float = 0.1,
    slots: int | None = None,
    seed: int = 0,
    cameras: int = 4,
) -> Ints:
    """Order several practical streams, as of several cameras, woven into one.

    Every index is dealt to a camera at random. A camera shows its part as :func:`ptta` does, but of
    D domains camera s begins with number ``s * D // cameras`` and goes round, so that at most
    moments the cameras are in different domains. Neighbours in the order are then seldom of one
    class or of one domain, though each camera's own samples are.

    Args:
        labels: ``(N,)`` class ids from 0.
        domains: ``(N,)`` domain ids from 0.
        gamma: concentration; small values give a camera long runs of one class.
        slots: parts of a camera's domain; None is the number of distinct labels, at most 100.
        seed: same seed, same order.
        cameras: how many streams are woven. Whose sample is next is drawn in proportion to what
            each has to show, so that all end together.

    >>> order = interleaved([0, 1] * 4, [0] * 4 + [1] * 4, cameras=2)
    >>> sorted(order.tolist())
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    labels, domains = checked(labels, domains, seed)
    classes, slots = checked_shares(labels, gamma, slots)
    whole("cameras", cameras, 1)
    rng = numpy_generator(seed, "interleaved")
    camera = rng.integers(cameras, size=len(labels))  # (N,)
    ids = np.unique(domains).tolist()
    queues = []
    for s in range(cameras):
        first = s * len(ids) // cameras
        for d in ids[first:] + ids[:first]:
            part = np.flatnonzero((camera == s) & (domains == d))
            own = numpy_generator(seed, "interleaved", s, d)
            queues.append(part[_correlated(labels[part], classes, gamma, slots, own)])
    # A sample's place is that of its camera's turn: the n-th of a camera takes the n-th turn of it.
    shown = np.repeat(np.arange(cameras), np.bincount(camera, minlength=cameras))
    turn = np.argsort(rng.permutation(shown), kind="stable")
    order = np.empty_like(labels)
    order[turn] = np.concatenate(queues)
    return order


PROTOCOLS: dict[str, Callable[..., Ints]] = {
    "ptta": ptta,
    "ctta": ctta,
    "recurring": recurring,
    "gradual": gradual,
    "mixed": mixed,
    "interleaved": interleaved,
    "few": few,
}


def _correlated(
    labels: Ints, classes: Ints, gamma: float, slots: int, rng: np.random.Generator
) -> Ints:
    """Return the order of one domain's ``(n,)`` labels: slot by slot, chunks in random turn."""
    shares = rng.dirichlet(np.full(slots, gamma), size=len(classes))  # (L, S)
    turns = rng.permuted(np.tile(np.arange(len(classes)), (slots, 1)), axis=1)  # (S, L)
    kind = np.searchsorted(classes, labels)  # (n,)
    by_class = np.argsort(kind, kind="stable")
    kind = kind[by_class]
    counts = np.bincount(kind, minlength=len(classes))
    rank = np.arange(len(kind)) - (np.cumsum(counts) - counts)[kind]  # position inside the class
    cuts = np.floor(np.cumsum(shares, axis=1)[:, :-1] * counts[:, None])  # (L, S-1)
    # One search for all classes: class c lives in [c * width, (c + 1) * width).
    width = len(kind) + 1
    edges = (
        np.minimum(cuts, counts[:, None]).astype(np.int64)
        + np.arange(len(classes))[:, None] * width
    )
    slot = np.searchsorted(edges.ravel(), rank + kind * width, side="right") - kind * (slots - 1)
    return by_class[np.lexsort((rank, turns[slot, kind], slot))]
