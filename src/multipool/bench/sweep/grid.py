"""A sweep's file: what its runs share, what varies, and the experiments that follow from it."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from multipool.bench.run.experiment import Experiment
from multipool.bench.sweep.planned import Planned
from multipool.core import brief, read_json, unknown

KEYS = ("base", "grid", "runs")
MEMORY_KEYS = ("name", "label", "options")
SET = "set"  # hyperparameters, as with run's --set
_LONGEST = 600  # characters of what is wrong with a run
_MOST_RUNS, _MOST_PARTS = 100_000, 100_000  # more is a mistake, or meant to do harm
_HIDDEN = ("options", "memory_options")  # what --set fills
OPTIONS = (*(f.name for f in dataclasses.fields(Experiment) if f.name not in _HIDDEN), SET)


def read(path: str | Path) -> list[Planned]:
    """Return the runs that a YAML or JSON file asks for, each of them checked."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no sweep file at {path}")
    content = read_json(path) if path.suffix == ".json" else _yaml(path)
    _check_plain(content, path)
    if not isinstance(content, Mapping):
        raise ValueError(f"{path} must hold {', '.join(KEYS)}, got {_kind(content)}")
    try:
        return expand(content)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: {brief(error, _LONGEST)}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {brief(error, _LONGEST)}") from None


def expand(content: Mapping[str, Any]) -> list[Planned]:
    """Return the runs that a sweep's content asks for; of equal ones, the first.

    >>> [run.experiment.seed for run in expand({"grid": {"seed": [0, 1]}})]
    [0, 1]
    """
    for key in content:
        if key not in KEYS:
            raise unknown("part of a sweep file", key, KEYS)
    base = _base(content.get("base"))
    chosen = [{**base, **_joined(base, picked)} for picked in _choices(content)]
    if not chosen:
        raise ValueError("a sweep needs a 'grid' of options or a list of 'runs', got neither")
    found: dict[str, Planned] = {}
    for values in chosen:
        run = _planned(values)
        found.setdefault(run.name, run)
    return list(found.values())


def _choices(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what each run sets on top of the base."""
    grid = _mapping(content.get("grid"), "grid")
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"grid: {key} must be a list of values, got {values!r}")
    if grid:
        yield from _product({_option(key, "grid"): values for key, values in grid.items()})
    runs = content.get("runs")
    if runs is not None and not isinstance(runs, list):
        raise ValueError(f"runs must be a list of mappings, got {_kind(runs)}")
    for number, entry in enumerate(runs or [], 1):
        where = f"runs, entry {number}"
        options = {_option(k, where): v for k, v in _mapping(entry, where).items()}
        yield from _product({key: _as_list(key, value) for key, value in options.items()})


def _product(options: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    total = math.prod(len(values) for values in options.values())
    if total > _MOST_RUNS:
        raise ValueError(f"a sweep has at most {_MOST_RUNS:,} runs, this grid has {total:,}")
    for values in itertools.product(*options.values()):
        yield dict(zip(options, values, strict=True))


def _as_list(key: str, value: object) -> list[Any]:
    """Return the values of an option of ``runs``: a list is several, but domains are one list."""
    if not isinstance(value, list):
        return [value]
    several = key != "domains" or any(isinstance(part, list) for part in value)
    return value if several else [value]


def _base(content: object) -> dict[str, Any]:
    base = {_option(k, "base"): v for k, v in _mapping(content, "base").items()}
    for key, value in base.items():
        if isinstance(value, list) and key != "domains":
            raise ValueError(f"base: {key} must be one value, got {value!r}; lists belong to grid")
    return _joined({}, base)


def _joined(base: Mapping[str, Any], picked: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``picked`` with every hyperparameter under one ``set``, on top of the base's."""
    plain = {key: value for key, value in picked.items() if not key.startswith(SET)}
    settings = dict(base.get(SET, {}))
    settings.update(_mapping(picked.get(SET), SET))
    dotted = f"{SET}."
    settings.update({k.removeprefix(dotted): v for k, v in picked.items() if k.startswith(dotted)})
    return {**plain, SET: settings}


def _option(key: object, where: str) -> str:
    """Return the name of an option as ``run`` knows it; dashes and underscores are the same."""
    name = str(key).replace("-", "_").lstrip("_")
    if name not in OPTIONS and not re.fullmatch(rf"{SET}\.[\w.]+", name):
        raise ValueError(f"{where}: {unknown('option', str(key), [*OPTIONS, f'{SET}.KEY'])}")
    return name


def _planned(values: Mapping[str, Any]) -> Planned:
    """Return one checked run, or say which one is wrong and how."""
    values = dict(values)
    method_options, memory_options = _split(values.pop(SET))
    name, label, own = _memory(values.pop("memory", None))
    if isinstance(values.get("domains"), str):
        values["domains"] = [part.strip() for part in values["domains"].split(",")]
    settings = {
        **values,
        "memory": name,
        "options": method_options,
        "memory_options": {**memory_options, **own},
    }
    told = ", ".join(f"{k} {v}" for k, v in settings.items() if v not in (None, {}))
    try:
        return Planned(Experiment.from_settings(settings), label)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"the run with {told}: {error}") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"the run with {told}: {error}") from None


def _memory(value: object) -> tuple[str | None, str, dict[str, Any]]:
    """Return name, label and options of a memory given by name or as a mapping."""
    if value is None or isinstance(value, str):
        return value, "", {}
    memory = _mapping(value, "memory")
    for key in memory:
        if key not in MEMORY_KEYS:
            raise unknown("key of a memory", key, MEMORY_KEYS)
    if not isinstance(memory.get("name"), str):
        raise ValueError(f"a memory needs a name, got {value!r}")
    options = {
        k.replace("-", "_"): v for k, v in _mapping(memory.get("options"), "options").items()
    }
    return memory["name"], str(memory.get("label", "")), options


def _split(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of the method and of the memory, as ``run --set`` tells them apart."""
    method: dict[str, Any] = {}
    memory: dict[str, Any] = {}
    for key, value in settings.items():
        owner, dot, name = key.replace("-", "_").partition(".")
        if dot and owner != "memory":
            raise ValueError(f"set takes KEY or memory.KEY, got '{key}'")
        (memory if dot else method)[name if dot else owner] = value
    return method, memory


def _mapping(value: object, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} must be a mapping of names to values, got {_kind(value)}")
    return {str(key): part for key, part in value.items()}


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _check_plain(content: object, path: Path) -> None:
    """Refuse what JSON has no word for, and aliases that unfold without end."""
    waiting, parts = [content], 0
    while waiting:
        value = waiting.pop()
        parts += 1
        if parts > _MOST_PARTS:
            raise ValueError(f"{path} unfolds to more than {_MOST_PARTS:,} values")
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
        elif not isinstance(value, str | int | float | None):
            raise ValueError(f"{path} holds a {type(value).__name__}: {brief(value)}; quote it")
        elif isinstance(value, float) and math.isnan(value):
            raise ValueError(f"{path} holds NaN, which is no setting")


def _yaml(path: Path) -> object:
    try:
        import yaml
    except ModuleNotFoundError:
        raise ValueError(
            f"{path} is read with PyYAML, which is missing; use a .json file"
        ) from None

    class Loader(yaml.SafeLoader):
        """YAML 1.1 takes 1e-3 for a word; everybody else takes it for a number."""

        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            """Put in what ``<<`` refers to, unless that unfolds without end."""
            super().flatten_mapping(node)
            if len(node.value) > _MOST_PARTS // 10:
                raise yaml.YAMLError("its merges unfold to too many values")

    first: Iterable[str] = "-+.0123456789"
    pattern = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", pattern, list(first))
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader)  # noqa: S506
    except Exception as error:  # tags make the reader raise nearly anything
        said = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path} is not readable as YAML: {brief(said)}") from None
