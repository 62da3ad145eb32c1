"""Make tables and figures again: run what is missing, then set ours beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from multipool.bench.paper.case import Case, Found
from multipool.bench.paper.cell import fill
from multipool.bench.paper.diagnoses import CASE
from multipool.bench.paper.plan import cases_of, datasets_of, entries_of
from multipool.bench.paper.published import published
from multipool.bench.paper.reproduction import Reproduction, machines, write_page, write_table
from multipool.bench.paper.setting import Setting
from multipool.bench.paper.targets import TARGETS
from multipool.bench.run.experiment import Experiment
from multipool.bench.sweep import Options, Planned, sweep
from multipool.bench.sweep.ledger import Tell
from multipool.data import DATASETS, DataOptions

FIGURES = "figures"
_WAY_OUT = "--scale small needs neither data nor weights"


@dataclass(frozen=True)
class Made:
    """What a reproduction brought: reports by id, and what could not be run."""

    reports: tuple[Reproduction, ...]
    failed: Mapping[str, str] = field(default_factory=dict)  # run -> sentence


def reproduce(
    names: Sequence[str],
    setting: Setting,
    out: str | Path,
    *,
    options: Options = Options(),
    collect: bool = False,
    draw: bool = True,
    tell: Tell | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Made:
    """Run what ids need and is not in ``out`` yet, and write their tables and figures there.

    Args:
        names: ids, keys of ``TARGETS``.
        setting: scale, data, weights and seeds.
        out: folder; runs lie in ``out/runs``.
        options: how runs are carried out.
        collect: run nothing, show what is there.
        draw: make pictures, which needs matplotlib.
        tell: hears what happens to runs.
        say: hears about the rest.
    """
    out = Path(out)
    blocked = {} if collect else obstacles(names, setting, out)
    failed: Mapping[str, str] = {}
    if not collect:
        runs = missing_runs(names, setting, out, blocked)
        if runs:
            failed = sweep(runs, out, options=options, tell=tell).failed
    found = Found(out, setting)
    reports = []
    for name in names:
        looking = None if collect or setting.dataset(CASE.dataset) in blocked else say
        report = _report(name, setting, found, looking, draw)
        report = replace(report, notes=(*_gaps(name, setting, found, blocked), *report.notes))
        write_table(report, out / f"{name}.csv")
        write_page(report, out / f"{name}.md")
        reports.append(report)
    return Made(tuple(reports), failed)


def missing_runs(
    names: Sequence[str], setting: Setting, out: Path, blocked: Mapping[str, str]
) -> list[Planned]:
    """Return the runs that are not there, those of the first seed first."""
    wanted = [
        pair
        for pair in _missing(names, setting, out)
        if setting.dataset(pair[0].dataset) not in blocked
    ]
    order = {seed: place for place, seed in enumerate(setting.runs_seeds)}
    wanted.sort(key=lambda pair: order[pair[1]])
    return [Planned(case.experiment(setting, seed)) for case, seed in wanted]


def obstacles(names: Sequence[str], setting: Setting, out: Path) -> dict[str, str]:
    """Return the datasets on which work is left that cannot be done here, and why.

    Refuse if that is all of them; what is done already needs neither data nor weights.
    """
    wanted = {setting.dataset(c.dataset) for c, _ in _missing(names, setting, out)}
    looking = [name for name in names if not _seen(name, setting, out)]
    if looking:
        wanted.add(setting.dataset(CASE.dataset))
    used = {*datasets_of(names, setting), *wanted}
    found = {}
    for dataset in sorted(wanted):
        try:
            DATASETS[dataset](DataOptions(data_dir=setting.data_dir))
            if list(names) != ["fig1a"]:  # which needs no model
                _check_weights(dataset, setting)
        except (FileNotFoundError, ValueError) as error:
            found[dataset] = str(error)
    if found and len(found) == len(used):
        raise FileNotFoundError(f"{next(iter(found.values()))}; {_WAY_OUT}")
    return found


def _missing(names: Sequence[str], setting: Setting, out: Path) -> list[tuple[Case, int]]:
    return Found(out, setting).missing(cases_of(names, setting))


def _seen(name: str, setting: Setting, out: Path) -> bool:
    """Return whether an id needs no more looking at streams and memories."""
    look = TARGETS[name].look
    return look is None or all(
        len(cell.values) == len(setting.runs_seeds) for cell in look(setting, out, None).cells
    )


def _check_weights(dataset: str, setting: Setting) -> None:
    weights = setting.weights_of(dataset)
    if weights is None:
        raise FileNotFoundError(f"{dataset} needs a source model: pass --weights {dataset}=FILE")
    Experiment(dataset=dataset, method="source", weights=weights)


def _report(
    name: str,
    setting: Setting,
    found: Found,
    say: Callable[[str], None] | None,
    draw: bool,
) -> Reproduction:
    """Return one id from what is there; ``say`` None: look at nothing anew."""
    target, paper = TARGETS[name], published(name)
    entries = entries_of(name, setting)
    if target.look is not None:
        seen = target.look(setting, found.out, say)
        cells, picture = seen.cells, seen.draw
    else:
        cells = target.derive(fill(entries, found, paper), paper)
        picture = target.draw(cells) if any(cell.values for cell in cells) else None
    face = setting.face(any(entry.case.protocol == "recurring" for entry in entries))
    files = [] if picture is None or not draw else picture(found.out / FIGURES, face)
    runs = [run for case in cases_of([name], setting) for run in found.runs(case).values()]
    return Reproduction(
        name=name,
        title=paper.title,
        setting=setting,
        cells=tuple(cells),
        notes=(*paper.notes, *dict.fromkeys(note for run in runs for note in run.notes)),
        made_on=machines(runs),
        per_round=target.per_round,
        pictures=tuple(file for file in files if file.suffix == ".png"),
        face=face,
    )


def _gaps(name: str, setting: Setting, found: Found, blocked: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a reader must know about what is missing or stands in for something else."""
    told = []
    if setting.stand_in is not None:
        told.append(
            f"{setting.stand_in} is drawn by this package and its model is tiny: the difference to "
            "the paper says nothing, and the paper's number only shows what stands there."
        )
    cases = cases_of([name], setting)
    missing = found.missing(cases)
    if missing:
        total = len(cases) * len(setting.runs_seeds)
        told.append(f"{len(missing)} of {total} runs are missing; a dash stands for them.")
    used = {setting.dataset(case.dataset) for case, _ in missing}
    told += [f"Not run: {why}." for dataset, why in blocked.items() if dataset in used]
    return tuple(told)
