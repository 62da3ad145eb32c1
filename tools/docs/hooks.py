"""What MkDocs builds besides the pages in docs: method cards, the command line, the changelog."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import cards  # noqa: E402
import commands  # noqa: E402

from multipool.methods.table import BUILT_IN  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def on_config(config: Any) -> Any:  # noqa: ANN401
    """Put a card for every method into the navigation, and into Guides what is nowhere yet."""
    written = {path.stem for path in (ROOT / "docs" / "methods").glob("*.md")}
    names = [*BUILT_IN, *sorted(written - set(BUILT_IN))]
    pages = [{name: f"methods/{name}.md"} for name in names]
    for part in config["nav"]:
        if part.get("Methods") == "methods/index.md":
            part["Methods"] = ["methods/index.md", *pages]
    listed = set(_paths(config["nav"]))
    home = ROOT / "docs"
    found = sorted(path.relative_to(home).as_posix() for path in home.rglob("*.md"))
    for part in config["nav"]:
        if "Guides" in part:
            part["Guides"] += [path for path in found if path not in listed]
    return config


def _paths(nav: Any) -> list[str]:  # noqa: ANN401
    """Return the pages that a navigation names."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [path for part in parts for path in _paths(part)]


def on_files(files: Files, config: Any) -> Files:  # noqa: ANN401
    """Add the pages that are made from the code."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    made = {
        "methods/index.md": cards.overview(),
        "reference/commands.md": commands.page(),
        "reference/changes.md": changes.replace("](docs/", "](../"),
    }
    for name in BUILT_IN:
        made[f"methods/{name}.md"] = cards.card(name)
    for path, text in made.items():
        written = files.get_file_from_path(path)
        if written is not None:  # notes on a method, which its card ends with
            files.remove(written)
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **kwargs: Any) -> str:  # noqa: ANN401
    """Give lists and tables the empty line that MkDocs wants before them and GitHub does not."""
    return spaced(markdown)


def on_page_content(html: str, **kwargs: Any) -> str:  # noqa: ANN401
    """Keep options, names of datasets and numbers with their units on one line."""
    return unbroken(html)


_WHOLE = re.compile(
    r"--[a-z][a-z-]*|\b\d+e-\d+|(?:Tiny-)?ImageNet-C\b|\bCIFAR-100?(?:-C)?\b|\bWRN-\d+-\d+"
    r"|\b(?:DomainNet|ResNet|ResNeXt)-\d+"
)
_PAIR = re.compile(r"(?<=\d) (?:± (?=\d)|(?=\(\d+\)$|%|(?:ms|px|MiB|MB|KiB|kB)\b))|^ (?=\(\d\)$)")
_DRAWN = re.compile(r"^.*[│┃].*$", re.MULTILINE)  # a line of a table that a program printed


def unbroken(html: str) -> str:
    """Return HTML in which no line ends inside an option, a dataset's name, "1.0 ± 0.2" or "5 %".

    A browser may break a line after every hyphen, also after the two that begin an option.

    >>> unbroken('<code title="--a">--limit 3</code>')
    '<code title="--a"><span class="whole">--limit</span> 3</code>'
    >>> unbroken("<td>1.0 ± 0.2</td><td>60.7 (1)</td>").replace(chr(160), "_")
    '<td>1.0_±_0.2</td><td>60.7_(1)</td>'
    >>> unbroken("5 % of <code>5 % 3</code>").replace(chr(160), "_")
    '5_% of <code>5 % 3</code>'
    """
    parts = re.split(r"(<[^>]+>)", html)  # text, tag, text, ...
    code = 0  # how many <code> are open: what is copied from there must stay as it was typed
    for at, part in enumerate(parts):
        if at % 2:
            code += part.startswith("<code") - part.startswith("</code")
            continue
        text = part if code else _PAIR.sub(lambda found: found[0].replace(" ", "\xa0"), part)
        text = _DRAWN.sub(r'<span class="drawn">\g<0></span>', text)
        parts[at] = _WHOLE.sub(r'<span class="whole">\g<0></span>', text)
    return "".join(parts)


def spaced(markdown: str) -> str:
    r"""Return Markdown with an empty line before each list and table; code stays as it is.

    >>> spaced("It has\n- a\n- b\n  and c\n```\nx\n- y\n```").splitlines()
    ['It has', '', '- a', '- b', '  and c', '```', 'x', '- y', '```']
    """
    lines: list[str] = []
    in_code = in_block = False
    for line in markdown.split("\n"):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        starts = re.match(r"([-*]|\d\d?\.) |\|", line) is not None  # a year is no list
        if starts and not in_code and not in_block and lines and lines[-1].strip():
            lines.append("")
        # What is indented goes on with the list; anything else ends it.
        in_block = starts or (in_block and line.startswith(" ") and not in_code)
        lines.append(line)
    return "\n".join(lines)
