"""What a run measured, as it stands in ``result.json``."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multipool.core import printable, read_json, write_json

FILE = "result.json"
Kind = Callable[[object], bool]
# The only keys whose values may differ between two equal runs.
VARYING = ("timing", "host", "samples_per_second")


@dataclass(frozen=True)
class Result:
    """One run: errors in per cent, and everything needed to understand and repeat it.

    ``error`` is the mean over the domains seen (in recurring streams over rounds as well) and
    None while nothing was seen. ``curve`` has one point per stretch of the stream, with the number
    of samples seen at its end; ``changes`` says at which sample which domain begins.
    """

    error: float | None
    errors: Mapping[str, float]
    complete: bool
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    seed: int
    samples: int  # scored so far
    total: int  # in the whole stream
    curve: list[dict[str, Any]] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    counts: Mapping[str, int] = field(default_factory=dict)
    memory: Mapping[str, Any] | None = None
    undecoded_error: float | None = None  # where a decoder ran: what it started from
    estimate: float | None = None  # expected accuracy at the end, by the decoder, in per cent
    pools: Mapping[str, Any] | None = None  # of methods that keep pools
    diagnostics: list[dict[str, Any]] = field(default_factory=list)  # of run --diagnose
    weights: Mapping[str, str] = field(default_factory=dict)
    certificate: Mapping[str, Any] = field(default_factory=dict)  # of older versions: none
    notes: list[str] = field(default_factory=list)
    timing: Mapping[str, float] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    samples_per_second: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the content of ``result.json``."""
        return dataclasses.asdict(self)

    def write(self, folder: str | Path) -> Path:
        """Write ``result.json`` into ``folder``, in one step, and return its path."""
        path = Path(folder) / FILE
        write_json(path, self.as_dict())
        return path


def read(path: str | Path) -> Result:
    """Return the result in a ``result.json``, or say why it is none."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no result at {path}")
    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a result of multipool run: it is no mapping")
    for part in dataclasses.fields(Result):
        needed = part.default is part.default_factory is dataclasses.MISSING
        if part.name in content and not _KINDS[part.name](content[part.name]):
            raise ValueError(f"{path} is not a result of multipool run: bad '{part.name}'")
        if needed and part.name not in content:
            raise ValueError(f"{path} is not a result of multipool run: no '{part.name}'")
    known = {f.name for f in dataclasses.fields(Result)}
    return Result(**{key: value for key, value in content.items() if key in known})


def read_each(paths: Iterable[Path]) -> list[tuple[Path, Result]]:
    """Return every result that can be read, fit to be shown; each of the others is a warning.

    A file that is damaged or from elsewhere costs its own line of a table, not the table.
    """
    found = []
    for path in paths:
        try:
            result = read(path)
        except (ValueError, OSError) as error:
            warnings.warn(f"left out: {error}", UserWarning, stacklevel=2)
            continue
        found.append((path, Result(**_shown(result.as_dict()))))
    return found


def _shown(value: Any) -> Any:  # noqa: ANN401
    """Return a value with every text in it fit to be printed."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {_shown(key): _shown(part) for key, part in value.items()}
    return [_shown(part) for part in value] if isinstance(value, list) else value


def _number(value: object) -> bool:
    return type(value) in (int, float) and -1e300 < value < 1e300  # type: ignore[operator]


def _whole(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _text(value: object) -> bool:
    return isinstance(value, str)


def _anything(value: object) -> bool:
    return True


def _maybe(kind: Kind) -> Kind:
    return lambda value: value is None or kind(value)


def _all(kind: Kind) -> Kind:
    return lambda value: isinstance(value, list) and all(map(kind, value))


def _table(kind: Kind, **named: Kind) -> Kind:
    """Return the check of a mapping: ``named`` must be there, ``kind`` holds for the others."""

    def check(value: object) -> bool:
        if not isinstance(value, dict) or not named.keys() <= value.keys():
            return False
        return all(named.get(key, kind)(part) for key, part in value.items())

    return check


_errors = _table(_number)
_options = _table(_anything)
_trace = _all(_table(_anything, samples=_whole, sizes=_all(_whole)))
_point = _table(
    _anything,
    samples=_whole,
    loss=_maybe(_number),
    entropy=_maybe(_number),
    memory=_maybe(_table(_maybe(_number))),
)
_KINDS: dict[str, Kind] = {
    "error": _maybe(_number),
    "errors": _errors,
    "complete": lambda value: isinstance(value, bool),
    "settings": _table(
        _anything,
        method=_text,
        dataset=_text,
        protocol=_text,
        options=_options,
        memory_options=_options,
    ),
    "versions": _table(_text),
    "seed": _whole,
    "samples": _whole,
    "total": _whole,
    "curve": _all(_table(_anything, samples=_whole, error=_number)),
    "changes": _all(_table(_anything, sample=_whole, domain=_text, round=_whole)),
    "rounds": _all(_table(_anything, error=_number)),
    "counts": _table(_whole),
    "memory": _maybe(
        _table(_anything, size=_whole, sizes=_all(_whole), events=_table(_whole), trace=_trace)
    ),
    "undecoded_error": _maybe(_number),
    "estimate": _maybe(_number),
    "pools": _maybe(_table(_anything, trace=_all(_table(_whole, samples=_whole, pool=_whole)))),
    "diagnostics": _all(_point),
    "weights": _table(_text),
    "certificate": _table(_anything),
    "notes": _all(_text),
    "timing": _table(_number),
    "host": _table(_anything),
    "samples_per_second": _maybe(_number),
}


def find(folder: str | Path) -> list[Path]:
    """Return every ``result.json`` under ``folder``, sorted; at least one, or say so."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder at {folder}")
    paths = sorted(folder.rglob(FILE))
    if not paths:
        raise FileNotFoundError(
            f"no {FILE} under {folder}; make one with: multipool run --out {folder}/NAME"
        )
    return paths
