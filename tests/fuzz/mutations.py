"""Damage to files: what disks, networks and people who mean harm do to them."""

import random
import re
import struct
from collections.abc import Callable, Iterator

HUGE = (2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**60, 2**63 - 1, 2**64 - 1)
SCRAPS = (
    b"", b"\x00", b"\n", b"\r", b" ", b"..", b"../", b"/", b"-1", b"NaN", b"1e999", b"null", b"{",
    b"[", b'"', b"&a *a", b"!!python/object/apply:os.system", b"\xff\xfe", b"\xe2\x82", b"9" * 400,
    b"cos\nsystem\n(S'true'\ntR.", b"[" * 3000, b'{"a":' * 3000,
)  # fmt: skip


def truncate(data: bytes, draw: random.Random) -> bytes:
    return data[: _place(data, draw)]


def flip_bits(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8, 64))):
        changed[_place(data, draw)] ^= 1 << draw.randrange(8)
    return bytes(changed)


def set_bytes(data: bytes, draw: random.Random) -> bytes:
    changed, place = bytearray(data), _place(data, draw)
    for k in range(place, min(place + draw.choice((1, 2, 4, 8, 100)), len(data))):
        changed[k] = draw.choice((0, 255, 127, 128, draw.randrange(256)))
    return bytes(changed)


def insert(data: bytes, draw: random.Random) -> bytes:
    place = _place(data, draw)
    scrap = draw.choice((draw.randbytes(draw.randint(1, 40)), draw.choice(SCRAPS)))
    return data[:place] + scrap + data[place:]


def delete(data: bytes, draw: random.Random) -> bytes:
    place = _place(data, draw)
    return data[:place] + data[place + draw.choice((1, 2, 8, 64, 512)) :]


def repeat(data: bytes, draw: random.Random) -> bytes:
    start, place = _place(data, draw), _place(data, draw)
    return data[:place] + data[start : start + draw.choice((1, 8, 64, 512))] + data[place:]


def swap_fields(data: bytes, draw: random.Random) -> bytes:
    """Exchange two aligned fields of 1 to 8 bytes."""
    width = draw.choice((1, 2, 4, 8))
    a, b = sorted(_place(data, draw) // width * width for _ in range(2))
    one, other = data[a : a + width], data[b : b + width]
    if b - a < width or len(other) < width:
        return flip_bits(data, draw)
    return data[:a] + other + data[a + width : b] + one + data[b + width :]


def huge_field(data: bytes, draw: random.Random) -> bytes:
    """Declare an absurd size in a binary field."""
    value, place = draw.choice(HUGE), _place(data, draw)
    order, width = draw.choice("<>"), draw.choice((4, 8))
    field = struct.pack(order + {4: "I", 8: "Q"}[width], value % 2 ** (8 * width))
    return data[:place] + field + data[place + width :]


def huge_number(data: bytes, draw: random.Random) -> bytes:
    """Declare an absurd size where digits are written out."""
    found = [match.span() for match in re.finditer(rb"\d+", data[:4096])]
    if not found:
        return huge_field(data, draw)
    start, stop = draw.choice(found)
    number = draw.choice((*(str(v) for v in HUGE), "-1", "0", "1.5", "9" * 5000, "1e400"))
    return data[:start] + number.encode() + data[stop:]


def swap_lines(data: bytes, draw: random.Random) -> bytes:
    lines = data.split(b"\n")
    a, b = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def change_word(data: bytes, draw: random.Random) -> bytes:
    """Put another word, one of the file's own or a scrap, in the place of a word."""
    found = [match.span() for match in re.finditer(rb"[\w./-]+", data[:8192])]
    if not found:
        return insert(data, draw)
    start, stop = draw.choice(found)
    a, b = draw.choice(found)
    return data[:start] + draw.choice((data[a:b], draw.choice(SCRAPS))) + data[stop:]


def nest(data: bytes, draw: random.Random) -> bytes:
    """Open far more brackets than any stack has room for."""
    place = _place(data, draw)
    return data[:place] + draw.choice((b"[", b'{"a":', b"(", b"- ")) * 100_000 + data[place:]


Mutation = Callable[[bytes, random.Random], bytes]
MUTATIONS: tuple[Mutation, ...] = (
    truncate, flip_bits, set_bytes, insert, delete, repeat, swap_fields, huge_field, huge_number,
    swap_lines, change_word, nest,
)  # fmt: skip


def mutants(
    data: bytes, specials: Iterator[bytes], count: int, seed: int
) -> Iterator[tuple[str, bytes]]:
    """Yield ``count`` damaged copies of a file and what was done: first the special ones."""
    draw, done = random.Random(seed), 0
    for special in specials:
        if done < count:
            yield f"special {done}", special
            done += 1
    for number in range(done, count):
        changed, names = data, []
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            mutation = draw.choice(MUTATIONS)
            if changed:
                changed = mutation(changed, draw)
                names.append(mutation.__name__)
        yield f"mutant {number} of seed {seed}: {' + '.join(names)}", changed


def _place(data: bytes, draw: random.Random) -> int:
    """Draw a place: anywhere, or in the first or last bytes, where formats keep what matters."""
    last, near = len(data) - 1, min(len(data), 400) - 1
    return draw.choice((draw.randint(0, last), draw.randint(0, near), last - draw.randint(0, near)))
