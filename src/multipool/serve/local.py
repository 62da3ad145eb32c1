"""Streams on this machine: a few threads that compute, one that writes."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor

from multipool.ops import Network
from multipool.serve.actor import as_file
from multipool.serve.events import Events
from multipool.serve.make import AdapterMaker
from multipool.serve.store import Store
from multipool.serve.stream import Answer, Early, Facts, Stream

R = TypeVar("R")


class Lane:
    """A thread, and a network of its own over the weights that all lanes share."""

    def __init__(self, network: Network, threads: int, number: int) -> None:
        self.network = network
        self.streams: dict[str, Stream] = {}  # touched by the lane's thread only
        self._pool = ThreadPoolExecutor(
            1, f"lane-{number}", initializer=torch.set_num_threads, initargs=(threads,)
        )

    async def run(self, work: Callable[[], R]) -> R:
        """Return what ``work`` returns, done by the lane's thread after all that came before."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Let the thread end."""
        self._pool.shutdown()


class LocalBackend:
    """A :class:`~multipool.serve.backend.Backend` of threads; a stream keeps to its lane."""

    def __init__(
        self, maker: AdapterMaker, store: Store, events: Events, lanes: int = 1, threads: int = 1
    ) -> None:
        self._maker, self._store, self._events = maker, store, events
        networks = [maker.network, *(maker.network.twin() for _ in range(lanes - 1))]
        self.lanes = [Lane(network, threads, i) for i, network in enumerate(networks)]
        self._disk = ThreadPoolExecutor(1, "disk")

    async def answer(
        self, name: str, images: Tensor, *, learn: bool, early: Early | None = None
    ) -> Answer:
        """Return the logits of a batch; ``early`` is told them before it is learned from."""
        loop = asyncio.get_running_loop()

        def tell(answer: Answer) -> None:
            if early is not None:
                loop.call_soon_threadsafe(early, answer)

        def work(stream: Stream) -> Answer:
            stream.early = tell
            return stream.answer(images, learn=learn)

        return await self._with(name, work)

    async def reset(self, name: str) -> Facts:
        """Begin a stream anew."""
        return await self._with(name, Stream.reset)

    async def save(self, name: str) -> Awaitable[None]:
        """Take the state; return what ends when it is on the disk."""
        snapshot = await self._with(name, Stream.snapshot)
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._disk, self._store.write, name, snapshot)

    async def release(self, name: str) -> None:
        """Free a stream's memory."""
        lane = self._lane(name)
        await lane.run(lambda: lane.streams.pop(name, None))

    async def remove(self, name: str) -> None:
        """Forget a stream and its file."""
        await self.release(name)
        await asyncio.get_running_loop().run_in_executor(self._disk, self._store.remove, name)

    async def download(self, name: str) -> bytes:
        """Return a stream's state as a file."""
        snapshot = await self._with(name, Stream.snapshot)
        return await asyncio.get_running_loop().run_in_executor(self._disk, as_file, snapshot)

    async def pools(self, name: str) -> list[dict[str, Any]]:
        """Return what is known of each pool."""
        return await self._with(name, Stream.pools)

    async def pool_images(self, name: str) -> dict[str, Tensor]:
        """Return some images of each bank."""
        return await self._with(name, Stream.pool_images)

    def names(self) -> list[str]:
        """Return the streams that have a file."""
        return self._store.names()

    async def close(self) -> None:
        """Wait for what is under way and let the threads end."""
        for lane in self.lanes:
            await asyncio.to_thread(lane.close)
        await asyncio.to_thread(self._disk.shutdown)
        self._store.close()

    def _lane(self, name: str) -> Lane:
        return self.lanes[zlib.crc32(name.encode()) % len(self.lanes)]

    async def _with(self, name: str, work: Callable[[Stream], R]) -> R:
        lane = self._lane(name)
        return await lane.run(lambda: work(self._opened(lane, name)))

    def _opened(self, lane: Lane, name: str) -> Stream:
        """Return a stream that is in memory, else from its file, else a new one."""
        stream = lane.streams.get(name)
        if stream is None:
            stream = open_stream(name, self._maker, lane.network, self._store, self._events)
            lane.streams[name] = stream
        return stream


def open_stream(
    name: str, maker: AdapterMaker, network: Network, store: Store, events: Events
) -> Stream:
    """Return the stream of a file, or a new one; a damaged file costs its own stream only."""
    if store.has(name):
        try:
            adapter = maker.load(store.path(name), network)
        except Exception as error:
            # A disk that fails now may not fail later: then this raises, and the file stays.
            store.path(name).read_bytes()
            aside = store.set_aside(name)
            events.add("damaged", name, f"{error}; moved to {aside}; begins anew", "error")
        else:
            events.add("loaded", name)
            return Stream(name, adapter)
    events.add("started", name)
    return Stream(name, maker.make(network))
