"""What the package as a whole promises: its names exist, and its parts import as they should."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

import multipool

MODULES = [m.name for m in pkgutil.walk_packages(multipool.__path__, "multipool.")]


@pytest.mark.parametrize("name", ["multipool", *(m for m in MODULES if "__main__" not in m)])
def test_every_exported_name_is_there(name):
    if name.startswith("multipool.ops.kernels"):
        pytest.importorskip("triton", reason="kernels for a GPU need Triton")
    module = importlib.import_module(name)
    for exported in getattr(module, "__all__", []):
        assert hasattr(module, exported), f"{name} exports {exported}, which it lacks"


def test_the_help_does_not_wait_for_torch():
    code = (
        "import sys\nsys.argv = ['multipool', '--help']\n"
        "from multipool.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize(
    "name",
    [
        "decode.SequenceDecoder",
        "testing.check_method",
        "testing.check_memory",
        "engine.Method",
        "models.wrap",
        "methods.available",
        "memory.MultiClusterMemory",
        "memory.compat.LegacyBank",
        "data.streams.ptta",
        "data.corruptions.corrupt",
        "diagnostics",
    ],
)
def test_one_import_is_enough_for_what_users_type(name):
    room, *path = name.split(".")
    found = multipool.__getattr__(room)  # as if nobody had imported it yet
    for part in path:
        found = getattr(found, part)
    assert room in multipool.__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'adopt'"):
        multipool.adopt  # noqa: B018


def test_python_m_is_the_command_line():
    run = [sys.executable, "-m", "multipool", "--version"]
    found = subprocess.run(run, capture_output=True, text=True, check=True)
    assert multipool.__version__ in found.stdout


def test_adapting_imports_neither_a_compiler_nor_what_draws_and_fits():
    code = (
        "import sys, multipool\n"
        "multipool.adapt\n"
        "heavy = ('torch._dynamo', 'triton', 'scipy', 'matplotlib', 'typer', 'rich')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
