"""The counters that every bank keeps."""

from __future__ import annotations

EVENTS = ("added", "spawned", "merged", "replaced", "rejected", "expired")


def new_events() -> dict[str, int]:
    """Return all counters at zero."""
    return dict.fromkeys(EVENTS, 0)
