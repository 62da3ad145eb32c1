"""The frame of a report: one HTML page that needs nothing but itself."""

from __future__ import annotations

from html import escape
from importlib import resources

_STYLE = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")


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
