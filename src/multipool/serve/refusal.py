"""A request that is not answered: the status that says so and one sentence that says why."""

from __future__ import annotations

from multipool.core import brief


class Refusal(Exception):  # noqa: N818  (what a client is told, not a fault of ours)
    """Ends one request with ``status`` and ``sentence``; nothing has changed by it.

    ``retry_after`` seconds are told to the client where the same request may be taken later.
    """

    def __init__(self, status: int, sentence: str, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.retry_after = status, sentence, retry_after


def bad(sentence: str) -> Refusal:
    """Return the refusal of a request that nobody can answer (400)."""
    return Refusal(400, sentence)


def shown(value: object) -> str:
    """Return what a client sent, short enough and safe to be put into a sentence.

    >>> shown({"a": 1})
    "{'a': 1}"
    """
    return brief(repr(value)[:200])
