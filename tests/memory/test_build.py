"""How the extension is built: for all Pythons at once, or for a free-threaded one by itself."""

import runpy
import sysconfig
from pathlib import Path

import pytest

setuptools = pytest.importorskip("setuptools")
SETUP = Path(__file__).parents[2] / "setup.py"


@pytest.mark.parametrize("free_threaded", [False, True])
def test_free_threaded_pythons_get_no_limited_interface(monkeypatch, free_threaded):
    asked, known = {}, sysconfig.get_config_var
    monkeypatch.setattr(setuptools, "setup", lambda **given: asked.update(given))
    monkeypatch.setattr(
        sysconfig,
        "get_config_var",
        lambda name: int(free_threaded) if name == "Py_GIL_DISABLED" else known(name),
    )
    runpy.run_path(str(SETUP))
    assert ("bdist_wheel" in asked["options"]) is not free_threaded
    assert len(asked["ext_modules"]) == 4
    for extension in asked["ext_modules"]:
        assert extension.py_limited_api is not free_threaded
        assert ("Py_LIMITED_API" in dict(extension.define_macros)) is not free_threaded
        assert all((SETUP.parent / source).is_file() for source in extension.sources)
