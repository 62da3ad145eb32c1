from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import multipool
from multipool.cli.main import COMMANDS


def test_help_lists_every_command(call):
    code, out, _ = call("--help")
    assert code == 0
    assert all(name in out for name in COMMANDS)


def test_no_arguments_show_the_help(call):
    code, out, _ = call()
    assert code == 0
    assert "Usage" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_an_example_that_calls_the_command(call, name):
    code, out, _ = call(name, "--help")
    assert code == 0
    words = " ".join(out.split())
    assert f"Example: multipool {name}" in words


def test_help_imports_no_heavy_package():
    code = (
        "import sys\n"
        "from multipool.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "heavy = {'matplotlib', 'scipy', 'sklearn', 'multipool.bench', 'multipool.cli.run'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, capture_output=True)


def test_the_version_is_printed(call):
    code, out, _ = call("--version")
    assert (code, out.strip()) == (0, f"multipool {multipool.__version__}")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nope"], ["unknown command 'nope'", "demo", "run"]),
        (["--nope"], ["unknown option '--nope'", "--help"]),
        (["run", "--nope"], ["unknown option '--nope'", "--dataset", "--memory"]),
        (["run", "--seed", "x"], ["--seed must be a whole number, got 'x'"]),
        (["run", "--seed=x"], ["--seed must be a whole number, got 'x'"]),
        (["run", "--gamma", "x"], ["--gamma must be a number, got 'x'"]),
        (["demo", "--images", "0"], ["--images must be a whole number of at least 1, got 0"]),
        (["run", "extra"], ["extra", "multipool run --help"]),
        (["run", "--dataset", "nope"], ["unknown dataset 'nope'", "shapes-c", "cifar100-c"]),
        (["run", "--method", "nope"], ["unknown method 'nope'", "rotta", "petta"]),
        (["run", "--memory", "nope"], ["unknown memory 'nope'", "mcm", "single"]),
        (["run", "--protocol", "nope"], ["unknown protocol 'nope'", "ptta", "ctta"]),
        (["run", "--method", "rotta", "--set", "nope=1"], ["unknown option of rotta 'nope'", "lr"]),
        (["run", "--set", "nope"], ["--set takes KEY=VALUE", "'nope'"]),
        (["run", "--set", "bank.size=1"], ["memory.KEY=VALUE", "'bank.size=1'"]),
        (["run", "--domains", "rain"], ["unknown corruption 'rain'", "fog"]),
        (["run", "--device", "abacus"], ["unknown device 'abacus'", "cpu"]),
        (["run", "--resume"], ["resume needs the folder"]),
        (["report"], ["DIR", "multipool report --help"]),
        (["report", "gone"], ["no folder at gone"]),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_sentence_that_names_the_choices(call, args, words):
    code, out, err = call(*args)
    assert code == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err
    assert all(word in err for word in words), err


def test_ctrl_c_is_exit_code_130_without_a_traceback(call, monkeypatch):
    module = importlib.import_module("multipool.cli.report")

    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "report", stop)
    code, out, err = call("report", "somewhere")
    assert (code, out) == (130, "")
    assert "Traceback" not in err


def test_developers_can_ask_for_the_traceback(monkeypatch):
    from multipool.cli.main import main

    monkeypatch.setenv("MULTIPOOL_TRACEBACK", "1")
    with pytest.raises(FileNotFoundError, match="no folder at gone"):
        main(["report", "gone"])


def test_a_full_disk_is_told_in_one_line(call, monkeypatch):
    module = importlib.import_module("multipool.cli.report")

    def fail(*args):
        raise OSError(28, "No space left on device", "page.html")

    monkeypatch.setattr(module, "report", fail)
    code, _, err = call("report", "somewhere")
    assert (code, err) == (1, "error: No space left on device: page.html\n")


def test_a_command_without_its_packages_says_which_to_install():
    code = (
        "import sys\n"
        "sys.modules['uvicorn'] = None  # as if it were not installed\n"
        "from multipool.cli.main import main\n"
        "main(['serve'])\n"
    )
    # In a process of its own: modules that are imported anew would be others than the tests know.
    ended = subprocess.run(
        [sys.executable, "-c", code], timeout=120, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "error: multipool serve needs uvicorn; install it with pip install 'multipool[serve]'\n"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["run", "--batch-size", "0"],
            "error: --batch-size must be a whole number of at least 1, got 0",
        ),
        (["run", "--gamma", "0"], "error: --gamma must be greater than 0, got 0.0"),
        (["run", "--method", "rota"], "error: unknown method 'rota'"),
    ],
)
def test_a_mistake_names_the_option_as_it_was_typed(call, words, sentence):
    code, _, err = call(*words)
    assert code == 2
    assert err.startswith(sentence)
