"""Which waiting requests of a stream make up its next batch."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from torch import Tensor

from multipool.serve.stream import Answer, Facts


@dataclass(frozen=True)
class Reply:
    """The rows of one request in the answer of a batch."""

    logits: Tensor  # (B, L) float32
    facts: Facts  # after the batch; those that depend on what it taught may be missing
    first: int  # row of the batch that is the request's first
    size: int  # images of the whole batch


@dataclass(eq=False)
class Call:
    """A request that waits for its turn."""

    images: Tensor  # (B, C, H, W)
    reply: asyncio.Future[Reply]
    learn: bool = True
    start: bool = False  # the stream begins anew with it
    end: bool = False  # the stream rests after it
    arrived: float = 0.0

    def joins(self, other: Call) -> bool:
        """Tell whether this request may follow ``other`` in one batch."""
        alike = self.learn == other.learn and self.images.dtype == other.images.dtype
        return alike and not self.start and not other.end


def next_batch(waiting: deque[Call], max_batch: int) -> list[Call]:
    """Take the requests of the next batch from the front of those waiting.

    Requests are whole, in order of arrival, and of one kind; a batch holds as many as fit into
    ``max_batch`` images and at least one: a request with more images is a batch of its own.
    """
    taken = [waiting.popleft()]
    size = len(taken[0].images)
    while waiting and waiting[0].joins(taken[-1]) and size + len(waiting[0].images) <= max_batch:
        size += len(waiting[0].images)
        taken.append(waiting.popleft())
    return taken


def hand_out(calls: list[Call], answer: Answer) -> None:
    """Give each request of a batch that still waits its rows of the answer."""
    first = 0
    for call in calls:
        rows = answer.logits[first : first + len(call.images)]
        if not call.reply.done():
            call.reply.set_result(Reply(rows, answer.facts, first, len(answer.logits)))
        first += len(call.images)
