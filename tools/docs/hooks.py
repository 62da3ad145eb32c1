"""What MkDocs builds besides the pages in docs: method cards, the command line, the changelog."""

from __future__ import annotations

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
        path = f"methods/{name}.md"
        if files.get_file_from_path(path) is None:
            made[path] = cards.card(name)
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **kwargs: Any) -> str:  # noqa: ANN401
    """Add where it stands to the cards that were written by hand."""
    path = page.file.src_uri
    name = path.removeprefix("methods/").removesuffix(".md")
    if path.startswith("methods/") and name in BUILT_IN and page.file.generated_by is None:
        return f"{markdown}\n{cards.standing(name)}"
    return markdown
