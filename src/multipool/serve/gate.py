"""Who may ask: the token, the host a browser thinks it talks to, and a line about each request."""

from __future__ import annotations

import hmac
import json
import logging
import time
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from multipool.serve.metrics import Metrics

# What load balancers ask, and the page, which asks for the token itself.
OPEN = frozenset({"/v2/health/live", "/v2/health/ready", "/"})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_log = logging.getLogger("multipool.serve.request")


@dataclass(frozen=True)
class Access:
    """What a request must show: the token, or without one a name of this machine as its host."""

    token: bytes | None = None
    open_paths: frozenset[str] = OPEN

    def problem(self, path: str, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        """Return status and sentence of what is wrong with a request, or None."""
        host, origin = headers.get(b"host", b""), headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != host:
            return 403, "a page of another site may not ask this service"
        if self.token is None:
            name = host.decode("latin-1").lower()
            if name.rpartition(":")[0] in LOOPBACK or name in LOOPBACK or not name:
                return None
            return 403, "without --token-file only names of this machine, like localhost, are taken"
        if path in self.open_paths:
            return None
        given = headers.get(b"authorization", b"")
        # Compared in a time that says nothing about the token, whatever was given.
        if hmac.compare_digest(given, b"Bearer " + self.token):
            return None
        return 401, "the request needs the header 'Authorization: Bearer TOKEN'"


class Gate:
    """An ASGI layer around the application: lets requests in, counts and logs them."""

    def __init__(self, app: ASGIApp, access: Access, metrics: Metrics, most: int) -> None:
        self._app, self._access, self._metrics = app, access, metrics
        self._most, self._active = most, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        problem = self._access.problem(scope["path"], dict(scope["headers"]))
        if problem is None and self._active >= self._most:
            problem = 503, f"{self._most} requests are under way already; ask again later"
        self._active += 1
        try:
            if problem is None:
                await self._app(scope, receive, noting)
            else:
                await _refuse(noting, *problem)
        finally:
            self._active -= 1
            seconds = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.request(route, status, seconds)
            fields = {"route": route, "status": status, "ms": round(1e3 * seconds, 2)}
            _log.info("request", extra={"fields": fields})


async def _refuse(send: Send, status: int, sentence: str) -> None:
    content = json.dumps({"error": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
