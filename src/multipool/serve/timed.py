"""HTTP connections that may not stay silent: a request's head comes in time or not at all."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol


def timed(seconds: float) -> type[TimedProtocol]:
    """Return the protocol with its limit."""
    return type("Timed", (TimedProtocol,), {"header_seconds": seconds})


class TimedProtocol(H11Protocol):
    """Closes a connection whose next request's head takes longer than ``header_seconds``.

    The clock starts when the connection is made, later with a request's first byte. Bodies have a
    limit of their own.
    """

    header_seconds: ClassVar[float] = 10.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock of the first request."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Take bytes in; stop the clock once they make a head."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if not answering and self._timer is None:
            self._expect()
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._timer = self.loop.call_later(self.header_seconds, self._give_up)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()
