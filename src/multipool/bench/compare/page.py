"""``compare.html``: the comparison as one page that needs nothing but itself."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from multipool.bench.compare.drawings import heat, strip
from multipool.bench.compare.judge import Judgement, speeds
from multipool.bench.compare.kind import Kind
from multipool.bench.compare.rows import FILE as TABLE
from multipool.bench.compare.rows import Row, scores
from multipool.bench.report import page
from multipool.bench.report.text import number
from multipool.bench.run.environment import versions
from multipool.core import write_text

FILE = "compare.html"
_STYLE = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
_READING = (
    "A cell is a regret: the error of a method minus that of the best method on the same stream, "
    "in points; 0 is the best there is, and seeds are averaged first. A method that is good "
    "everywhere has small regrets in its whole row, so its mean and its worst regret say what "
    "choosing it costs somebody who does not know the stream beforehand."
)
_KEY = (
    '<p class="key"><i class="top"></i>best of its column<i class="under"></i>worse than the '
    "source model; darker: more regret. The error itself shows when the pointer rests on a cell."
    "</p>"
)
_SPEED = (
    '<p class="key">Speed is images a second beside those of the source model: the median over '
    "columns.</p>"
)
_APART = (
    "LAME corrects its outputs by their neighbours, as the decoder does. Without the decoder it is "
    "listed, but no other method is measured by it, so its regret may be below 0."
)


def write_page(
    rows: Sequence[Row],
    judgements: Sequence[Judgement],
    kinds: Mapping[str, Kind],
    out: Path,
) -> Path:
    """Write ``compare.html`` into ``out`` and return its path; ``kinds`` go by their columns."""
    seeds = sorted({row.seed for row in rows})
    body = ["<h1>Which method for which stream</h1>", _answer(judgements), _summary(rows, seeds)]
    speed = speeds(rows)
    for judgement in judgements:
        body += _section(judgement, rows, speed)
    body += ["<h2>The kinds of stream</h2>", _kinds(rows, kinds), _colophon(rows)]
    path = out / FILE
    write_text(path, page.page("multipool compare", "\n".join(body), _STYLE))
    return path


def _answer(judgements: Sequence[Judgement]) -> str:
    told = []
    for judgement in judgements:
        use, _, rest = escape(judgement.conclusion).partition(":")
        sentence = f"<b>{use}</b>:{rest}" if rest else use
        told.append(f"<p>{escape(judgement.title)}: {sentence}</p>")
    return f'<div class="answer">{"".join(told)}</div>'


def _summary(rows: Sequence[Row], seeds: Sequence[int]) -> str:
    columns, methods = {row.column for row in rows}, {row.label for row in rows}
    told = f"{len(methods)} methods on {len(columns)} kinds of stream, "
    told += f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}. {_READING}"
    if len(seeds) == 1:
        told += " With one seed, a difference of less than about a point may be chance."
    missing = len(columns) * len(methods) * len(seeds) - len(rows)
    if missing:
        told += f" {missing} run{'s are' if missing > 1 else ' is'} missing: a cell is the mean of "
        told += "the seeds that it has, and empty if it has none."
    return f'<p class="soft">{escape(told)}</p>'


def _section(judgement: Judgement, rows: Sequence[Row], speed: Mapping[str, float]) -> list[str]:
    body = [f"<h2>{escape(judgement.title)}</h2>"]
    if judgement.apart:
        body.append(f'<p class="soft">{_APART}</p>')
    body += [
        "<h3>Regret on every kind of stream</h3>",
        f'<div class="bleed">{heat(judgement)}</div>',
        _KEY,
    ]
    body += ["<h3>Mean and worst</h3>", strip(judgement), _standings(judgement, speed), _SPEED]
    body.append(f"<details><summary>Errors in per cent</summary>{_errors(judgement, rows)}")
    return [*body, "</details>"]


def _standings(judgement: Judgement, speed: Mapping[str, float]) -> str:
    most = max(standing.columns for standing in judgement.standings)
    titles = ("mean regret", "worst regret", "worse than source", "by at most")
    head = [page.head("method", word=True), *(page.head(title) for title in titles[:2])]
    head += [page.head("worst on", word=True), *(page.head(title) for title in titles[2:])]
    head.append(page.head("speed"))
    made = []
    for index, standing in enumerate(judgement.standings):
        cells = [page.cell(number(standing.mean)), page.cell(number(standing.worst))]
        cells.append(page.cell(judgement.names[standing.worst_column], "word"))
        worse = "–" if standing.worse is None else f"{standing.worse} of {standing.columns}"
        cells.append(page.cell(worse))
        excess = standing.excess if standing.worse else None
        cells += [page.cell(number(excess)), page.cell(number(speed.get(standing.row)))]
        missing = f" ({standing.columns} columns)" if standing.columns < most else ""
        made.append(page.row(f"{standing.row}{missing}", cells, best=index == 0))
    return page.table(head, made)


def _errors(judgement: Judgement, rows: Sequence[Row]) -> str:
    """Return the errors behind the regrets: the mean, and the spread where there are seeds."""
    by_cell: dict[tuple[str, str], list[float]] = {}
    for score in scores(rows, judgement.decoded):
        by_cell.setdefault((score.column, score.row), []).append(score.error)
    names = [standing.row for standing in judgement.standings]
    made = []
    for column, errors in judgement.errors.items():
        cells = []
        for name in names:
            found = by_cell.get((column, name), [])
            spread = f" ± {statistics.stdev(found):.2f}" if len(found) > 1 else ""
            cells.append(page.cell(f"{errors[name]:.2f}{spread}" if found else "–"))
        made.append(page.row(judgement.names[column], cells))
    return page.table([page.head("", word=True), *map(page.head, names)], made)


def _kinds(rows: Sequence[Row], kinds: Mapping[str, Kind]) -> str:
    columns = dict.fromkeys(row.column for row in rows)
    made = []
    for column in columns:
        kind = kinds.get(column)
        told = "of another scale" if kind is None else kind.describe()
        images = "–" if kind is None else f"{kind.images:,}"
        made.append(page.row(column, [page.cell(told, "word"), page.cell(images)]))
    head = [page.head("column", word=True), page.head("stream", word=True), page.head("images")]
    return page.table(head, made)


def _colophon(rows: Sequence[Row]) -> str:
    return (
        f'<p class="soft">Made by multipool {escape(versions()["multipool"])} from {len(rows)} '
        f'runs, all of them in <a href="{TABLE}">{TABLE}</a>; the page needs no network.</p>'
    )
