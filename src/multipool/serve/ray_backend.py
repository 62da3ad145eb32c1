"""Streams on a Ray cluster: a named actor each, and their files here, where the service is.

A node that dies takes its actors along, never a file: the next request of a stream opens it on
another node, from its last save. Ray is not asked to restart an actor, which it would do without
the state.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from torch import Tensor

from multipool.core.cluster import connect
from multipool.serve.actor import StreamActor
from multipool.serve.events import Events
from multipool.serve.make import AdapterMaker
from multipool.serve.store import Store
from multipool.serve.stream import Answer, Early, Facts

_TRIES, _PAUSE = 50, 0.2  # to have the name of an actor that is about to die; seconds


class RayBackend:
    """A :class:`~multipool.serve.backend.Backend` of actors; their state is kept by ``store``.

    Args:
        maker: makes the adapters; it travels to the cluster once, with the frozen weights.
        store: the folder with the streams' files, of this machine.
        events: what operators are told.
        address: of the cluster, as ``ray start --head`` prints it, or ``auto``.
        threads: that each actor computes with.
    """

    def __init__(
        self, maker: AdapterMaker, store: Store, events: Events, address: str, threads: int = 1
    ) -> None:
        self._store, self._events, self._threads = store, events, threads
        self._ray = connect(address, threads, _namespace(store.folder))
        self._maker = self._ray.put(maker)
        # No core is reserved: streams are many and wait most of the time.
        self._actor = self._ray.remote(num_cpus=0, max_restarts=0, scheduling_strategy="SPREAD")(
            StreamActor
        )
        self._actors: dict[str, Any] = {}
        self._disk = ThreadPoolExecutor(1, "disk")

    async def answer(
        self, name: str, images: Tensor, *, learn: bool, early: Early | None = None
    ) -> Answer:
        """Return the logits of a batch, once it has been learned from: actors answer once."""
        given = images.numpy()
        return await self._with(name, lambda actor: actor.answer.remote(given, learn))

    async def reset(self, name: str) -> Facts:
        """Begin a stream anew."""
        return await self._with(name, lambda actor: actor.reset.remote())

    async def save(self, name: str) -> Awaitable[None]:
        """Take the state; return what ends when it is on the disk."""
        content = await self._with(name, lambda actor: actor.file.remote(), again=False)
        return self._on_disk(self._store.write_file, name, content)

    async def release(self, name: str) -> None:
        """End a stream's actor."""
        actor = self._actors.pop(name, None)
        if actor is not None:
            await asyncio.to_thread(self._ray.kill, actor)

    async def remove(self, name: str) -> None:
        """Forget a stream and its file."""
        await self.release(name)
        await self._on_disk(self._store.remove, name)

    async def download(self, name: str) -> bytes:
        """Return a stream's state as a file."""
        return await self._with(name, lambda actor: actor.file.remote())

    async def pools(self, name: str) -> list[dict[str, Any]]:
        """Return what is known of each pool."""
        return await self._with(name, lambda actor: actor.pools.remote())

    async def pool_images(self, name: str) -> dict[str, Tensor]:
        """Return some images of each bank."""
        return await self._with(name, lambda actor: actor.pool_images.remote())

    def names(self) -> list[str]:
        """Return the streams that have a file."""
        return self._store.names()

    async def close(self) -> None:
        """End all actors and leave the cluster."""
        for name in list(self._actors):
            await self.release(name)
        await asyncio.to_thread(self._disk.shutdown)
        await asyncio.to_thread(self._ray.shutdown)
        self._store.close()

    async def _with(
        self, name: str, ask: Callable[[Any], Awaitable[Any]], *, again: bool = True
    ) -> Any:  # noqa: ANN401
        """Return an actor's answer; if it dies, that of another one from the last save.

        What the first may have learned from this very request died with it, so to ask ``again``
        counts nothing twice. A save is not tried again: what it was for is gone.
        """
        try:
            return await self._asked(ask(await self._opened(name)))
        except self._ray.exceptions.RayActorError:
            await self.release(name)  # one that only cannot be reached must not live on
            self._events.add("actor-lost", name, "goes on from its last save", "error")
            if not again:
                raise ConnectionError(f"the actor of stream '{name}' is gone") from None
        return await self._asked(ask(await self._opened(name)))

    async def _asked(self, reference: Awaitable[Any]) -> Any:  # noqa: ANN401
        """Return what an actor answers, or raise what it raised, without Ray's story around it."""
        try:
            return await reference
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None

    async def _opened(self, name: str) -> Any:  # noqa: ANN401
        """Return a stream's actor: the one there is, else one from its file, else a new one."""
        if name in self._actors:
            return self._actors[name]
        content = await self._on_disk(self._read, name)
        actor = self._actors[name] = await self._made(name)
        try:
            try:
                await self._asked(actor.open.remote(content))
            except self._ray.exceptions.RayActorError:
                raise
            except Exception as error:
                if content is None:
                    raise
                aside = await self._on_disk(self._store.set_aside, name)
                told = f"{error}; moved to {aside}; begins anew"
                self._events.add("damaged", name, told, "error")
                content = None
                await self._asked(actor.open.remote(None))
        except BaseException:
            await self.release(name)
            raise
        self._events.add("started" if content is None else "loaded", name)
        return actor

    async def _made(self, name: str) -> Any:  # noqa: ANN401
        """Return a new actor; Ray gives its name away only once the one before is dead."""
        named = self._actor.options(name=name)
        for _ in range(_TRIES):
            try:
                return await asyncio.to_thread(named.remote, name, self._maker, self._threads)
            except ValueError:  # a second one, which would be a second truth, cannot be
                await asyncio.sleep(_PAUSE)
        raise ConnectionError(f"stream '{name}' has an actor already that does not end")

    def _read(self, name: str) -> bytes | None:
        return self._store.path(name).read_bytes() if self._store.has(name) else None

    def _on_disk(self, work: Callable[..., Any], *given: object) -> Awaitable[Any]:
        return asyncio.get_running_loop().run_in_executor(self._disk, work, *given)


def _namespace(folder: Path) -> str:
    """Return where the actors of one service have their names: others on the cluster have theirs.

    >>> _namespace(Path("a")) == _namespace(Path("a")) != _namespace(Path("b"))
    True
    """
    place = f"{socket.gethostname()}:{folder.resolve()}"
    return f"multipool-serve-{hashlib.sha256(place.encode()).hexdigest()[:16]}"
