"""Look a name up in a room's table, and say what there is when it is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def unknown(what: str, name: object, known: Iterable[str]) -> ValueError:
    """Return the error for a name that is in no table: the nearest one, then all of them.

    >>> str(unknown("method", "rota", ["rotta", "petta"]))
    "unknown method 'rota'; did you mean 'rotta'? Choose one of: petta, rotta"
    """
    names = sorted(known)
    near = difflib.get_close_matches(str(name).lower(), names, n=1)  # ours are lower case
    hint = f"did you mean '{near[0]}'? Choose" if near else "choose"
    return ValueError(f"unknown {what} {name!r}; {hint} one of: {', '.join(names)}")


def lookup(table: Mapping[str, T], name: str, what: str) -> T:
    """Return ``table[name]``, or raise a ``ValueError`` that lists what the table holds.

    >>> lookup({"a": 1}, "a", "letter")
    1
    """
    try:
        return table[name]
    except (KeyError, TypeError):  # a list, say, cannot be looked up at all
        raise unknown(what, name, table) from None
