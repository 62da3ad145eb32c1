"""The service: streams side by side, each in its order, with bounded queues."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from multipool.serve.backend import Backend
from multipool.serve.batching import Call, Reply, hand_out, next_batch
from multipool.serve.entry import Chore, Entry
from multipool.serve.events import Events
from multipool.serve.keeper import Keeper
from multipool.serve.metrics import Metrics
from multipool.serve.refusal import Refusal
from multipool.serve.settings import Serving
from multipool.serve.stream import Answer, Facts

R = TypeVar("R")
_SETTLING = 1.0  # seconds that whoever watches waits at most for batches to be learned from


class Service:
    """Takes requests for streams and answers them; lives in one event loop.

    A stream's requests are answered in the order they came in, one batch after another; streams
    never wait for each other but for a thread to compute on.
    """

    def __init__(self, backend: Backend, serving: Serving, events: Events) -> None:
        self.backend, self.serving, self.events = backend, serving, events
        self.entries: dict[str, Entry] = {}
        self.keeper = Keeper(backend, serving, events, self.entries, self._work_on)
        self.pending = 0
        self.draining = False
        self.started = time.time()
        self.metrics = Metrics(self.entries, events, lambda: self.pending)
        self._runners: set[asyncio.Task[None]] = set()
        self._learning: set[asyncio.Future[None]] = set()  # of batches that have been answered

    async def start(self) -> None:
        """Find the streams on the disk and let the clock run."""
        for name in self.backend.names():
            self.entries[name] = Entry(name, on_disk=True)
        self.keeper.start()
        self.events.add("service-started", detail=f"{len(self.entries)} streams on disk")

    async def close(self) -> None:
        """Take no more requests, answer those taken, save everything and free it."""
        self.draining = True
        while self._runners:
            await asyncio.wait(list(self._runners))
        await self.keeper.close()
        await self.backend.close()
        self.events.add("service-stopped")

    async def infer(
        self,
        name: str,
        images: Tensor,
        *,
        learn: bool = True,
        start: bool = False,
        end: bool = False,
    ) -> Reply:
        """Return the answer to checked images ``(B, C, H, W)`` of a stream, in its turn."""
        entry = self._admitted(name)
        self._check_rate(entry)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        entry.waiting.append(Call(images, reply, learn, start, end, time.monotonic()))
        entry.more.set()
        self._work_on(entry)
        return await self._in_time(name, reply)

    async def chore(self, name: str, work: Callable[[Entry], Awaitable[R]]) -> R:
        """Return what ``work`` makes of a known stream, in its turn."""
        if name not in self.entries:
            raise Refusal(404, f"there is no stream '{name}'")
        entry = self._admitted(name)
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        entry.chores.append(Chore(lambda: work(entry), done))
        self._work_on(entry)
        return await self._in_time(name, done)

    async def snapshot(self, name: str) -> None:
        """Save a stream now."""
        await self.chore(name, self.keeper.save)
        self.events.add("snapshot", name)

    async def reset(self, name: str) -> None:
        """Begin a stream anew."""
        await self.chore(name, self._reset)

    async def remove(self, name: str) -> None:
        """Forget a stream."""
        await self.chore(name, self._remove)

    async def settled(self) -> None:
        """Wait, not for long, until what has been answered has been learned from and counted."""
        if self._learning:
            await asyncio.wait(self._learning, timeout=_SETTLING)

    # Admission ----------------------------------------------------------------------------------

    def _admitted(self, name: str) -> Entry:
        limits = self.serving.limits
        if self.draining:
            raise Refusal(503, "the service is shutting down; ask again soon", 5)
        if self.pending >= limits.max_pending:
            raise Refusal(503, f"{self.pending} requests are waiting already; ask again later", 1)
        entry = self.entries.get(name)
        if entry is None:
            if len(self.entries) >= limits.max_streams:
                raise Refusal(
                    429,
                    f"there are {limits.max_streams} streams already; remove one or raise "
                    "--max-streams",
                    60,
                )
            entry = self.entries[name] = Entry(name)
        if len(entry.waiting) + len(entry.chores) >= limits.max_queue:
            raise Refusal(
                429, f"{limits.max_queue} requests of stream '{name}' are waiting; slow down", 1
            )
        return entry

    def _check_rate(self, entry: Entry) -> None:
        most = self.serving.limits.max_rate
        wait = entry.rate.wait(most)
        if wait > 0:
            raise Refusal(
                429,
                f"stream '{entry.name}' may send {most:g} requests a second; slow down",
                math.ceil(wait),
            )

    async def _in_time(self, name: str, future: asyncio.Future[R]) -> R:
        seconds = self.serving.limits.answer_seconds
        self.pending += 1
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            raise Refusal(
                503, f"stream '{name}' did not answer within {seconds:g} s; ask again later", 5
            ) from None
        finally:
            self.pending -= 1

    # Work ---------------------------------------------------------------------------------------

    def _work_on(self, entry: Entry) -> None:
        if not entry.busy:
            entry.busy = True
            runner = asyncio.get_running_loop().create_task(self._run(entry))
            self._runners.add(runner)
            runner.add_done_callback(self._runners.discard)

    async def _run(self, entry: Entry) -> None:
        """Work on a stream until nobody waits for it."""
        try:
            while entry.waiting or entry.chores:
                if entry.chores:
                    await self._do(entry, entry.chores.popleft())
                else:
                    await self._linger(entry)
                    await self._answer(entry, next_batch(entry.waiting, self.serving.max_batch))
        finally:
            entry.busy = False
            self.keeper.went_idle(entry)
            if not (entry.resident or entry.on_disk) and entry.idle:
                self.entries.pop(entry.name, None)  # nothing came of it

    async def _linger(self, entry: Entry) -> None:
        """Give other requests of the stream the time to join the first one that waits."""
        until = entry.waiting[0].arrived + self.serving.max_wait_ms / 1000
        while sum(len(c.images) for c in entry.waiting) < self.serving.max_batch:
            left = until - time.monotonic()
            if left <= 0:
                return
            entry.more.clear()
            try:
                async with asyncio.timeout(left):
                    await entry.more.wait()
            except TimeoutError:
                return

    async def _answer(self, entry: Entry, calls: list[Call]) -> None:
        """Answer a batch; whatever goes wrong costs this batch alone."""
        calls = [call for call in calls if not call.reply.done()]  # those given up are not learned
        if not calls:
            return
        try:
            await self.keeper.make_resident(entry)
            if calls[0].start and (entry.on_disk or entry.facts.batches):
                await self._reset(entry)
            await self._batch(entry, calls)
            if calls[-1].end:
                await self.keeper.rest(entry)
        except Exception as error:
            _fail(calls, error)
            if not isinstance(error, Refusal):
                self.events.add("failed", entry.name, f"{type(error).__name__}: {error}", "error")

    async def _batch(self, entry: Entry, calls: list[Call]) -> None:
        began, learn = time.monotonic(), calls[0].learn
        images = calls[0].images if len(calls) == 1 else torch.cat([c.images for c in calls])
        try:
            answer = await self._answered(entry, calls, images)
        except ValueError as error:  # nothing has changed: find out whose images these are
            if len(calls) == 1:
                raise Refusal(400, str(error)) from None
            for call in calls:
                await self._answer(entry, [call])
            return
        entry.used = time.monotonic()
        if learn:
            entry.learned()
        self.metrics.batch(len(images), time.monotonic() - began, learn=learn)
        self._note(entry, answer.facts, len(calls), learn=learn)
        hand_out(calls, answer)

    async def _answered(self, entry: Entry, calls: list[Call], images: Tensor) -> Answer:
        """Return the backend's answer; those who asked have theirs before it is learned from."""
        learned = asyncio.get_running_loop().create_future()

        def early(answer: Answer) -> None:
            entry.learned()
            self._learning.add(learned)
            hand_out(calls, answer)

        try:
            return await self.backend.answer(entry.name, images, learn=calls[0].learn, early=early)
        finally:
            self._learning.discard(learned)
            learned.set_result(None)

    def _note(self, entry: Entry, facts: Facts, requests: int, *, learn: bool) -> None:
        entry.facts, entry.requests = facts, entry.requests + requests
        self.keeper.weigh(entry, facts.nbytes)
        for kind, count in facts.news:
            self.metrics.happened(kind, count)
            if kind != "updates":
                self.events.add(kind, entry.name, str(count))
        if learn:
            entry.history.add(
                time.time(),
                facts.images,
                facts.estimate,
                facts.entropy,
                -1 if facts.pools is None else facts.pools,
                -1 if facts.pool is None else facts.pool,
            )

    async def _do(self, entry: Entry, chore: Chore) -> None:
        try:
            await self.keeper.make_resident(entry)
            result = await chore.work()
        except Exception as error:
            if not chore.done.done():
                chore.done.set_exception(_told(error))
            if not isinstance(error, Refusal):
                self.events.add("failed", entry.name, f"{type(error).__name__}: {error}", "error")
        else:
            if not chore.done.done():
                chore.done.set_result(result)

    async def _reset(self, entry: Entry) -> None:
        entry.facts = await self.backend.reset(entry.name)
        entry.learned()
        self.events.add("reset", entry.name)

    async def _remove(self, entry: Entry) -> None:
        await self.keeper.forget(entry)
        self.events.add("removed", entry.name)


def _told(error: Exception) -> Exception:
    """Return what a client is told of an error: of our own faults only that there was one."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, OSError):
        return Refusal(503, "a file of the stream cannot be read or written; ask again later", 5)
    return Refusal(500, "the service failed to answer; its log says why")


def _fail(calls: list[Call], error: Exception) -> None:
    for call in calls:
        if not call.reply.done():
            call.reply.set_exception(_told(error))
