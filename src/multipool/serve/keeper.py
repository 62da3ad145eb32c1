"""Which streams are in memory, and when each is put on the disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from multipool.serve.backend import Backend
from multipool.serve.entry import Entry
from multipool.serve.events import Events
from multipool.serve.refusal import Refusal
from multipool.serve.settings import MIB, Serving

_AT_ONCE = 4  # saves that the clock begins before it waits: each holds a copy of a state
_RETRY = 5.0  # seconds after a save that failed


class Keeper:
    """Saves what was learned before it is ``save_every`` old, and puts unused streams to rest.

    ``wake`` is called for a stream whose requests had to wait for the disk.
    """

    def __init__(
        self,
        backend: Backend,
        serving: Serving,
        events: Events,
        entries: dict[str, Entry],
        wake: Callable[[Entry], None],
    ) -> None:
        self._backend, self._serving, self._events = backend, serving, events
        self._entries, self._wake = entries, wake
        self.residents = 0
        self.nbytes = 0  # of memory that they take
        self._trimming: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._clock: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Let the clock run."""
        self._clock = asyncio.get_running_loop().create_task(self._tick())

    async def close(self) -> None:
        """Stop the clock and save every stream that has learned something."""
        if self._clock is not None:
            self._clock.cancel()
        if self._trimming is not None:
            await asyncio.wait([self._trimming])
        for entry in list(self._entries.values()):
            if entry.resident:
                await self.saved(entry)

    def went_idle(self, entry: Entry) -> None:
        """Note that nobody works on a stream any more, so that it may make room for others."""
        if entry.resident:
            self._room.set()
            if self._too_much() and self._trimming is None:
                self._trimming = asyncio.get_running_loop().create_task(self._trim())

    def weigh(self, entry: Entry, nbytes: int) -> None:
        """Note how much memory a stream takes."""
        if entry.resident:
            self.nbytes += nbytes - entry.nbytes
            entry.nbytes = nbytes

    # The disk -----------------------------------------------------------------------------------

    async def save(self, entry: Entry) -> None:
        """Put a stream on the disk, or refuse; ends when it is there."""
        if not await self.saved(entry):
            raise Refusal(
                503, f"the state of stream '{entry.name}' cannot be written; the log says why", 30
            )

    async def saved(self, entry: Entry) -> bool:
        """Put a stream on the disk, if there is anything new; tell whether all of it is there."""
        if entry.saving is not None:  # it may have begun before the newest answer
            await asyncio.wait([entry.saving])
        if entry.unsaved_since is None:
            return True
        return await self._begin(entry)

    def _begin(self, entry: Entry) -> asyncio.Task[bool]:
        if entry.saving is None:
            entry.saving = asyncio.get_running_loop().create_task(self._save(entry))
        return entry.saving

    async def _save(self, entry: Entry) -> bool:
        since, entry.unsaved_since = entry.unsaved_since, None
        try:
            await (await self._backend.save(entry.name))
        except Exception as error:  # a full disk, a node that is gone: what was learned stays
            entry.unsaved_since, entry.retry_at = since, time.monotonic() + _RETRY
            self._events.add("unsaved", entry.name, str(error), "error")
            return False
        else:
            entry.on_disk, entry.saved_at = True, time.time()
            return True
        finally:
            entry.saving = None

    async def _tick(self) -> None:
        """Begin to save whatever has reached half of the age it may have."""
        every = self._serving.save_every
        while True:
            await asyncio.sleep(min(1.0, every / 10))
            now = time.monotonic()
            due = [e for e in self._entries.values() if self._is_due(e, now)]
            due.sort(key=lambda e: e.unsaved_since or now)
            for start in range(0, len(due), _AT_ONCE):
                some = [e for e in due[start : start + _AT_ONCE] if self._is_due(e, now)]
                if some:
                    await asyncio.wait([self._begin(e) for e in some])

    def _is_due(self, entry: Entry, now: float) -> bool:
        since = entry.unsaved_since
        old = since is not None and now - since >= self._serving.save_every / 2
        return old and entry.resident and not entry.leaving and now >= entry.retry_at

    # Memory -------------------------------------------------------------------------------------

    async def make_resident(self, entry: Entry) -> None:
        """Make room for a stream that is worked on; the least recently used one goes."""
        while not entry.resident:
            self._room.clear()
            if self.residents < self._serving.resident and not self._is_full():
                self.residents += 1
                entry.resident = True
                return
            oldest = self._oldest()
            if oldest is None:
                await self._room.wait()
            else:
                await self._evict(oldest)

    def _is_full(self) -> bool:
        """Tell whether there is no memory for another stream; for one there always is."""
        return self.residents > 0 and self.nbytes >= self._serving.resident_mib * MIB

    def _too_much(self) -> bool:
        return self.residents > 1 and self.nbytes > self._serving.resident_mib * MIB

    def _oldest(self) -> Entry | None:
        """Return the stream that nobody has used for longest, of those that may go."""
        idle = [e for e in self._entries.values() if e.resident and e.idle]
        return min(idle, key=lambda e: e.used, default=None)

    async def _trim(self) -> None:
        """Put streams to rest until the others, which have grown, fit."""
        try:
            while self._too_much() and (oldest := self._oldest()) is not None:
                await self._evict(oldest)
        except Refusal:  # it cannot be written, as an event says: it stays
            pass
        finally:
            self._trimming = None

    async def _evict(self, entry: Entry) -> None:
        entry.busy = True  # requests that come meanwhile wait until it is on the disk
        try:
            await self.save(entry)
            await self.release(entry)
            self._events.add("evicted", entry.name)
        finally:
            entry.busy = False
            if entry.waiting or entry.chores:
                self._wake(entry)
            elif not (entry.on_disk or entry.resident):
                self._entries.pop(entry.name, None)  # it never learned anything

    async def rest(self, entry: Entry) -> None:
        """Put a stream that is worked on to rest: its client said that the sequence ends."""
        if await self.saved(entry):
            await self.release(entry)

    async def forget(self, entry: Entry) -> None:
        """Remove a stream that is worked on, from the disk too."""
        entry.unsaved_since = None
        entry.on_disk = False
        await self.release(entry, remove=True)

    async def release(self, entry: Entry, *, remove: bool = False) -> None:
        """Free the memory of a stream that is on the disk, or gone for good."""
        entry.leaving = True
        try:
            if entry.saving is not None:
                await asyncio.wait([entry.saving])
            if remove:
                await self._backend.remove(entry.name)
                entry.on_disk = False
            else:
                await self._backend.release(entry.name)
        finally:
            entry.leaving = False
        if entry.resident:
            self.weigh(entry, 0)
            entry.resident = False
            self.residents -= 1
        self._room.set()
