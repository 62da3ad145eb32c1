"""The frame of a report: one HTML page that needs nothing but itself."""

from __future__ import annotations

from html import escape

_STYLE = """
:root { --paper: #ffffff; --ink: #1b1f24; --soft: #57606a; --rule: #d0d7de; --band: #f3f5f7;
  --best: #0b5cad; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e6e8ea; --soft: #a4adb6;
  --rule: #3a424a; --band: #1f2429; --best: #7cc0ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 1.5rem 1rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; } h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem;
  padding-top: 1rem; border-top: 2px solid var(--rule); } h3 { font-size: 1.05rem;
  margin: 1.75rem 0 .5rem; } p { margin: .5rem 0; max-width: 46rem; } .soft { color: var(--soft); }
.wide { overflow-x: auto; -webkit-overflow-scrolling: touch; margin: .5rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .3rem .6rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--rule); } thead th { border-bottom: 2px solid var(--rule);
  vertical-align: bottom; } th[scope=row], th.word, td.word { text-align: left; }
th[scope=row] { font-weight: 500; position: sticky; left: 0; background: var(--paper); }
tr.best td, tr.best th { font-weight: 700; } td.better { color: var(--best); }
.heat { font-size: .85rem; } .heat td { text-align: center; min-width: 2.9rem;
  padding: .35rem .2rem; border: 2px solid var(--paper); }
.heat thead th { font-weight: 500; text-align: left;
  height: 7.5rem; padding: 0; min-width: 2.9rem; } .heat thead th:first-child { min-width: 0; }
.heat .tilt { writing-mode: vertical-rl; transform: rotate(180deg); margin: 0 auto;
  padding-top: .4rem; }
figure { margin: .5rem 0; } figure svg { max-width: 100%; height: auto; min-width: 22rem;
  color: var(--ink); } figure.large svg { min-width: 38rem; }
figcaption { color: var(--soft); font-size: .88rem; max-width: 46rem; }
pre { background: var(--band); padding: .75rem; overflow-x: auto; font-size: .85rem;
  border-radius: .3rem; } code { font-family: ui-monospace, Menlo, Consolas, monospace; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .92rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 40rem) { body { padding: 1rem .75rem 3rem; font-size: 15px; }
  th[scope=row] { min-width: 6.5rem; max-width: 9.5rem; white-space: normal; }
  dl { grid-template-columns: 1fr; }
  dt { margin-top: .4rem; } }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } .wide { overflow: visible; }
  table { font-size: 8.5pt; } th, td { padding: .15rem .35rem; } figure, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; } figure svg { min-width: 0; } th[scope=row] { position: static; }
  pre { white-space: pre-wrap; } .heat td { print-color-adjust: exact;
  -webkit-print-color-adjust: exact; } }
"""


def page(title: str, body: str, style: str = "") -> str:
    """Return a whole page; ``body`` is HTML, ``title`` text, ``style`` more CSS."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}{style}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def table(head: list[str], rows: list[str], kind: str = "") -> str:
    """Return a table that scrolls sideways on a narrow screen; cells are HTML."""
    name = f' class="{kind}"' if kind else ""
    return (
        f'<div class="wide"><table{name}><thead><tr>{"".join(head)}</tr></thead>\n'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def head(text: str, word: bool = False) -> str:
    """Return a column's title.

    >>> head("a < b")
    '<th scope="col">a &lt; b</th>'
    """
    return f'<th scope="col"{" class=word" if word else ""}>{escape(text)}</th>'


def row(name: str, cells: list[str], best: bool = False) -> str:
    """Return a table row with its name; ``cells`` are HTML."""
    mark = ' class="best"' if best else ""
    return f'<tr{mark}><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>\n'


def cell(text: str, kind: str = "", style: str = "") -> str:
    """Return one cell.

    >>> cell("3")
    '<td>3</td>'
    """
    attributes = (f' class="{kind}"' if kind else "") + (f' style="{style}"' if style else "")
    return f"<td{attributes}>{escape(text)}</td>"


def facts(pairs: list[tuple[str, str]]) -> str:
    """Return names and values as a list that folds on a narrow screen."""
    told = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs)
    return f"<dl>{told}</dl>"


def code(lines: list[str]) -> str:
    """Return lines of code."""
    return f"<pre><code>{escape(chr(10).join(lines))}</code></pre>"
