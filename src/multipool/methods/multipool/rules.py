"""The rules by which pools are found, trusted and merged: small functions of arrays.

Distances are squared, per dimension, and in units of how single images of one domain vary, so that
one threshold serves every model: an image lies at about 1 from the mean of its own domain, the mean
of n such images at 1/n, a run of one class at 0.05 to 0.2, and two corruptions at 0.2 to 1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_CLEARLY = 1e-9  # of the costs of a path: far more than its sums are rounded by
_NEAR = 0.05  # squared distance from the source that any domain is thought to have


def distinct(pools: Ints) -> list[int]:
    """Return the pools among those of some images ``(B,)``, in order; an image alone has one.

    >>> distinct(np.array([3, 1, 3]))
    [1, 3]
    """
    return pools.tolist() if len(pools) == 1 else sorted(set(pools.tolist()))


def stretches(pools: Ints) -> list[tuple[int, int, int]]:
    """Return each pool of some images in the order of their ``pools`` ``(B,)``, its first, its end.

    >>> stretches(np.array([1, 1, 4]))
    [(1, 0, 2), (4, 2, 3)]
    """
    used = distinct(pools)
    starts = pools.searchsorted(used).tolist()
    return list(zip(used, starts, [*starts[1:], len(pools)], strict=True))


def whitener(covariance: Floats, samples: float) -> Floats:
    """Return W ``(D, D)`` so that ``x @ W`` has unit covariance.

    With few samples the covariance ``(D, D)`` is drawn towards its diagonal: D / (D + n) of the
    way, never less than a twentieth.
    """
    width = len(covariance)
    share = max(0.05, width / (width + samples))
    diagonal = np.diag(covariance)
    floor = 1e-6 * max(float(diagonal.mean()), 1e-12)
    mixed = (1 - share) * covariance + np.diag(share * diagonal + floor)
    return np.asarray(np.linalg.cholesky(np.linalg.inv(mixed)), dtype=np.float64)


def distances(points: Floats, centres: Floats) -> Floats:
    """Return squared distances per dimension, ``(B, D)`` and ``(P, D)`` to ``(B, P)``.

    >>> distances(np.zeros((1, 2)), np.array([[1.0, 1.0], [0.0, 2.0]]))
    array([[1., 2.]])
    """
    gaps = points[:, None, :] - centres[None, :, :]
    return np.asarray(np.einsum("bpd,bpd->bp", gaps, gaps) / points.shape[1])


def likely_path(costs: Floats, start: int, stay: float) -> Ints:
    """Return the cheapest sequence of pools for images in stream order (Viterbi).

    Args:
        costs: ``(B, P)``, minus the log-likelihood of each image in each pool.
        start: pool of the image before.
        stay: probability that an image comes from the same pool as the one before it, 0.5 to 1.

    >>> likely_path(np.array([[9.0, 0.0], [9.0, 0.0], [0.0, 1.0]]), start=0, stay=0.9).tolist()
    [1, 1, 1]
    """
    count, pools = costs.shape
    if pools == 1:
        return np.zeros(count, dtype=np.int64)
    keep, move = float(-np.log(stay)), float(-np.log((1 - stay) / (pools - 1)))
    first = costs[0] + move
    first[start] += keep - move
    if count == 1:
        return np.array([first.argmin()])
    gaps = costs - costs[:, start, None]
    gaps[:, start] = np.inf
    if gaps.min() > _CLEARLY * (1 + costs.max()):  # every image is nearest to where it was before
        return np.full(count, start)
    # Number by number: of a few pools that takes a third of what numpy does.
    total, came = first.tolist(), []
    for now in costs[1:].tolist():
        least = min(total)
        best, switched = total.index(least), least + move
        kept = [value + keep for value in total]
        came.append([i if value <= switched else best for i, value in enumerate(kept)])
        total = [(a if a < switched else switched) + b for a, b in zip(kept, now, strict=True)]
    path = [total.index(min(total))]
    for before in reversed(came):
        path.append(before[path[-1]])
    return np.array(path[::-1])


def staying(changes: int, images: int) -> float:
    """Return how likely the next image is from the same pool, from how often it was.

    >>> round(staying(0, 900), 3), staying(900, 900)
    (0.995, 0.5)
    """
    return min(max(1 - (changes + 1) / (images + 100), 0.5), 0.995)


def last_change(gaps: Floats, least: int) -> int:
    """Return how many of the last images, ``least`` or more, are most likely of another domain.

    ``gaps`` ``(B, D)`` are whitened, from the centre of each image's pool: k images whose mean lies
    elsewhere are likelier by |their sum|^2 / 2k, greatest where k ends at the change.

    >>> last_change(np.array([[0.1], [-0.1], [2.0], [1.8], [2.2]]), least=1)
    3
    """
    sums = gaps[::-1].cumsum(axis=0)  # of the last 1, 2, ... images
    gains = (sums**2).sum(axis=1) / np.arange(1, len(sums) + 1)
    return least + int(gains[least - 1 :].argmax())


def variation(points: Floats) -> float:
    """Return the mean variance of points ``(N, D)`` about their mean, unbiased.

    >>> variation(np.array([[0.0, 1.0], [2.0, 1.0]]))
    1.0
    """
    return float(points.var(axis=0, ddof=1).mean())


def closest_pair(centres: Floats, weights: Floats) -> tuple[int, int, float]:
    """Return the two nearest of at least two centres ``(P, D)``, and how far apart they are.

    What the means of so few samples would differ by anyway, 1/n each, is taken off.
    """
    gaps = distances(centres, centres) - 1 / weights[:, None] - 1 / weights[None, :]
    np.fill_diagonal(gaps, np.inf)
    first, second = divmod(int(gaps.argmin()), len(gaps))
    return first, second, float(gaps[first, second])


def effective_samples(counts: Floats, likeness: float) -> float:
    """Return how many independent samples a pool's class ``counts`` ``(L,)`` are worth.

    Samples of one class are alike: with n samples spread over k classes (k the effective number,
    n^2 / sum n_c^2) and a correlation of ``likeness`` inside a class, the mean of them all is as
    certain as that of n / (1 + (n/k - 1) likeness) independent ones (Kish's design effect).

    >>> effective_samples(np.array([10.0, 0.0]), 0.5) < effective_samples(np.array([5.0, 5.0]), 0.5)
    True
    """
    total = float(counts.sum())
    if total == 0:
        return 0.0
    classes = total**2 / float((counts**2).sum())
    return total / (1 + max(0.0, total / classes - 1) * likeness)


def trust(samples: float, shift: float, prior: float) -> float:
    """Return the weight of a pool's own statistics beside the source's: n s / (n s + ``prior``).

    Its own err by 1/n, n the independent ``samples``, the source's by s, the squared distance
    ``shift`` of the domain from the source: the best mixture weighs them by it (James and Stein).

    >>> trust(0.0, 1.0, 16.0), trust(16.0, 1.0, 16.0), trust(16.0, 3.0, 16.0)
    (0.0, 0.5, 0.75)
    """
    worth = samples * max(shift, _NEAR)
    return worth / (worth + prior)


def projection(full: int, width: int) -> Floats:
    """Return an orthogonal ``(full, width)`` matrix, the same every time; the identity if it fits.

    Distances survive a random projection, and the covariance of few numbers is soon learned.
    """
    if full <= width:
        return np.eye(full)
    random = np.random.default_rng(0).standard_normal((full, width))
    return np.asarray(np.linalg.qr(random)[0])
