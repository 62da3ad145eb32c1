"""The front page: one screen, and every command and line of code on it works."""

from __future__ import annotations

import re
import shlex

import pytest
import torch
import typer
from pages import ROOT

import multipool
from multipool.cli.main import COMMANDS

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ["README.md", *(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md"))]
BLOCKS = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def commands(text):
    """Return all calls of multipool in a page: in blocks and in code between back-ticks."""
    blocks = [body.replace("\\\n", " ") for kind, body in BLOCKS.findall(text) if kind == ""]
    lines = [line for body in blocks for line in body.splitlines()]
    prose = BLOCKS.sub("", text)
    lines += re.findall(r"`(multipool [^`]+)`", prose.replace("\n", " "))
    return [line.partition("   ")[0] for line in lines if line.startswith("multipool ")]


def test_the_front_page_is_one_screen():
    lines = TEXT.splitlines()
    assert len(lines) <= 80
    assert max(map(len, lines)) <= 140
    assert len(TEXT.split()) <= 600


def test_its_three_lines_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = (body for kind, body in BLOCKS.findall(TEXT) if kind == "python")
    given = {
        "model": multipool.models.load("shapes-wrn10-1"),
        "images": torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0)),
    }
    exec(code, given)
    assert given["logits"].shape == (4, 100)
    assert (tmp_path / "state.safetensors").is_file()


def test_it_installs_as_the_install_page_does():
    pip = [line for line in TEXT.splitlines() if line.startswith("pip ")]
    page = (ROOT / "docs/start/install.md").read_text(encoding="utf-8")
    assert pip
    assert all(line in page for line in pip)


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_exists(page):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`make ([\w-]+)`|^make ([\w-]+)", text, re.MULTILINE)
    assert {first or second for first, second in named} <= targets


@pytest.mark.parametrize("page", PAGES)
def test_every_command_exists_with_its_options(page):
    for line in commands((ROOT / page).read_text(encoding="utf-8")):
        words = shlex.split(line.replace("...", "").replace("'multipool", "multipool"))[1:]
        if not words or words[0].startswith("-"):
            continue
        assert words[0] in COMMANDS, line
        module = __import__(f"multipool.cli.{words[0]}", fromlist=["app"])
        command = typer.main.get_command(module.app)
        while len(words) > 1 and words[1] in getattr(command, "commands", {}):
            command = command.commands[words.pop(1)]
        known = {flag for param in command.params for flag in [*param.opts, *param.secondary_opts]}
        asked = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert asked <= known | {"--help"}, f"{line}: no option {asked - known}"
