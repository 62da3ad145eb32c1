"""Docstrings name things as Sphinx does (``:class:`Adapter```); here they become plain code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|attr):`~?([^`]+)`")
_CODE = re.compile(r"``([^`]+)``")


class PlainRoles(griffe.Extension):
    """Rewrites roles in every docstring that is read."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:  # noqa: ANN401
        """Replace roles and double back-ticks in the object's docstring."""
        if obj.docstring is not None:
            text = _ROLE.sub(r"`\1`", obj.docstring.value)
            obj.docstring.value = _CODE.sub(r"`\1`", text)
