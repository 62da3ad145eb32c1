"""*Start* in an environment where nothing is lent: pip installs the wheel and all it needs.

This asks a package index, so it is done only when asked for: ``MULTIPOOL_TORCH`` says what pip is
told to install for torch, ``page`` for the line of *Install* as it stands there, or for instance
``torch==2.13.0`` where PyTorch's own index cannot be reached::

    MULTIPOOL_TORCH=page python -m pytest -m slow tests/release/test_empty.py
"""

from __future__ import annotations

import os
import shlex
import subprocess
import venv

import follow
import pytest

TORCH = os.environ.get("MULTIPOOL_TORCH", "")


@pytest.mark.slow
@pytest.mark.skipif(not TORCH, reason="MULTIPOOL_TORCH does not say where torch comes from")
def test_start_works_where_nothing_was_installed_before(release, environment_at, tmp_path):
    wheel, _ = release()
    home, folder = tmp_path / "environment", tmp_path / "folder"
    folder.mkdir()
    venv.create(home, with_pip=True, symlinks=True)
    there = environment_at(home)
    lost = subprocess.run([there.python, "-c", "import torch"], capture_output=True, cwd=folder)
    assert lost.returncode != 0, "torch was there before"
    first, second = follow.commands("start/install.md")[:2]
    torch = shlex.split(first)[2:] if TORCH == "page" else [TORCH]
    there.run(there.python, "-m", "pip", "install", "--quiet", *torch, cwd=folder)
    assert second == "pip install ."
    there.run(there.python, "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    there.run(there.python, "-m", "pip", "check", cwd=folder)
    follow.check_install(there, folder)
    follow.five_minutes(there, folder)
    follow.your_pictures(there, folder)
