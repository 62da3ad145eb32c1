"""What all routes share: the service, its model, and how requests are read and answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import torch
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from torch import Tensor

from multipool.core import check_images
from multipool.serve.body import Held, read_body, unpacked
from multipool.serve.card import ModelCard
from multipool.serve.refusal import Refusal, bad
from multipool.serve.service import Service
from multipool.serve.tensors import Array

R = TypeVar("R")
_SMALL = 2**16  # bytes that are read where they are: a thread would cost more


class Desk:
    """The service and the model it serves, with the reading of requests."""

    def __init__(self, service: Service, card: ModelCard) -> None:
        self.service, self.card = service, card
        self.held = Held(service.serving.limits.max_held)

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """Yield a request's body, within the limits and unpacked; it counts until answered."""
        limits, headers = self.service.serving.limits, request.headers
        if self.service.draining:
            raise Refusal(503, "the service is shutting down; ask again soon", 5)
        packed = await read_body(
            request.stream(),
            headers.get("content-length"),
            limits.max_body,
            limits.body_seconds,
            self.held,
        )
        try:
            yield unpacked(packed, headers.get("content-encoding"), limits.max_body)
        finally:
            self.held.bytes -= len(packed)

    async def read(self, work: Callable[[], R], size: int) -> R:
        """Return what ``work`` makes of a body of ``size`` bytes, away from others if it is long.

        Other requests go on meanwhile.
        """
        return work() if size <= _SMALL else await asyncio.to_thread(work)


def as_images(array: Array) -> Tensor:
    """Return an array as images that every adapter takes, or refuse its values."""
    images = torch.from_numpy(array)
    try:
        return check_images(images)
    except ValueError as error:
        raise bad(str(error)) from None


def refused(request: Request, error: Exception) -> Response:
    """Return the answer to a request that is not answered."""
    assert isinstance(error, Refusal)
    wait = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return JSONResponse({"error": error.sentence}, error.status, headers=wait)
