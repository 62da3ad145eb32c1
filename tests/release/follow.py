"""The pages of *Start* as a reader follows them: what they say to type, and what they show."""

from __future__ import annotations

import re
from pathlib import Path

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


def check_install(environment, folder):
    """Type what *Install* says to check with."""
    checks = [line for line in commands("start/install.md") if line.startswith("multipool ")]
    assert len(checks) == 2
    for line in checks:
        assert environment.run(*line.split(), cwd=folder)


def five_minutes(environment, folder):
    """Type all of *Five minutes*; every line that it shows must come."""
    first, second = commands("start/five-minutes.md")
    said = environment.run(*first.split(), cwd=folder)
    said += environment.run(environment.python, "-c", python("start/five-minutes.md"), cwd=folder)
    assert (folder / "state.safetensors").is_file()
    said += environment.run(*second.split(), cwd=folder)
    assert (folder / "small-demo" / "report.html").is_file()
    results = shown("start/five-minutes.md")
    assert len(results) == 8
    for line in results:
        assert has(said, line, slack=6 if "of 600" in line else 1.5), f"{line}\n{said}"


def your_pictures(environment, folder):
    """Make the pictures of *Your pictures* and run on them; every line that it shows must come."""
    (code,) = (text for kind, text in blocks("start/your-pictures.md") if kind == "python")
    environment.run(environment.python, "-c", code, cwd=folder)
    first = commands("start/your-pictures.md")[0]
    said = environment.run(*first.split(), cwd=folder)
    results = shown("start/your-pictures.md")
    assert len(results) == 3
    for line in results:
        assert has(said, line), f"{line}\n{said}"
    assert len((folder / "answers.csv").read_text().splitlines()) == 401
