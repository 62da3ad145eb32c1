"""A method with its memory and options: a row of the comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from multipool.core import lookup
from multipool.methods import METHODS, usual_memory

SOURCE = "source"  # the model as it is, with which every method is compared
# Methods that correct their outputs by the order of the stream, as the decoder does: without the
# decoder they are listed, but the others are not measured by them.
CORRECTORS = ("lame",)


@dataclass(frozen=True)
class Entrant:
    """A method, its memory (None: its own pool, if it has one) and options unlike the usual."""

    method: str
    memory: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def parse(cls, word: str) -> Entrant:
        """Return what ``METHOD[+MEMORY][:OPTION=VALUE...]`` stands for.

        >>> Entrant.parse("rotta+mcm+:lr=0.01")
        Entrant(method='rotta', memory='mcm+', options={'lr': 0.01})
        """
        name, *settings = word.strip().split(":")
        method, _, memory = name.partition("+")
        lookup(METHODS, method, "method")
        options: dict[str, object] = {}
        for setting in settings:
            key, sign, value = setting.partition("=")
            if not key or not sign:
                raise ValueError(f"a method's option is OPTION=VALUE, got '{setting}' in '{word}'")
            options[key.replace("-", "_")] = _plain(value)
        return cls(method, memory or None, options)

    @property
    def method_name(self) -> str:
        """Return the method with its options, as in the table's column ``method``."""
        told = [f"{key}={_text(value)}" for key, value in self.options.items()]
        return ":".join([self.method, *told])

    @property
    def memory_name(self) -> str:
        """Return the memory, as in the table's column ``memory``; "" where there is none."""
        return self.memory or usual_memory(self.method)


def label(method: str, memory: str) -> str:
    """Return what a row is called; the memory that a method has anyway goes without saying.

    >>> label("rotta", "single"), label("rotta", "mcm"), label("multipool", "single")
    ('rotta', 'rotta + mcm', 'multipool + single')
    """
    usual = usual_memory(method.split(":")[0])  # what follows are options
    return method if memory in ("", usual) else f"{method} + {memory}"


def is_corrector(row: str) -> bool:
    """Return whether the method of a row corrects its outputs by itself."""
    return row.split(" ")[0].split(":")[0] in CORRECTORS


def _plain(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
