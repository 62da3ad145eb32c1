"""Compare methods on kinds of stream: plan the runs, do them as a sweep, write table and page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from multipool.bench.compare.entrant import Entrant
from multipool.bench.compare.judge import DECODE, Judgement, judge
from multipool.bench.compare.kind import Kind
from multipool.bench.compare.page import write_page
from multipool.bench.compare.rows import Row, row_of, write_rows
from multipool.bench.compare.scales import SCALES, choose
from multipool.bench.run.experiment import Experiment
from multipool.bench.sweep import Options, Planned, sweep
from multipool.bench.sweep.drive import Backend
from multipool.bench.sweep.ledger import Tell
from multipool.bench.sweep.planned import finished
from multipool.core import lookup


@dataclass(frozen=True)
class Setting:
    """What is compared. None: what ``scale`` says.

    ``methods`` are words METHOD[+MEMORY][:OPTION=VALUE...], ``kinds`` names of kinds or patterns
    of DATASET/MODEL/NAME. ``weights_dir`` is the folder of the files of weights that the kinds
    name. ``decode`` says which tables are wanted: with the sequence decoder, without, or both.
    """

    scale: str = "small"
    methods: Sequence[str] | None = None
    kinds: Sequence[str] | None = None
    seeds: Sequence[int] | None = None
    data_dir: str | None = None
    weights_dir: str | None = None
    device: str = "auto"
    decode: str = "both"

    def __post_init__(self) -> None:
        lookup(SCALES, self.scale, "scale")
        lookup(DECODE, self.decode, "choice of decode")
        for name in ("methods", "kinds", "seeds"):
            given = getattr(self, name)
            if given is not None and (not given or len(set(given)) != len(given)):
                raise ValueError(f"{name} must be different, at least one, got {list(given)}")

    @property
    def columns(self) -> list[Kind]:
        """Return the kinds of stream."""
        known = SCALES[self.scale].kinds
        return list(known) if self.kinds is None else choose(known, self.kinds)

    @property
    def entrants(self) -> list[Entrant]:
        """Return the methods with their memories and options."""
        return [Entrant.parse(word) for word in self.methods or SCALES[self.scale].methods]

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Return the seeds of every run."""
        return tuple(self.seeds or SCALES[self.scale].seeds)


@dataclass(frozen=True)
class Case:
    """One run of the comparison, and where it stands in the table."""

    kind: Kind
    entrant: Entrant
    planned: Planned


@dataclass(frozen=True)
class Comparison:
    """What came out; ``judgements`` are the tables asked for, as far as there are runs."""

    rows: Sequence[Row]
    judgements: Sequence[Judgement]
    table: Path
    page: Path
    failed: Mapping[str, str]  # name of a run -> what went wrong


def cases(setting: Setting) -> list[Case]:
    """Return every run of a comparison, each of them checked."""
    found = []
    for kind in setting.columns:
        for entrant in setting.entrants:
            for seed in setting.all_seeds:
                planned = Planned(_experiment(setting, kind, entrant, seed))
                found.append(Case(kind, entrant, planned))
    return found


def compare(
    out: str | Path,
    setting: Setting = Setting(),
    *,
    backend: str | Backend = "local",
    options: Options = Options(),
    tell: Tell | None = None,
) -> Comparison:
    """Do every run that is not done in ``out``; write ``compare.csv`` and ``compare.html`` there.

    A failed run does not stop the others: its cell stays empty. Interrupted, the same call goes on
    from where it stopped. Needs none of the command line's packages.
    """
    out = Path(out)
    planned = cases(setting)
    ended = sweep(
        list({case.planned.name: case.planned for case in planned}.values()),
        out,
        backend=backend,
        options=options,
        tell=tell,
    )
    made = [(case, finished(case.planned, case.planned.folder(out))) for case in planned]
    rows = [row_of(case.kind, case.entrant, run) for case, run in made if run is not None]
    if not rows:
        raise ValueError(f"no run ended well, the first so: {next(iter(ended.failed.values()))}")
    written = write_tables(rows, out, setting)
    return replace(written, failed=ended.failed)


def write_tables(rows: Sequence[Row], out: str | Path, setting: Setting) -> Comparison:
    """Write ``compare.csv`` and ``compare.html`` of runs made before, wherever that was."""
    out = Path(out)
    found = [judge(rows, decoded) for decoded in DECODE[setting.decode]]
    judgements = [judgement for judgement in found if judgement is not None]
    if not judgements:
        raise ValueError(f"no run was made with decode {setting.decode}, so there is no table")
    kinds = {kind.column: kind for kind in SCALES[setting.scale].kinds}
    table = write_rows(rows, out)
    return Comparison(rows, judgements, table, write_page(rows, judgements, kinds, out), {})


def _experiment(setting: Setting, kind: Kind, entrant: Entrant, seed: int) -> Experiment:
    made = kind.experiment(
        entrant,
        seed,
        data_dir=setting.data_dir,
        weights_dir=setting.weights_dir,
        device=setting.device,
    )
    return replace(made, decode="none" if setting.decode == "none" else "sequence")
