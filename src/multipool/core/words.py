"""What others said, cut to what fits into one sentence."""

from __future__ import annotations

_MOST = 200  # characters


def brief(what: object, most: int = _MOST) -> str:
    r"""Return the first line of a text or an error, printable and not too long.

    >>> brief(ValueError("bad\nmore"))
    'bad'
    >>> brief(EOFError()), brief("x" * 50, most=8)
    ('EOFError', 'xxxx[...]')
    """
    said = str(what).strip() or type(what).__name__
    line = "".join(c if c.isprintable() else "?" for c in said.splitlines()[0][: most + 1])
    return line if len(line) <= most else f"{line[: most // 2]}[...]"


def printable(text: str) -> str:
    r"""Return a text that can be written anywhere: bytes of a file name that are none are escaped.

    >>> printable("caf\udce9")
    'caf\\udce9'
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
