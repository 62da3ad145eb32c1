"""Reading a request's body: no larger and no slower than allowed, unpacked if it was packed."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterable

from multipool.serve.refusal import Refusal, shown

_PACKINGS = {"gzip": 31, "deflate": 15}  # zlib's word for the format


class Held:
    """The bytes of all requests that are read or answered at the moment, up to a limit."""

    def __init__(self, limit: int) -> None:
        self.limit, self.bytes = limit, 0

    def add(self, count: int) -> None:
        """Count more bytes, or refuse the request that brings them."""
        if self.bytes + count > self.limit:
            raise Refusal(503, "the requests under way are too large to take another one", 1)
        self.bytes += count


async def read_body(
    chunks: AsyncIterable[bytes], declared: str | None, limit: int, seconds: float, held: Held
) -> bytes:
    """Return all bytes of a body, counted in ``held``; or refuse: 413 too many, 408 too slow."""
    told = declared if declared is not None and declared.isascii() and declared.isdigit() else "0"
    if int(told[:20]) > limit:
        raise Refusal(413, f"a request may have {limit} bytes, got {told[:20]}")
    found = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in chunks:
                if len(found) + len(chunk) > limit:
                    raise Refusal(413, f"a request may have {limit} bytes, got more")
                held.add(len(chunk))
                found += chunk
    except BaseException as error:
        held.bytes -= len(found)
        if isinstance(error, TimeoutError):
            raise Refusal(408, f"the request did not come in within {seconds:g} s") from None
        raise
    return bytes(found)


def unpacked(body: bytes, encoding: str | None, limit: int) -> bytes:
    """Return the body without its ``Content-Encoding``; it may not unpack to more than ``limit``.

    >>> unpacked(zlib.compress(b"images"), "deflate", 100)
    b'images'
    """
    if encoding is None or encoding.strip().lower() in ("", "identity"):
        return body
    packing = _PACKINGS.get(encoding.strip().lower())
    if packing is None:
        known = ", ".join(_PACKINGS)
        raise Refusal(415, f"Content-Encoding must be {known} or none, got {shown(encoding)}")
    worker = zlib.decompressobj(packing)
    try:
        found = worker.decompress(body, limit + 1)
    except zlib.error as error:
        raise Refusal(400, f"the body is not {shown(encoding)}: {shown(str(error))}") from None
    if len(found) > limit:
        raise Refusal(413, f"a request may unpack to {limit} bytes, got more")
    if not worker.eof or worker.unused_data:
        raise Refusal(400, f"the body is not one whole piece of {shown(encoding)}")
    return found
