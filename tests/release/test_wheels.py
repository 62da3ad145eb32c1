"""The wheels that ``make dist`` makes, installed where nothing of this tree is."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import multipool

ROOT = Path(__file__).resolve().parents[2]
FACTS = (
    "import multipool, torch\n"
    "from multipool.decode import compiled as chains\n"
    "from multipool.memory import compiled as decide\n"
    "print(multipool.__file__, multipool.__version__)\n"
    "model = multipool.models.load('shapes-wrn10-1')\n"
    "adapter = multipool.adapt(model)\n"
    "print(tuple(adapter(torch.rand(8, 3, 32, 32)).shape))\n"
)


@pytest.mark.parametrize("pure", [False, True])
def test_a_wheel_holds_the_package_and_what_it_needs(release, pure):
    wheel, _ = release(pure)
    tags = wheel.name.removesuffix(".whl").split("-")
    assert tags[:2] == ["multipool", multipool.__version__]
    assert tags[2:4] == (["py3", "none"] if pure else ["cp311", "abi3"])
    names = zipfile.ZipFile(wheel).namelist()
    compiled = [name for name in names if name.endswith(".so")]
    assert len(compiled) == (0 if pure else 4)
    assert "multipool/models/weights/shapes_wrn10_1.safetensors" in names
    assert "multipool/py.typed" in names
    assert not [name for name in names if name.startswith(("tests", "examples", "docs"))]


@pytest.mark.parametrize("pure", [False, True])
def test_it_works_in_an_empty_environment(release, pure, tmp_path):
    _, environment = release(pure)
    said = environment.run(environment.python, "-c", FACTS, cwd=tmp_path).splitlines()
    where, version = said[0].split()
    assert where.startswith(str(environment.home))
    assert version == multipool.__version__
    assert said[1] == "(8, 100)"
    assert multipool.__version__ in environment.run("multipool", "--version", cwd=tmp_path)


def test_changelog_and_citation_name_this_version():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {multipool.__version__}" in changes
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {multipool.__version__}\n" in citation


def test_every_shipped_file_of_weights_has_a_card():
    page = (ROOT / "docs" / "reference" / "weights.md").read_text(encoding="utf-8")
    for name in multipool.models.SHIPPED:
        assert f"## `{name}`" in page
        assert multipool.models.metadata(name)["clean_error_percent"].rstrip("0") in page
