"""What all routes share: the service, its model, and how requests are read and answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from torch import Tensor

from multipool.core import check_images
from multipool.serve.body import read_body, unpacked
from multipool.serve.card import ModelCard
from multipool.serve.refusal import Refusal, bad
from multipool.serve.service import Service
from multipool.serve.tensors import Array

R = TypeVar("R")
_SMALL = 2**16  # bytes that are read where they are: a thread would cost more


@dataclass(frozen=True)
class Desk:
    """The service and the model it serves, with the reading of requests."""

    service: Service
    card: ModelCard

    async def body(self, request: Request) -> bytes:
        """Return a request's body, within the limits and unpacked."""
        limits, headers = self.service.serving.limits, request.headers
        if self.service.draining:
            raise Refusal(503, "the service is shutting down; ask again soon", 5)
        found = await read_body(
            request.stream(), headers.get("content-length"), limits.max_body, limits.body_seconds
        )
        return unpacked(found, headers.get("content-encoding"), limits.max_body)

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


def answer(content: dict[str, Any]) -> JSONResponse:
    """Return content as JSON."""
    return JSONResponse(content)
