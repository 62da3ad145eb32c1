"""The comparison that ``multipool demo`` shows: eight methods on one short stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from multipool.bench.report.report import report
from multipool.bench.report.summary import Row, Section, sections
from multipool.bench.report.text import gain_text, number, rough
from multipool.bench.report.verdict import over_source
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.loader import Loader
from multipool.bench.run.result import FILE, Result
from multipool.bench.run.runner import Progress, run
from multipool.data import COMMON

# The first six corruptions in the paper's order: taken as they come, not chosen.
DOMAINS = COMMON[:6]
PER_DOMAIN = 500  # images; fewer than 8 updates in a domain show nothing
PLAIN = ("source", "bn", "tent")
BEST = "tribe"  # of the published ones, over many kinds of stream: docs/compare.md
HOSTS = ("rotta", "petta", "resitta")  # of the paper
MEMORIES = ("single", "mcm")
OURS = "multipool"
INTRO = (
    "Methods on a short stream of images that the package draws itself: the source model as it is, "
    "the two simplest ways to adapt it (bn, tent), the published method that did best over many "
    "kinds of stream (tribe), the three hosts of the paper, each with its own single pool and with "
    "the paper's multi-cluster memory (mcm), and multipool, the default. "
    "A stream this short shows how the system works and what adapting is worth; it is one kind of "
    "stream, and on others the order is another: multipool compare shows many."
)

Show = Callable[[str, int, int, Progress], None]


def experiments(seed: int = 0, per_domain: int = PER_DOMAIN) -> dict[str, Experiment]:
    """Return the demo's runs by the name of their folder.

    >>> list(experiments())[:5]
    ['source', 'bn', 'tent', 'tribe', 'rotta-single']
    """
    pairs: list[tuple[str, str | None]] = [(method, None) for method in (*PLAIN, BEST)]
    pairs += [(method, memory) for method in HOSTS for memory in MEMORIES]
    pairs.append((OURS, None))
    found = {}
    for method, memory in pairs:
        name = method if memory is None else f"{method}-{memory}"
        found[name] = Experiment(
            dataset="shapes-c",
            method=method,
            memory=memory,
            domains=DOMAINS,
            limit=per_domain * len(DOMAINS),
            seed=seed,
            device="cpu",
        )
    return found


def demo(
    out: str | Path, seed: int = 0, per_domain: int = PER_DOMAIN, show: Show | None = None
) -> tuple[Section, Path]:
    """Run the demo into ``out``; return its table and the path of its page.

    ``show`` is called with a run's name, its number, the number of runs, and its progress.
    """
    if per_domain < 1:
        raise ValueError(f"images must be a whole number of at least 1, got {per_domain}")
    out = Path(out)
    loader = Loader()
    runs: list[Result] = []
    planned = experiments(seed, per_domain)
    for index, (name, experiment) in enumerate(planned.items()):

        def tell(step: Progress, name: str = name, index: int = index) -> None:
            if show is not None:
                show(name, index, len(planned), step)

        folder = out / "runs" / name
        (folder / FILE).unlink(missing_ok=True)  # of an earlier demo, which may be of other code
        runs.append(run(experiment, folder, tell, checkpoint_every=0, loader=loader))
    (section,) = sections(runs)
    section = Section(section.context, tuple(sorted(section.rows, key=_place)))
    return section, report(out, "multipool demo", INTRO)


def demo_table(section: Section) -> tuple[list[str], list[list[str]]]:
    """Return the demo's table: its columns and its rows, as text."""
    names = [domain.replace("_", "\n") for domain in section.domains]
    columns = ["method", "memory", "mean\nerror %", "against\nsource", "un-\ndecoded", *names]
    columns += ["samples\n/s", "memory\nµs/sample"]
    rows = []
    for row in section.rows:
        errors = [number(row.domain_error(domain), 1) for domain in section.domains]
        means = [number(row.mean), gain_text(over_source(section, row)), number(row.undecoded)]
        speed, cost = rough(row.speed), rough(row.memory_cost)
        rows.append([row.method, row.memory, *means, *errors, speed, cost])
    return columns, rows


def remarks(section: Section) -> Sequence[str]:
    """Return what the table says in words, good or bad."""
    by_name = {(row.method, row.memory): row for row in section.rows}
    told = []
    for method in HOSTS:
        own = by_name[(method, "single")]
        told.append(
            f"{method}: {_gap(own, section)}; "
            + "; ".join(
                f"{memory} {by_name[(method, memory)].mean - own.mean:+.1f} against its own pool"
                for memory in MEMORIES[1:]
            )
        )
    for row in section.rows:
        if row.method == OURS and row.undecoded is not None:
            told.append(f"{OURS}: {_gap(row, section)}; {row.undecoded:.1f} % before its decoder")
    return told


def _gap(row: Row, section: Section) -> str:
    (source,) = (other for other in section.rows if other.method == "source")
    gap = row.mean - source.mean
    return f"{abs(gap):.1f} points {'below' if gap < 0 else 'above'} the source model"


def _place(row: Row) -> int:
    """Return the place of a row's method in the demo; own pools stay before other memories."""
    return (*PLAIN, BEST, *HOSTS, OURS).index(row.method)
