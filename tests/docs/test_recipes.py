"""The recipes of CONTRIBUTING.md, followed word for word in a copy of the package."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RETRIEVAL, METHOD = "Add a memory strategy", "Add a method that learns"
# What the two texts say is known from then on, besides the contract tests.
KNOWN = """
from multipool.bench.run import Experiment
from multipool.memory import MultiClusterMemory
from multipool.methods import available


def test_both_are_known_by_name():
    MultiClusterMemory(100, retrieval="surest")
    Experiment(method="rotta", memory="mcm", memory_options={"retrieval": "surest"})
    assert "sharp" in available()
    Experiment(method="sharp")
"""


def section(title):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def blocks(title):
    return re.findall(r"```python\n(.*?)```", section(title), re.S)


def insert(path, before, lines):
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, lines + before), encoding="utf-8")


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """Return a copy of the package and of the tests that the recipes name."""
    folder = tmp_path_factory.mktemp("house")
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", folder / "src", ignore=skipped)
    for room in ("engine", "memory", "methods"):
        shutil.copytree(ROOT / "tests" / room, folder / "tests" / room, ignore=skipped)
    for file in (ROOT / "tests").glob("*.py"):
        shutil.copy(file, folder / "tests")
    return folder


def test_the_recipes_work_as_written_and_are_as_long_as_they_say(house):
    code = house / "src" / "multipool"
    (block,) = blocks(RETRIEVAL)
    function, line = block.strip("\n").split("\n\n")
    insert(code / "memory/retrievals.py", "RETRIEVALS: dict", function + "\n\n\n")
    insert(code / "memory/retrievals.py", '    "proportional": proportional', line + "\n")
    told = re.search(r"\(one file, (\d+) lines\)", section(RETRIEVAL))
    assert int(told[1]) == len(function.splitlines()) + 1

    method, test = blocks(METHOD)
    (code / "methods/sharp.py").write_text(method, encoding="utf-8")
    (house / "tests/methods/test_sharp.py").write_text(test, encoding="utf-8")
    table = code / "methods/table.py"
    added = re.search(r"`(from [^`]*)`, and `([^`]*)`\s+in `(\w+)`", section(METHOD))
    insert(table, "from multipool.methods.source import", added[1] + "\n")
    insert(table, '    "source": Source', f"    {added[2]}\n")
    assert f"{added[3]}: dict" in table.read_text(encoding="utf-8")
    sizes = [len(text.splitlines()) for text in (method, test)]
    assert f"{sizes[0]} + {sizes[1]} + 2 = {sum(sizes) + 2} lines" in section(METHOD)

    (house / "tests/test_known.py").write_text(KNOWN, encoding="utf-8")
    tests = ["tests/test_known.py", "tests/methods/test_sharp.py", "tests/engine/test_contract.py"]
    chosen = ["-k", "known or surer or sharp or surest", "--import-mode=importlib"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *tests, "tests/memory/test_retrievals.py", *chosen],
        cwd=house,
        env={"PYTHONPATH": str(house / "src"), "PATH": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-2000:]
    assert int(re.search(r"(\d+) passed", ran.stdout)[1]) >= 8
