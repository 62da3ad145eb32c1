"""Wheels of this tree, and empty environments with them: made once for all workers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from filelock import FileLock

sys.path.insert(0, str(Path(__file__).parent))  # the files here share follow.py

ROOT = Path(__file__).resolve().parents[2]
_NEEDED = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "src", "examples")
_OFFLINE = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps")


class Environment:
    """A virtual environment with one wheel of multipool in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.python = home / "bin" / "python"

    def run(self, *words, cwd, **more):
        """Run a program of the environment; fail with what it said if it fails."""
        paths = f"{self.home / 'bin'}{os.pathsep}{os.environ['PATH']}"
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "MULTIPOOL"))}
        environment = {**clean, "PATH": paths, "MULTIPOOL_CACHE": str(self.home / "cache"), **more}
        done = subprocess.run(
            [str(word) for word in words], cwd=cwd, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr


def _build(folder: Path, pure: bool) -> Path:
    """Return a wheel built from a copy of the tree: building leaves files beside the source."""
    copy = folder / ("pure-tree" if pure else "tree")
    copy.mkdir()
    skip = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
    for name in _NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=skip)
        else:
            shutil.copy(source, copy / name)
    out = folder / "dist"
    words = [sys.executable, "-m", "pip", "wheel", *_OFFLINE, "--no-build-isolation"]
    environment = {**os.environ, "MULTIPOOL_PURE": "1" if pure else "0"}
    subprocess.run([*words, "--wheel-dir", str(out), str(copy)], check=True, env=environment)
    (wheel,) = (w for w in out.glob("*.whl") if ("none-any" in w.name) == pure)
    return wheel


def make_environment(home: Path, wheel: Path) -> Environment:
    """Return an environment with the wheel; what it depends on is lent by the present one."""
    venv.create(home, with_pip=False, symlinks=True)
    there = home / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python")]
    subprocess.run([*pip, "install", *_OFFLINE, str(wheel)], check=True)
    # Last on the path, and without its .pth files: an editable install there is not seen.
    (there / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Environment(home)


@pytest.fixture
def environment_at():
    """Return what runs programs in the environment of a folder."""
    return Environment


@pytest.fixture
def empty_environment():
    """Return what makes one more environment of a wheel, to install other things into."""
    return make_environment


@pytest.fixture(scope="session")
def release(tmp_path_factory):
    """Return what makes the environment of a wheel, pure or compiled, once for all workers."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    folder = shared / "release"

    def make(pure: bool = False) -> tuple[Path, Environment]:
        folder.mkdir(exist_ok=True)
        mark = folder / f"ready-{pure}"
        with FileLock(folder / f"lock-{pure}"):
            if not mark.exists():
                wheel = _build(folder, pure)
                make_environment(folder / f"env-{pure}", wheel)
                mark.write_text(str(wheel))
        wheel = Path(mark.read_text())
        return wheel, Environment(folder / f"env-{pure}")

    return make
