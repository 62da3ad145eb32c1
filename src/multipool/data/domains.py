"""Which corruptions make up a dataset, at which severities."""

from __future__ import annotations

from multipool.core import lookup
from multipool.data.corruptions import COMMON, CORRUPTIONS

SEVERITIES = (1, 2, 3, 4, 5)


def corruptions(names: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the corruptions asked for, the paper's 15 by default, or refuse an unknown one.

    >>> len(corruptions(None)), corruptions(("fog",))
    (15, ('fog',))
    """
    if names is None:
        return COMMON
    for name in names:
        lookup(CORRUPTIONS, name, "corruption")
    return names
