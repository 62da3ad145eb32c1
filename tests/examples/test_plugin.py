"""The example package: installed as anybody would, found by name, held to the contract."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plugin"
NO_NETWORK = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet"]


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Return what runs Python, with the example package installed beside multipool."""
    folder = tmp_path_factory.mktemp("installed")
    copy = folder / "plugin"  # building leaves files beside the source
    shutil.copytree(EXAMPLE, copy)
    target = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", *NO_NETWORK, "--target", str(target), str(copy)]
    subprocess.run(pip, check=True)
    paths = [str(target), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}

    def run(*words):
        return subprocess.run(
            [sys.executable, *words], env=environment, capture_output=True, text=True
        )

    return run


def test_method_and_memory_keep_the_contract(python):
    code = (
        "import multipool\n"
        "from multipool.testing import check_memory, check_method\n"
        "assert 'infomax' in multipool.methods.available()\n"
        "check_method('infomax')\n"
        "check_memory('newest-per-class', capacity=20)\n"
        "check_method('rotta', memory='newest-per-class')\n"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


def test_the_command_line_takes_both_by_name_and_the_method_learns(python):
    run = ["-m", "multipool", "run", "--limit", "480", "--domains", "fog,snow", "--json"]
    found = {}
    for name, words in {
        "learning": ["--method", "infomax"],
        "still": ["--method", "infomax", "--set", "lr=0"],
        "bn": ["--method", "bn"],
        "memory": ["--method", "rotta", "--memory", "newest-per-class"],
    }.items():
        done = python(*run, *words)
        assert done.returncode == 0, done.stderr
        found[name] = json.loads(done.stdout)
    assert found["memory"]["settings"]["memory"] == "newest-per-class"
    assert found["learning"]["counts"]["updates"] > 0
    # Without learning it is bn; what differs is what it learned.
    assert found["still"]["errors"] == found["bn"]["errors"]
    assert found["learning"]["errors"] != found["still"]["errors"]


def test_the_help_names_both(python):
    shown = python("-m", "multipool", "run", "--help").stdout
    assert "infomax" in shown
    assert "newest-per-class" in "".join(shown.split()).replace("│", "")


def test_the_method_is_at_most_eighty_lines():
    assert len((EXAMPLE / "src/multipool_example/infomax.py").read_text().splitlines()) <= 80
