"""Reading a request's body: no larger and no slower than allowed, unpacked if it was packed."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterable

from multipool.serve.refusal import Refusal, shown

_PACKINGS = {"gzip": 31, "deflate": 15}  # zlib's word for the format


async def read_body(
    chunks: AsyncIterable[bytes], declared: str | None, limit: int, seconds: float
) -> bytes:
    """Return all bytes of a body, or refuse: 413 too many, 408 too slow."""
    told = declared if declared is not None and declared.isascii() and declared.isdigit() else "0"
    if int(told[:20]) > limit:
        raise Refusal(413, f"a request may have {limit} bytes, got {told[:20]}")
    found = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in chunks:
                found += chunk
                if len(found) > limit:
                    raise Refusal(413, f"a request may have {limit} bytes, got more")
    except TimeoutError:
        raise Refusal(408, f"the request did not come in within {seconds:g} s") from None
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
