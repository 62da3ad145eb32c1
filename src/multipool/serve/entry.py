"""What a service knows of a stream while, and whether or not, it is in memory."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from multipool.serve.batching import Call
from multipool.serve.history import History
from multipool.serve.rate import Rate
from multipool.serve.stream import Facts


@dataclass(eq=False)
class Chore:
    """Something else to do with a stream, in its turn."""

    work: Callable[[], Awaitable[Any]]
    done: asyncio.Future[Any]


@dataclass(eq=False)
class Entry:
    """A stream's queue, where it is, and what was last heard of it."""

    name: str
    on_disk: bool = False
    resident: bool = False
    busy: bool = False  # somebody works on it
    leaving: bool = False  # its memory is about to be freed
    waiting: deque[Call] = field(default_factory=deque)
    chores: deque[Chore] = field(default_factory=deque)
    more: asyncio.Event = field(default_factory=asyncio.Event)  # set when a request comes
    used: float = field(default_factory=time.monotonic)  # when it last answered
    unsaved_since: float | None = None  # when it first learned something that is not on disk
    saving: asyncio.Task[bool] | None = None
    retry_at: float = 0.0  # after a save that failed
    saved_at: float | None = None  # seconds since 1970
    requests: int = 0  # answered by this process
    nbytes: int = 0  # of memory that it takes
    facts: Facts = Facts()
    history: History = field(default_factory=History)
    rate: Rate = field(default_factory=Rate)

    @property
    def idle(self) -> bool:
        """Whether nobody works on it and nobody waits."""
        return not (self.busy or self.waiting or self.chores)

    def learned(self) -> None:
        """Note that there is something to save."""
        if self.unsaved_since is None:
            self.unsaved_since = time.monotonic()
