"""Frost: the sum of image and ice, drawn ice with the published statistics, photographs if any."""

import importlib
import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from multipool.data.corruptions import PARAMETER_SETS, corrupt, frost_source

frost = importlib.import_module("multipool.data.corruptions.frost")


@pytest.fixture
def fresh(monkeypatch):
    """Forget cached textures before and after."""
    frost._originals.cache_clear()
    frost.frost_textures.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    frost._originals.cache_clear()
    frost.frost_textures.cache_clear()


@pytest.mark.parametrize("ice", frost._ICE)
def test_drawn_ice_has_the_colours_of_the_photograph(ice):
    drawn = frost.draw_ice(ice).float()
    for channel in range(3):
        assert drawn[..., channel].mean() == pytest.approx(ice.mean[channel], abs=2)
        assert drawn[..., channel].std() == pytest.approx(ice.std[channel], rel=0.08)


def test_on_black_only_the_ice_is_left(fresh):
    fresh.setattr(frost, "_photograph_folder", lambda: None)
    black = np.zeros((64, 32, 32, 3), dtype=np.uint8)
    level = PARAMETER_SETS["cifar-c"].frost[4]
    out = corrupt(black, "frost", 5)
    wanted = level.texture * np.mean([ice.mean for ice in frost._ICE])
    assert out.mean() == pytest.approx(wanted, rel=0.1)
    grey = corrupt(black[..., :1], "frost", 5)
    assert grey.mean() == pytest.approx(out.mean(), rel=0.1)


def test_photographs_of_an_installed_package_are_used(fresh, tmp_path):
    folder = tmp_path / "imagecorruptions" / "frost"
    folder.mkdir(parents=True)
    for number, name in enumerate(frost._PHOTOGRAPHS):
        value = 50 * (number + 1)
        Image.fromarray(np.full((300, 400, 3), value, np.uint8)).save(folder / name, quality=100)
    spec = SimpleNamespace(submodule_search_locations=[str(folder.parent)])
    fresh.setattr(frost, "find_spec", lambda name: spec)
    assert frost_source() == "photographs"
    out = corrupt(np.zeros((40, 224, 224, 3), dtype=np.uint8), "frost", 1)  # weight 0.4
    assert set(np.unique(out)) == {20, 40, 60, 80, 100}


def test_without_the_package_the_ice_is_drawn(fresh):
    fresh.setattr(frost, "find_spec", lambda name: None)
    assert frost_source() == "drawn"
    assert frost.frost_textures(0.2, 32, 32)[0].shape == (77, 77, 3)


def test_large_images_get_ice_of_their_size():
    out = corrupt(np.zeros((1, 450, 500, 3), dtype=np.uint8), "frost")
    assert (out > 0).mean() > 0.99


@pytest.mark.skipif(
    importlib.util.find_spec("imagecorruptions") is None, reason="imagecorruptions is not installed"
)
def test_the_published_photographs_have_the_statistics_we_draw_with(fresh):
    for ice, photograph in zip(frost._ICE, frost._originals(), strict=True):
        assert photograph.float().mean(dim=(0, 1)).tolist() == pytest.approx(ice.mean, abs=0.1)
        assert photograph.float().std(dim=(0, 1)).tolist() == pytest.approx(ice.std, abs=0.1)
