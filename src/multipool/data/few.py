"""Streams that show few classes in each domain: the protocol ``few``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from multipool.core import numpy_generator
from multipool.data.protocol import Ints
from multipool.data.stream_checks import checked, whole


def few(labels: npt.ArrayLike, domains: npt.ArrayLike, shown: int = 1, seed: int = 0) -> Ints:
    """Order a stream of few classes: domain after domain, each with classes drawn for it alone.

    A camera over a door sees one or two of the classes that its model knows, in no order that would
    betray it. What is not of a domain's classes is left out.

    Args:
        labels: ``(N,)`` class ids from 0.
        domains: ``(N,)`` domain ids from 0; lower ones come first.
        shown: classes that a domain shows; all of them, where it has no more.
        seed: same seed, same classes and order.

    Returns:
        ``(M,)`` positions into ``labels``, none twice; inside a domain in random order.

    >>> order = few([0, 1, 2] * 4, [0] * 6 + [1] * 6, shown=1)
    >>> [len({i % 3 for i in order.tolist() if i // 6 == d}) for d in (0, 1)]
    [1, 1]
    """
    labels, domains = checked(labels, domains, seed)
    order = []
    for d in np.unique(domains).tolist():
        part = np.flatnonzero(domains == d)
        part = part[shown_rows(labels[part], shown, seed, d)]
        order.append(part[numpy_generator(seed, "few", 1, d).permutation(len(part))])
    return np.concatenate(order)


def shown_rows(labels: Ints, shown: int, seed: int, domain: int) -> Ints:
    """Return the rows of a domain's ``(n,)`` labels whose classes are drawn for it, ascending.

    Of these rows alone, or of some of them, all are drawn again: a subset of what is shown may be
    taken before the order.
    """
    whole("shown", shown, 1)
    drawn = numpy_generator(seed, "few", 0, domain).permutation(np.unique(labels))[:shown]
    return np.flatnonzero(np.isin(labels, drawn))
