"""*Start* and *Extend* followed word for word, with the wheel, in an empty environment."""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page):
    """Return the code of a page: its language ("" for commands) and its text."""
    return BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))


def commands(page):
    """Return the commands of a page, a line each."""
    lines = [line for kind, text in blocks(page) if kind == "" for line in text.splitlines()]
    return [line for line in lines if line.startswith(("multipool ", "pip "))]


def shown(page):
    """Return the results that a page shows, a line each."""
    return [line for kind, text in blocks(page) if kind == "text" for line in text.splitlines()]


def has(printed, line, slack=1.5):
    """Tell whether a line was printed; its numbers may be off by so much."""
    wanted, pattern = _split(line)
    found = [_split(other) for other in printed.splitlines()]
    return any(
        words == pattern and all(abs(a - b) <= slack for a, b in zip(numbers, wanted, strict=True))
        for numbers, words in found
    )


def _split(line):
    """Return the numbers of a line, and its words without spaces."""
    number = r"[-+−]?\d+(?:\.\d+)?"
    values = [float(text.replace("−", "-")) for text in re.findall(number, line)]
    return values, re.sub(number, "#", line).split()


def python(page):
    """Return all Python of a page as one program, as a reader would type it."""
    return "\n".join(text for kind, text in blocks(page) if kind == "python")


def test_what_install_says_to_check_works(release, tmp_path):
    _, environment = release()
    checks = [line for line in commands("start/install.md") if line.startswith("multipool ")]
    assert len(checks) == 2
    for line in checks:
        assert environment.run(*line.split(), cwd=tmp_path)


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
    _, environment = release()
    first, second = commands("start/five-minutes.md")
    said = environment.run(*first.split(), cwd=tmp_path)
    said += environment.run(environment.python, "-c", python("start/five-minutes.md"), cwd=tmp_path)
    assert (tmp_path / "state.safetensors").is_file()
    said += environment.run(*second.split(), cwd=tmp_path)
    assert (tmp_path / "small-demo" / "report.html").is_file()
    results = shown("start/five-minutes.md")
    assert len(results) == 8
    for line in results:
        assert has(said, line, slack=6 if "of 600" in line else 1.5), f"{line}\n{said}"


def test_your_pictures_gives_what_it_says(release, tmp_path):
    _, environment = release()
    (code,) = (text for kind, text in blocks("start/your-pictures.md") if kind == "python")
    environment.run(environment.python, "-c", code, cwd=tmp_path)
    first = commands("start/your-pictures.md")[0]
    said = environment.run(*first.split(), cwd=tmp_path)
    results = shown("start/your-pictures.md")
    assert len(results) == 3
    for line in results:
        assert has(said, line), f"{line}\n{said}"
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == 401


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
