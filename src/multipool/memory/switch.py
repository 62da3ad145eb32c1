"""Whether decisions are made by compiled code (``decide.c``), which is optional, or by numpy."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

try:
    from multipool.memory import _decide
except ImportError:  # no compiler when the package was installed
    _decide = None  # type: ignore[assignment]

VERSION = 3  # as in decide.h


def is_current(module: object) -> bool:
    """Return whether the compiled module, if any, was built from this version's sources."""
    found = getattr(module, "VERSION", "none")
    if module is None or found == VERSION:
        return True
    warnings.warn(
        f"the compiled decisions are of version {found}, not {VERSION}, so numpy decides; "
        "install the package again to build them",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


decide = _decide
if not is_current(_decide):
    decide = None  # type: ignore[assignment]
_wanted: ContextVar[bool] = ContextVar("compiled decisions", default=True)


def available() -> bool:
    """Return whether compiled decisions were built and are not switched off.

    ``MULTIPOOL_COMPILED=0`` in the environment or :func:`by_numpy` switches them off, for the banks
    made meanwhile. Both ways decide alike.
    """
    switched_off = os.environ.get("MULTIPOOL_COMPILED") == "0" or not _wanted.get()
    return decide is not None and not switched_off


@contextmanager
def by_numpy() -> Iterator[None]:
    """Let Python and numpy decide in the banks that are made meanwhile."""
    token = _wanted.set(False)
    try:
        yield
    finally:
        _wanted.reset(token)
