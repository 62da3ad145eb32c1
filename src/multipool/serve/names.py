"""Names of streams, and the files they are kept in: no name leads out of the folder."""

from __future__ import annotations

import re
from urllib.parse import unquote

from multipool.serve.refusal import bad, shown

DEFAULT = "default"  # of requests that name no stream
LONGEST = 64  # characters; three times as many and a suffix fit any file system
SUFFIX = ".safetensors"
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


def stream_name(given: object) -> str:
    """Return the name that a client gave a stream: text, or a whole number as Triton's clients do.

    >>> stream_name("camera-7"), stream_name(7), stream_name(0), stream_name("")
    ('camera-7', '7', 'default', 'default')
    """
    if given is None or (not isinstance(given, bool) and given in (0, "")):
        return DEFAULT
    if isinstance(given, int) and not isinstance(given, bool) and 0 < given < 2**64:
        return str(given)
    if isinstance(given, str) and _NAME.fullmatch(given):
        return given
    raise bad(
        f"a stream's name is 1 to {LONGEST} letters, digits or '._:-', or a whole number below "
        f"2^64, got {shown(given)}"
    )


def file_name(name: str) -> str:
    """Return the name of a stream's file; two names never share one, whatever the file system.

    Everything but lower-case letters, digits, '-' and '_' is escaped: no dots, no slashes, and
    nothing that a file system without capitals would mix up.

    >>> file_name("Cam.1")
    '%43am%2E1.safetensors'
    """
    return "".join(c if c in _PLAIN else f"%{ord(c):02X}" for c in name) + SUFFIX


def name_of_file(file: str) -> str | None:
    """Return the stream that a file belongs to, or None for a file of somebody else.

    >>> name_of_file("%43am%2E1.safetensors"), name_of_file("notes.txt")
    ('Cam.1', None)
    """
    name = unquote(file.removesuffix(SUFFIX))
    ours = _NAME.fullmatch(name) is not None and file_name(name) == file
    return name if ours else None
