"""Readers of text with a structure: sweep files, results."""

import json
from pathlib import Path

from reader import Reader

from multipool.bench.report.summary import sections
from multipool.bench.run import result as results
from multipool.bench.run.rerun import command
from multipool.bench.sweep import grid

GOOD_SWEEP = {
    "base": {"dataset": "shapes-c", "limit": 150, "set": {"lr": 0.001}},
    "grid": {
        "method": ["rotta"],
        "memory": ["single", {"name": "mcm", "options": {"capacity": 9}}],
    },
    "runs": [{"method": "tent", "seed": [0, 1], "set": {}}],
}
YAML = """\
base: {dataset: shapes-c, limit: 150, protocol: ptta}
grid:
  method: [rotta, petta]
  memory: [single, {name: mcm, label: nine, options: {capacity: 9}}]
  seed: [0, 1]
runs:
  - {method: source, set: {}}
  - method: tent
    set.lr: 1e-3
"""


def _make_sweep(folder: Path, ending: str) -> Path:
    path = folder / f"sweep.{ending}"
    path.write_text(json.dumps(GOOD_SWEEP) if ending == "json" else YAML)
    return path


def _read_sweep(path: Path) -> object:
    return [[run.name, run.label, run.settings] for run in grid.read(path)]


def _sound_sweep(value: object) -> None:
    assert value
    for name, label, settings in value:
        assert isinstance(label, str)
        assert "/" not in name
        assert json.loads(json.dumps(settings)) == settings


def yaml_specials(data: bytes) -> list[bytes]:
    """Alias bombs, tags that make objects, grids without end, values of the wrong kind."""
    bomb = ["a: &a0 [x, x, x, x, x, x, x, x, x]"]
    bomb += [f"b{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 12)]
    merge = ["a0: &m0 {x: 1}"]
    merge += [f"a{k}: &m{k} {{<<: [{', '.join([f'*m{k - 1}'] * 9)}]}}" for k in range(1, 9)]
    wide = "\n".join(f"  {key}: [{', '.join(map(str, range(1, 400)))}]" for key in _NUMBERS)
    grids = [f"grid:\n{wide}\n", "grid: {seed: &s [*s]}", "&a [*a]", "base: &b {set: *b}"]
    grids += ["\n".join(bomb) + "\ngrid: {seed: *a11}", "\n".join(merge) + "\nbase: *m8\n"]
    grids += ["\n".join(bomb).replace("a: &", "grid: &", 1)]
    tags = ("!!python/object/apply:os.system ['touch executed']", "!!python/name:os.system")
    tags += ("!!binary aGVsbG8=", "!!set {a, b}", "!!timestamp 2001-01-01", "2001-01-01", "0x1_0")
    tags += ("!!int x", "!!float x", "!!binary x", "? [a]\n: b", "!!omap [a: 1]", "1e999", ".nan")
    tags += ("190:20:30", "1_000", "~", "[]", "{}", "[[]]", "'\\0'", "9" * 5000, "-1", "true")
    keys = ("method", "seed", "memory", "limit", "gamma", "domains", "set", "rounds", "device")
    keys += (
        "severity",
        "batch-size",
        "guard",
        "precision",
        "data_dir",
        "weights",
        "model",
        "source",
    )
    found = [
        *grids,
        *tags,
        *(f"base: {{{key}: {tag}}}\ngrid: {{seed: [0]}}" for key in keys for tag in tags),
    ]
    found += [f"grid: {{{key}: [{tag}]}}" for key in keys for tag in tags]
    found += [
        "",
        "\t",
        "a: b: c",
        "%TAG",
        "---\n---\n",
        "[" * 20_000,
        "{a: " * 20_000,
        "- " * 20_000,
    ]
    return [text.encode() for text in found] + [b"\xff\xfe", b"\x00", YAML.encode("utf-16")]


_NUMBERS = ("seed", "limit", "rounds", "batch_size", "severity", "gamma", "reset_every")


def json_specials(data: bytes) -> list[bytes]:
    values = (
        "null",
        "[]",
        "{}",
        "-1",
        "1e999",
        "NaN",
        '"x"',
        "true",
        "[[1]]",
        '{"a": 1}',
        "9" * 5000,
    )
    content = json.loads(data)
    keys = [json.dumps(key) for key in content]
    found = [f"{{{key}: {value}}}".encode() for key in keys for value in values]
    for key in keys:  # the whole file with one value exchanged
        for value in values:
            marked = json.dumps({**content, json.loads(key): "@@@"})
            found.append(marked.replace('"@@@"', value).encode())
    found += [value.encode() for value in values]
    return [
        *found,
        b"",
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"\xff",
        data.decode().encode("utf-16"),
    ]


def _make_result(folder: Path) -> Path:
    settings = {
        "method": "rotta",
        "dataset": "shapes-c",
        "seed": 1,
        "memory": "mcm",
        "guard": False,
    }
    return results.Result(
        error=41.5, errors={"fog": 40.0, "snow": 43.0}, complete=True,
        settings={**results_settings(), **settings}, versions={"multipool": "0.1.0"}, seed=1,
        samples=640, total=640, curve=[{"samples": 640, "error": 41.5}],
        changes=[{"sample": 0, "domain": "fog", "round": 0}], counts={"updates": 10},
        memory={"size": 9, "sizes": [9], "events": {"added": 640}, "trace": []},
        timing={"stream": 1.5, "load": 0.5}, host={"device": "cpu"}, samples_per_second=426.7,
    ).write(folder / "run")  # fmt: skip


def results_settings() -> dict[str, object]:
    from multipool.bench.run.experiment import Experiment

    return dict(Experiment(method="rotta", memory="mcm").settings())


def _read_result(path: Path) -> object:
    """Read it, and group it as a report does: what is accepted must be good enough for that."""
    found = results.read(path)
    assert all(row.label and row.mean < 1e300 for part in sections([found]) for row in part.rows)
    assert command(found.settings).startswith("multipool run --dataset ")
    return found.as_dict()


def _sound_result(value: object) -> None:
    assert value["error"] is None or isinstance(value["error"], (int, float))
    assert isinstance(value["complete"], bool)
    assert all(isinstance(v, (int, float)) for v in value["errors"].values())


TEXT_READERS = {
    "a sweep, YAML": Reader(
        lambda folder: _make_sweep(folder, "yaml"), _read_sweep, _sound_sweep, yaml_specials
    ),
    "a sweep, JSON": Reader(
        lambda folder: _make_sweep(folder, "json"), _read_sweep, _sound_sweep, json_specials
    ),
    "a result": Reader(_make_result, _read_result, _sound_result, json_specials),
}  # fmt: skip
