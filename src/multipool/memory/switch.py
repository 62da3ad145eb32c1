"""Whether compiled code (``decide.c``, ``pixels.c``) does the work, which is optional, or numpy."""

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

try:
    from multipool.memory import _pixels
except ImportError:
    _pixels = None  # type: ignore[assignment]

VERSION = 3  # as in decide.h
PIXELS_VERSION = 1  # as in pixels.c


def is_current(module: object, wanted: int = VERSION, what: str = "decisions") -> bool:
    """Return whether the compiled module, if any, was built from this version's sources."""
    found = getattr(module, "VERSION", "none")
    if module is None or found == wanted:
        return True
    does = "numpy decides" if what == "decisions" else "numpy makes them"
    warnings.warn(
        f"the compiled {what} are of version {found}, not {wanted}, so {does}; "
        "install the package again to build them",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


decide = _decide
if not is_current(_decide):
    decide = None  # type: ignore[assignment]
passes = _pixels
if not is_current(_pixels, PIXELS_VERSION, "passes over pixels"):
    passes = None  # type: ignore[assignment]
_wanted: ContextVar[bool] = ContextVar("compiled decisions", default=True)


def available() -> bool:
    """Return whether compiled decisions were built and are not switched off.

    ``MULTIPOOL_COMPILED=0`` in the environment or :func:`by_numpy` switches them off, for the banks
    made meanwhile. Both ways decide alike.
    """
    return decide is not None and _switched_on()


def has_passes() -> bool:
    """Return whether passes over pixels were built and are not switched off, as decisions are."""
    return passes is not None and _switched_on()


def _switched_on() -> bool:
    return os.environ.get("MULTIPOOL_COMPILED") != "0" and _wanted.get()


@contextmanager
def by_numpy() -> Iterator[None]:
    """Let Python and numpy do everything in the banks that are made meanwhile."""
    token = _wanted.set(False)
    try:
        yield
    finally:
        _wanted.reset(token)
