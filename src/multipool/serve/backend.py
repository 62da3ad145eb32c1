"""Where streams are computed: what a service asks of this machine, or of a cluster."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from torch import Tensor

from multipool.serve.stream import Answer, Early, Facts


class Backend(Protocol):
    """Holds the adapters of streams; the service asks for one thing at a time of each stream.

    A stream that is not there is opened by whatever asks for it: from its file, or anew. A file
    that cannot be read is put aside and told as an event, and the stream begins anew.
    """

    async def answer(
        self, name: str, images: Tensor, *, learn: bool, early: Early | None = None
    ) -> Answer:
        """Return the logits of a batch ``(B, C, H, W)``; ``ValueError``: nothing has changed.

        ``early`` may be called in the event loop as soon as they are known, before anything is
        learned.
        """

    async def reset(self, name: str) -> Facts:
        """Begin a stream anew; its file stays until the next save."""

    async def save(self, name: str) -> Awaitable[None]:
        """Take the state of this moment; what is returned ends when it is on the disk.

        It raises ``OSError`` where it cannot be written; the file before is then still there.
        """

    async def release(self, name: str) -> None:
        """Free a stream's memory; what was not saved is forgotten."""

    async def remove(self, name: str) -> None:
        """Forget a stream, its file too."""

    async def download(self, name: str) -> bytes:
        """Return a stream's state as the file that ``multipool.load`` reads."""

    async def pools(self, name: str) -> list[dict[str, Any]]:
        """Return what is known of each pool, in order of creation."""

    async def pool_images(self, name: str) -> dict[str, Tensor]:
        """Return some images uint8 ``(N, C, H, W)`` of each bank that holds any, by its name."""

    def names(self) -> list[str]:
        """Return the streams that have a file."""

    async def close(self) -> None:
        """Free everything; nothing is saved here."""
