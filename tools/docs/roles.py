"""Docstrings as MkDocs wants them: Sphinx's roles become plain code, examples become blocks."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|attr):`~?([^`]+)`")
_PAGE = re.compile(r"``docs/(\w+)/(\w+)\.md``")
_CODE = re.compile(r"``([^`]+)``")


class PlainRoles(griffe.Extension):
    """Rewrites roles in every docstring that is read."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:  # noqa: ANN401
        """Replace roles, names of pages and double back-ticks in the object's docstring."""
        if obj.docstring is not None:
            text = _ROLE.sub(r"`\1`", obj.docstring.value)
            text = _PAGE.sub(r"[\2](../\1/\2.md)", text)
            obj.docstring.value = fenced(_CODE.sub(r"`\1`", text))


def fenced(text: str) -> str:
    r"""Return a docstring whose examples are blocks of code: from ``>>>`` to the next empty line.

    >>> fenced("a\n\n>>> 1\n1\n\nb").splitlines()
    ['a', '', '```pycon', '>>> 1', '1', '```', '', 'b']
    """
    lines: list[str] = []
    indent: str | None = None
    for line in [*text.splitlines(), ""]:
        if indent is None and line.lstrip().startswith(">>> "):
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(f"{indent}```pycon")
        elif indent is not None and not line.strip():
            lines.append(f"{indent}```")
            indent = None
        lines.append(line)
    return "\n".join(lines[:-1])
