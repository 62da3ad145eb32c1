"""Checkpoints that do not say what they are, in the layouts that RobustBench's files have."""

from __future__ import annotations

import pytest
import torch

from multipool import models
from multipool.models import table


@pytest.fixture
def state():
    return models.build("wrn10-1", 10, seed=4).state_dict()


@pytest.mark.parametrize("name", ["wrn10-1", "wrn16-2", "resnet26-gn", "resnext29-4x32d"])
def test_names_and_shapes_tell_the_architecture(tmp_path, name):
    built = models.build(name, 10, seed=1)
    torch.save({"state_dict": built.state_dict()}, tmp_path / "m.pt")
    loaded = models.load(tmp_path / "m.pt")
    assert type(loaded) is type(built)
    assert loaded.state_dict().keys() == built.state_dict().keys()
    assert torch.equal(loaded.normalise.mean, built.normalise.mean)


def test_files_of_old_versions_of_torch_have_no_counters(state, tmp_path):
    old = {name: value for name, value in state.items() if "num_batches" not in name}
    torch.save({"state_dict": old}, tmp_path / "m.pt")
    loaded = models.load(tmp_path / "m.pt")
    assert len(loaded.state_dict()) == len(state) > len(old)
    assert torch.equal(loaded.fc.weight, state["fc.weight"])


def test_the_layer_that_normalises_in_front_of_a_model_is_taken_over(state, tmp_path):
    wrapped = {f"module.model.{name}": value for name, value in state.items()}
    wrapped["module.normalize.mean"] = torch.tensor([0.1, 0.2, 0.3]).view(1, 3, 1, 1)
    wrapped["module.normalize.std"] = torch.tensor([0.4, 0.5, 0.6]).view(1, 3, 1, 1)
    torch.save({"state_dict": wrapped}, tmp_path / "m.pt")
    step = models.load(tmp_path / "m.pt").normalise
    assert step.mean.flatten().tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert step.std.flatten().tolist() == pytest.approx([0.4, 0.5, 0.6])


def test_two_that_fit_are_asked_about(state, tmp_path, monkeypatch):
    twin = {**table.BUILT_IN, "twin": table.BUILT_IN["wrn10-1"]}
    monkeypatch.setattr("multipool.models.recognise.MODELS", twin)
    monkeypatch.setattr(table, "MODELS", twin)
    torch.save(state, tmp_path / "m.pt")
    with pytest.raises(ValueError, match=r"it fits wrn10-1 and twin; pass architecture= \(--model"):
        models.load(tmp_path / "m.pt")


def test_one_that_none_fits_is_one_sentence(state, tmp_path):
    torch.save({**state, "more": torch.zeros(3)}, tmp_path / "m.pt")
    with pytest.raises(ValueError, match="fit none of them; pass architecture="):
        models.load(tmp_path / "m.pt")
