"""How a broken promise is reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor


class ContractError(AssertionError):
    """A method or a memory does not do what all of them promise; one sentence says what."""


def expect(kept: bool, otherwise: str) -> None:
    """Raise :class:`ContractError` with the sentence ``otherwise`` unless ``kept``."""
    if not kept:
        raise ContractError(otherwise)


def refuses(action: Callable[[], object], what: str, changed: Callable[[], str | None]) -> None:
    """Check that ``action`` raises a ``ValueError`` and that nothing changed.

    ``changed`` returns the name of something that did, or None.
    """
    try:
        action()
    except ValueError as error:
        expect(bool(str(error)), f"{what} is refused without a word; say what was expected")
    else:
        raise ContractError(f"{what} is taken; raise a ValueError of one sentence")
    name = changed()
    expect(name is None, f"{what} is refused, but '{name}' has changed; check before anything else")


def difference(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> str | None:
    """Return the name of an entry in which two states differ, or None.

    >>> difference({"a": torch.zeros(2)}, {"a": torch.ones(2)})
    'a'
    """
    for name in sorted(one.keys() ^ other.keys()):
        return name
    for name in sorted(one):
        first, second = one[name], other[name]
        if first.dtype != second.dtype or not torch.equal(first, second):
            return name
    return None


def run_checks(subject: str, checks: Mapping[str, Callable[[], None]]) -> None:
    """Run the checks; tell which one failed, and why, in one sentence.

    >>> run_checks("Toy", {"a promise": lambda: expect(False, "it was broken")})
    Traceback (most recent call last):
    ...
    multipool.testing.contract.ContractError: Toy breaks 'a promise': it was broken
    """
    for promise, check in checks.items():
        try:
            check()
        except ContractError as error:
            raise ContractError(f"{subject} breaks '{promise}': {error}") from None
        except Exception as error:  # whatever a stranger's code may raise
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ContractError(f"{subject} breaks '{promise}': it raises {reason}") from error
