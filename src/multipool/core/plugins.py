"""Tables of choices by name that installed packages can add to, through entry points."""

from __future__ import annotations

import warnings
from collections.abc import Callable, ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

T = TypeVar("T")


class Table(MutableMapping[str, T]):
    """What the package brings by name, and what installed packages add under an entry point.

    The names are known at once, from the metadata of what is installed; nothing of another package
    is imported before its name is looked up. A package that is broken therefore breaks nothing
    else: its name raises a ``ValueError`` of one sentence, ``get`` does not find it, and ``items``
    and ``values`` pass it over. A name that the package itself brings stays its own.

    Args:
        what: the kind of choice in words, for messages: ``"method"``.
        group: the entry point group: ``"multipool.methods"``.
        own: what the package brings, in the order of its lists.
        accept: turns what an entry point names into a choice, or raises ``ValueError``.

    >>> table = Table("number", "multipool.none", {"one": 1}, lambda name, found: int(str(found)))
    >>> table["one"], list(table)
    (1, ['one'])
    """

    def __init__(
        self,
        what: str,
        group: str,
        own: Mapping[str, T],
        accept: Callable[[str, object], T],
    ) -> None:
        self.what, self.group = what, group
        self._choices = dict(own)
        self._accept = accept
        self._outside: dict[str, list[EntryPoint]] | None = None

    def __getitem__(self, name: str) -> T:
        if name not in self._choices:
            self._choices[name] = self._load(name, self._entries()[name])
        return self._choices[name]

    def __setitem__(self, name: str, choice: T) -> None:
        self._choices[name] = choice

    def __delitem__(self, name: str) -> None:
        del self._choices[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._choices, *(n for n in self._entries() if n not in self._choices)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._choices or name in self._entries()

    def get(self, name: str, default: object = None) -> T | None:  # type: ignore[override]
        """Return the choice; where there is none, or its package is broken, the default."""
        try:
            return self[name]
        except (KeyError, ValueError):
            return default  # type: ignore[return-value]

    def items(self) -> ItemsView[str, T]:
        """Return names and choices, without those of broken packages."""
        return self._usable().items()

    def values(self) -> ValuesView[T]:
        """Return the choices, without those of broken packages."""
        return self._usable().values()

    def origin(self, name: str) -> str | None:
        """Return the package that adds ``name``; None for what this package brings itself."""
        entries = self._entries().get(name)
        return None if not entries else _package(entries[0])

    def _usable(self) -> dict[str, T]:
        found = {}
        for name in self:
            try:
                found[name] = self[name]
            except ValueError:
                continue
        return found

    def _entries(self) -> dict[str, list[EntryPoint]]:
        """Return what is installed, by name; read once, as installing takes a new process."""
        if self._outside is None:
            self._outside = {}
            for entry in entry_points(group=self.group):
                if entry.name in self._choices:
                    warnings.warn(
                        f"package '{_package(entry)}' adds a {self.what} '{entry.name}', which "
                        "multipool has already; it is left out, give it another name",
                        stacklevel=2,
                    )
                else:
                    self._outside.setdefault(entry.name, []).append(entry)
        return self._outside

    def _load(self, name: str, entries: list[EntryPoint]) -> T:
        packages = sorted({_package(entry) for entry in entries})
        if len(packages) > 1:
            raise ValueError(
                f"packages {' and '.join(packages)} both add a {self.what} '{name}'; uninstall one"
            )
        try:
            return self._accept(name, entries[0].load())
        except (Exception, SystemExit) as error:  # an import can raise anything
            reason = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
            raise ValueError(
                f"{self.what} '{name}' of package '{packages[0]}' cannot be used: "
                f"{' '.join(reason.split())}; repair or uninstall the package"
            ) from error


def _package(entry: EntryPoint) -> str:
    return "unknown" if entry.dist is None else str(entry.dist.name)
