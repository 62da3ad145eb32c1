"""Bodies that are too large, too slow, or larger than they look."""

import asyncio
import gzip
import zlib

import pytest

from multipool.serve.body import Held, read_body, unpacked
from multipool.serve.refusal import Refusal


async def chunks(*parts):
    for part in parts:
        yield part


def read(*parts, declared=None, limit=10, held=None):
    held = held or Held(1000)
    return asyncio.run(read_body(chunks(*parts), declared, limit, 5.0, held))


def test_a_body_within_the_limit_is_whole():
    assert read(b"abc", b"", b"defghij") == b"abcdefghij"


@pytest.mark.parametrize("declared", ["11", "99999999999999999999999", None])
def test_a_body_beyond_the_limit_is_refused(declared):
    with pytest.raises(Refusal, match="a request may have 10 bytes") as refusal:
        read(b"x" * 11, declared=declared)
    assert refusal.value.status == 413


def test_all_bodies_together_are_limited_and_given_back():
    held = Held(15)
    read(b"x" * 10, held=held)
    with pytest.raises(Refusal) as refusal:
        read(b"y" * 4, b"y" * 4, held=held)
    assert refusal.value.status == 503
    assert refusal.value.retry_after == 1
    assert held.bytes == 10  # of the first; the refused one holds nothing


def test_a_body_that_never_ends_is_refused():
    async def forever():
        yield b"x"
        await asyncio.Event().wait()

    held = Held(100)
    with pytest.raises(Refusal, match="did not come in within") as refusal:
        asyncio.run(read_body(forever(), None, 10, 0.01, held))
    assert refusal.value.status == 408
    assert held.bytes == 0


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_packed_bodies_are_unpacked(pack):
    name = {gzip.compress: "gzip", zlib.compress: "Deflate "}[pack]
    assert unpacked(pack(b"images" * 9), name, 100) == b"images" * 9


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        (
            gzip.compress(bytes(10**7), mtime=0),
            "gzip",
            413,
        ),  # ten kilobytes that would be ten megabytes
        (b"nonsense", "gzip", 400),
        (gzip.compress(b"whole", mtime=0)[:-4], "gzip", 400),
        (zlib.compress(b"one") + b"more", "deflate", 400),
        (b"x", "br", 415),
    ],
    ids=["bomb", "nonsense", "cut", "more", "unknown"],
)
def test_bodies_that_do_not_unpack_are_refused(body, encoding, status):
    with pytest.raises(Refusal) as refusal:
        unpacked(body, encoding, 1000)
    assert refusal.value.status == status
