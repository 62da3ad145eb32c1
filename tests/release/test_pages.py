"""*Start* and *Extend* followed word for word, with the wheel, in an environment of its own.

What the wheel depends on is lent by the present environment, so that no test needs a network;
``test_empty.py`` installs everything.
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from pathlib import Path

import follow
import pytest
from follow import ROOT, blocks, commands, has, python


def test_what_install_says_to_check_works(release, tmp_path):
    follow.check_install(release()[1], tmp_path)


def test_install_names_the_small_torch_first_and_extras_that_exist():
    lines = commands("start/install.md")
    assert lines[0] == "pip install torch --index-url https://download.pytorch.org/whl/cpu"
    assert lines[1] == "pip install ."
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "docs/start/install.md").read_text(encoding="utf-8")
    named = re.findall(r"'\.\[(\w+)\]'", text)
    assert named
    assert set(named) <= set(project["optional-dependencies"])


def test_five_minutes_gives_what_it_says(release, tmp_path):
    follow.five_minutes(release()[1], tmp_path)


def test_your_pictures_gives_what_it_says(release, tmp_path):
    follow.your_pictures(release()[1], tmp_path)


@pytest.mark.slow
def test_your_model_works_in_an_empty_environment(release, tmp_path):
    """The page's five examples, by the tests that run them, with the wheel instead of the tree."""
    _, environment = release()
    where = environment.run(
        environment.python, "-c", "import multipool; print(multipool.__file__)", cwd=tmp_path
    )
    assert Path(where.strip()).is_relative_to(environment.home)
    words = ["-m", "pytest", "-p", "no:cacheprovider", ROOT / "tests/docs/test_your_model.py"]
    said = environment.run(environment.python, *words, cwd=tmp_path)
    assert "8 passed" in said, said


def test_a_wrong_result_is_seen():
    assert has("a\n│ fog │ 41.20 │", "│ fog │   41.00 │")
    assert not has("│ fog │ 45.20 │", "│ fog │   41.00 │")
    assert not has("│ snow │ 41.00 │", "│ fog │   41.00 │")


def test_extend_builds_the_example_package(release, empty_environment, tmp_path):
    """Files as the page shows them, then its Python and its commands."""
    page = (ROOT / "docs/guides/extend.md").read_text(encoding="utf-8")
    example = ROOT / "examples" / "plugin"
    folder = tmp_path / "my-plugin"
    shown = [text for kind, text in blocks("guides/extend.md") if kind in ("python", "toml")]
    files = [path for path in example.rglob("*") if path.suffix in (".py", ".toml")]
    for path in files:
        assert path.read_text() in shown, f"extend.md shows {path.name} otherwise"
        assert path.name in page
        copy = folder / path.relative_to(example)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    there = empty_environment(tmp_path / "environment", release()[0])
    (code,) = (text for text in shown if "check_method(InfoMax)" in text)
    there.run(there.python, "-c", code, cwd=folder / "src")
    install, *runs = commands("guides/extend.md")
    pip = ["-m", "pip", "--python", there.python, *install.split()[1:], "--no-index", "--quiet"]
    there.run(sys.executable, *pip, cwd=folder)
    assert len(runs) == 2
    for line in runs:
        assert re.search(r"│ mean +│ +\d", there.run(*line.split(), cwd=tmp_path))


@pytest.mark.parametrize(
    "page", ["concepts/decoder.md", "concepts/guard.md", "start/five-minutes.md"]
)
def test_pages_with_python_have_some(page):
    assert python(page)


@pytest.mark.parametrize("page", ["concepts/decoder.md", "concepts/guard.md"])
def test_the_python_of_a_concept_runs(release, tmp_path, page):
    _, environment = release()
    environment.run(environment.python, "-c", python(page), cwd=tmp_path)
