"""One self-contained page about all the runs in a folder."""

from __future__ import annotations

from html import escape
from importlib.metadata import version
from pathlib import Path

from multipool.bench.report import page
from multipool.bench.report.diagnose_figures import live_pictures
from multipool.bench.report.figures import INK, RULE, Picture, pictures
from multipool.bench.report.pools import pool_pictures, pool_table
from multipool.bench.report.summary import CONTEXT, NO_MEMORY, Row, Section, sections
from multipool.bench.report.text import gain_text, number, rough
from multipool.bench.report.verdict import over_source, verdict
from multipool.bench.run.rerun import command
from multipool.bench.run.result import Result, find, read_each
from multipool.core import write_text

FILE = "report.html"
_CAPTIONS = {
    "errors": "Mean over domains; bars: one standard deviation over seeds, where there are some.",
    "curves": "Each point is the error over the last stretch of the stream; vertical lines mark "
    "where a new domain begins. The method is not told.",
    "memory": "Samples held by each cluster, the oldest cluster at the bottom; a single pool is "
    "one cluster. Of multipool, the bank of its first pool. First seed.",
    "pools": "Above the domains that the stream showed, below the pool that the method took it for "
    "(of the last image in each batch). The method is not told where a domain begins. A pool that "
    "was let go leaves its number to the next one.",
    "diagnostics": "Of the runs with --diagnose, first seed. The memory is measured against a "
    "mixture of 20 Gaussians fitted to the stream so far: imbalance is the fullest component over "
    "the emptiest that is not empty, coverage the share of components with more than 1 %.",
}


def report(folder: str | Path, title: str | None = None, intro: str = "") -> Path:
    """Write ``report.html`` and its figures into ``folder`` from every result under it.

    Figures also go to ``folder/figures`` as PNG, SVG and CSV. Returns the path of the page.
    """
    folder = Path(folder)
    paths = find(folder)
    runs = [run for _, run in read_each(paths)]
    found = sections(runs)
    if not found:
        raise ValueError(f"no run under {folder} is complete; finish one with --resume")
    body = [f"<h1>{escape(title or 'Runs in ' + folder.resolve().name)}</h1>"]
    body.append(f"<p>{escape(intro)}</p>" if intro else "")
    body.append(_reading(runs, found, len(paths) - len(runs)))
    for place, section in enumerate(found, 1):
        prefix = "" if len(found) == 1 else f"{place}-"
        drawn = pictures(section, folder / "figures", prefix)
        drawn += live_pictures(section, folder / "figures", prefix)
        drawn += pool_pictures(section, folder / "figures", prefix)
        body += _section(section, {d.name.removeprefix(prefix): d for d in drawn})
    body.append(_colophon(runs))
    path = folder / FILE
    write_text(path, page.page(title or "multipool report", "\n".join(body)))
    return path


def _reading(runs: list[Result], found: list[Section], unreadable: int) -> str:
    """Return how to read the page, and what is missing from it."""
    told = ["Error is the share of wrong predictions in per cent, averaged over domains; lower is "]
    told.append("better. Every prediction is made before the method learns from that image. ")
    if all(len(row.runs) == 1 for section in found for row in section.rows):
        told.append("There is one seed of each run, so no spread can be given: ")
        told.append("a difference of less than about a point may be chance. ")
    open_runs = sum(not run.complete for run in runs)
    if open_runs:
        told.append(f"{open_runs} interrupted run{'s are' if open_runs > 1 else ' is'} left out. ")
    if unreadable:
        many = f"{unreadable} files that are" if unreadable > 1 else "One file that is"
        told.append(f"{many} damaged or no result of multipool left out. ")
    return f'<p class="soft">{"".join(told).strip()}</p>'


def _section(section: Section, drawn: dict[str, Picture]) -> list[str]:
    context = section.context
    body = [f"<h2>{escape(context['dataset'])}, {escape(context['protocol'])}</h2>"]
    body += ["<h3>Summary</h3>", f"<p>{escape(verdict(section.rows))}</p>"]
    body += [_summary(section), _figure(drawn["errors"])]
    body += ["<h3>Error by domain</h3>", _heat(section)]
    if "curves" in drawn:
        body += ["<h3>Error over time</h3>", _figure(drawn["curves"])]
    if any(row.runs[0].memory is not None for row in section.rows):
        body += ["<h3>Memory</h3>", _memory(section)]
    if "memory" in drawn:
        body.append(_figure(drawn["memory"]))
    pools = pool_table(section)
    if pools:
        body += ["<h3>Pools</h3>", pools]
        body += [_figure(drawn[name]) for name in drawn if name.split("-")[-1] == "pools"]
    if "diagnostics" in drawn:
        body += ["<h3>Diagnostics</h3>", _figure(drawn["diagnostics"])]
    body += ["<h3>Settings</h3>", _settings(section)]
    again = [command(run.settings) for row in section.rows for run in row.runs]
    body += ["<h3>How to run it again</h3>", page.code(again)]
    return body


def _summary(section: Section) -> str:
    titles = [
        "error %",
        "std",
        *_undecoded_title(section),
        "against source",
        "against single",
        "samples/s",
        "memory µs/sample",
        "updates",
    ]
    head = [page.head("memory", word=True)]
    head += [page.head(title) for title in [*titles, "skipped", "restored", "seeds"]]
    cells = [_summary_cells(section, row) for row in section.rows]
    # A column without a number only pushes the others off the screen.
    kept = [i for i in range(len(head)) if any(row[i] != page.cell("–") for row in cells)]
    least = min(row.mean for row in section.rows)
    rows = [
        page.row(
            f"{row.method} ({row.variant})" if row.variant else row.method,
            [found[i] for i in kept],
            best=row.mean == least,
        )
        for row, found in zip(section.rows, cells, strict=True)
    ]
    return page.table([page.head("method", word=True), *(head[i] for i in kept)], rows)


def _summary_cells(section: Section, row: Row) -> list[str]:
    cells = [page.cell(row.memory, "word"), page.cell(f"{row.mean:.2f}")]
    cells.append(page.cell(number(row.std)))
    if _undecoded_title(section):
        cells.append(page.cell(number(row.undecoded)))
    for gain in (over_source(section, row), section.gain(row)):
        better = gain is not None and gain.difference < 0
        cells.append(page.cell(gain_text(gain), "better" if better else ""))
    cells += [page.cell(rough(row.speed)), page.cell(rough(row.memory_cost))]
    for count in ("updates", "skipped", "restored"):
        cells.append(page.cell(str(sum(run.counts.get(count, 0) for run in row.runs))))
    cells.append(page.cell(str(len(row.runs))))
    return cells


def _undecoded_title(section: Section) -> list[str]:
    """Return the column of errors before the decoder, where one ran."""
    return ["undecoded %"] if any(row.undecoded is not None for row in section.rows) else []


def _heat(section: Section) -> str:
    """Return the heat map as a table: the numbers stand in the cells, colour only helps."""
    values = [e for r in section.rows for d in section.domains if (e := r.domain_error(d))]
    low, high = min(values, default=0.0), max(values, default=1.0)
    tilted = [f'<div class="tilt">{escape(d.replace("_", " "))}</div>' for d in section.domains]
    head = ["<th></th>"] + [f'<th scope="col">{name}</th>' for name in tilted]
    rows = []
    for row in section.rows:
        cells = []
        for domain in section.domains:
            error = row.domain_error(domain)
            share = 0.0 if error is None else (error - low) / max(high - low, 1e-9)
            cells.append(page.cell(number(error, 1), style=shade(share)))
        rows.append(page.row(row.label, cells))
    return page.table(head, rows, "heat")


def shade(share: float) -> str:
    """Return the colours of a heat map's cell: pale for 0 to dark blue for 1, also in grey.

    >>> shade(0.0), shade(1.0)
    ('background:#f4ecd0;color:#111', 'background:#0a2a5e;color:#fff')
    """
    stops = ((244, 236, 208), (146, 170, 176), (10, 42, 94))
    share = min(1.0, max(0.0, share)) * 2
    first, second = (stops[0], stops[1]) if share <= 1 else (stops[1], stops[2])
    part = share if share <= 1 else share - 1
    mixed = [round(a + (b - a) * part) for a, b in zip(first, second, strict=True)]
    ink = "#fff" if share > 1.3 else "#111"
    return f"background:#{mixed[0]:02x}{mixed[1]:02x}{mixed[2]:02x};color:{ink}"


def _memory(section: Section) -> str:
    rows = [row for row in section.rows if row.memory != NO_MEMORY]
    facts = [row.runs[0].memory or {} for row in rows]
    events = list(dict.fromkeys(name for fact in facts for name in fact.get("events", {})))
    titles = ["samples held", "clusters", "sizes at the end", *events]
    head = [page.head("", word=True), *(page.head(title) for title in titles)]
    made = []
    for row, fact in zip(rows, facts, strict=True):
        sizes = fact.get("sizes", [])
        cells = [page.cell(str(fact.get("size", ""))), page.cell(str(len(sizes)))]
        cells.append(page.cell(" ".join(str(size) for size in sizes)))
        told = fact.get("events", {})
        cells += [page.cell(str(told[name]) if name in told else "–") for name in events]
        made.append(page.row(row.label, cells))
    return page.table(head, made)


def _settings(section: Section) -> str:
    run = section.rows[0].runs[0]
    names = [key for key in CONTEXT if section.context.get(key) is not None]
    pairs = [(key.replace("_", " "), _plain(section.context[key])) for key in names]
    pairs.append(("weights' digest", _plain(section.context.get("weights' digest"))))
    pairs.append(("samples", str(run.samples)))
    pairs.append(("machine", _plain(run.host.get("gpu") or run.host.get("system"))))
    pairs.append(("versions", ", ".join(f"{k} {v}" for k, v in run.versions.items())))
    notes = dict.fromkeys(n for row in section.rows for run in row.runs for n in run.notes)
    pairs += [("note", note) for note in notes]
    return page.facts([*pairs, *_hyperparameters(section)])


def _hyperparameters(section: Section) -> list[tuple[str, str]]:
    """Return the options of each method and memory; once, where rows share them."""
    told: dict[tuple[str, str], None] = {}
    for row in section.rows:
        settings = row.runs[0].settings
        name = f"{row.method} ({row.variant})" if row.variant else row.method
        for owner, options in (
            (name, settings["options"]),
            (row.label, settings["memory_options"]),
        ):
            text = ", ".join(f"{key} {_plain(value)}" for key, value in options.items())
            if text:
                told[(owner, text)] = None
    return list(told)


def _figure(picture: Picture) -> str:
    svg = picture.svg.replace(INK, "currentColor").replace(RULE, "var(--rule)")
    # Inline pictures share the page's name space: keep the names inside them apart.
    for mark in ('id="', "url(#", 'href="#'):
        svg = svg.replace(mark, f"{mark}{picture.name}-")
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(picture.title)}" ', 1)
    links = ", ".join(
        f'<a href="figures/{escape(path.name)}">{path.suffix[1:].upper()}</a>'
        for path in picture.files
    )
    kind = picture.name.split("-")[-1]
    caption = _CAPTIONS.get(kind, "")
    size = "" if kind == "errors" else ' class="large"'
    return (
        f'<figure{size}><div class="wide">{svg}</div>'
        f"<figcaption>{escape(caption)} As a file: {links}.</figcaption></figure>"
    )


def _colophon(runs: list[Result]) -> str:
    plural = "s" if len(runs) != 1 else ""
    return (
        f'<p class="soft">Made by multipool {escape(version("multipool"))} from '
        f"{len(runs)} run{plural}; the page needs no network.</p>"
    )


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(part) for part in value)
    return "–" if value is None else str(value)
