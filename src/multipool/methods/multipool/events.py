"""What happens to the pools while images are sorted into them."""

from __future__ import annotations

from dataclasses import dataclass, field

from multipool.methods.multipool.rules import Ints


@dataclass(frozen=True)
class Event:
    """What happened to the pools; ``pool`` and ``other`` are their places in the table."""

    kind: str  # created, recalled, merged (other into pool), split (other from pool)
    pool: int
    other: int = -1


@dataclass(frozen=True)
class Route:
    """The pool of each image, ``(B,)``, and what happened on the way, in order."""

    pools: Ints
    events: list[Event] = field(default_factory=list)


def fresh_pools(events: list[Event]) -> set[int]:
    """Return the pools that have just begun: created, or parts of a split."""
    made = {e.pool for e in events if e.kind in ("created", "split")}
    return made | {e.other for e in events if e.kind == "split"}
