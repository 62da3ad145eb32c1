"""From settings to a running server: what is loaded, what is listened on, and how it ends."""

from __future__ import annotations

import logging
import os
import signal
import socket
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

import torch
import uvicorn

from multipool.serve.app import make_app
from multipool.serve.card import ModelCard
from multipool.serve.events import Events, JsonLines
from multipool.serve.gate import Access
from multipool.serve.local import LocalBackend
from multipool.serve.make import AdapterMaker
from multipool.serve.ray_backend import RayBackend
from multipool.serve.service import Service
from multipool.serve.settings import Serving
from multipool.serve.store import Store
from multipool.serve.timed import timed

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Listening:
    """Where a server listens and what it asks of clients."""

    host: str = "127.0.0.1"
    port: int = 8080
    token_file: Path | None = None
    log_requests: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port must be 0 to 65535, got {self.port}")

    def access(self) -> Access:
        """Return who may ask; other machines only with a token."""
        if self.token_file is None:
            if self.host not in LOOPBACK:
                raise ValueError(
                    f"--host {self.host} lets other machines in, which needs --token-file; or "
                    "listen on 127.0.0.1"
                )
            return Access()
        return Access(read_token(self.token_file))

    def bind(self) -> socket.socket:
        """Return a socket at the address, or say that it cannot be had; it does not listen yet."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        bound = socket.socket(family)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((self.host, self.port))
        except OSError as error:
            bound.close()
            raise ValueError(
                f"cannot listen on port {self.port} of {self.host}: {error.strerror or error}; "
                "stop what does, or choose another --port"
            ) from None
        return bound


def read_token(path: Path) -> bytes:
    """Return the token in a file: its first line, 16 characters or more, for its owner only."""
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ValueError(f"{path} can be read by others; chmod 600 it")
    token = path.read_bytes().strip()
    if len(token) < 16 or not token.isascii() or any(c <= 32 for c in token):
        raise ValueError(f"{path} must hold one word of 16 characters or more, the token")
    return token


def local_service(maker: AdapterMaker, serving: Serving, threads: int | None = None) -> Service:
    """Return a service whose streams are computed by threads of this process."""
    store, events = Store(serving.state_dir), Events()
    store.check_identity(maker.identity())
    share = threads or max(1, torch.get_num_threads() // serving.lanes)
    return Service(LocalBackend(maker, store, events, serving.lanes, share), serving, events)


def ray_service(maker: AdapterMaker, serving: Serving, address: str) -> Service:
    """Return a service whose streams are computed by actors of a Ray cluster."""
    store, events = Store(serving.state_dir), Events()
    store.check_identity(maker.identity())
    return Service(RayBackend(maker, store, events, address), serving, events)


def run(service: Service, card: ModelCard, listening: Listening, bound: socket.socket) -> None:
    """Serve at a bound socket until SIGTERM or SIGINT.

    Requests under way are then answered, and streams saved.
    """
    app = make_app(service, card, listening.access())
    limits = service.serving.limits
    config = uvicorn.Config(
        app,
        http=timed(limits.header_seconds),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=4 * limits.max_requests,  # connections, silent ones too
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(limits.answer_seconds) + 1,
        h11_max_incomplete_event_size=2**16,
    )
    _log_json(listening.log_requests)
    # Uvicorn ends by the signal that ended it; what has ended well says so.
    signal.signal(signal.SIGTERM, _end)
    uvicorn.Server(config).run(sockets=[bound])


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def _log_json(requests: bool) -> None:
    """Send what happens to stderr, one line of JSON each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("multipool", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers[:], logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
    logging.getLogger("multipool.serve.request").disabled = not requests
    # What is wrong with a form is told to its sender, and nobody else.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
