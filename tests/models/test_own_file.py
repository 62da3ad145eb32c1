"""Models that a function in somebody's own Python file makes."""

from __future__ import annotations

import pytest
import torch

from multipool import models

FILE = """
import torch
from torch import nn
from multipool.models import wrap

def small(num_classes=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(48, num_classes))

def normalised():
    return wrap(small(), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), size=4)

def wrong():
    return 7

def broken():
    raise KeyError("no weights here")
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    return tmp_path / "mine.py"


def test_the_function_makes_the_model_and_hears_the_number_of_classes(file):
    assert models.load(f"{file}:small")(torch.zeros(1, 3, 4, 4)).shape == (1, 3)
    assert models.load(f"{file}:small", 7)(torch.zeros(1, 3, 4, 4)).shape == (1, 7)
    with pytest.raises(ValueError, match="has 3 classes, expected 7"):
        models.load(f"{file}:normalised", 7)


def test_own_weights_go_into_own_functions_whether_wrapped_or_not(file, tmp_path):
    own = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 3))
    torch.save(own.state_dict(), tmp_path / "own.pt")
    shown = torch.rand(2, 3, 4, 4)
    bare = models.load(tmp_path / "own.pt", architecture=f"{file}:small")
    wrapped = models.load(tmp_path / "own.pt", architecture=f"{file}:normalised")
    assert torch.allclose(bare(shown), own(shown))
    assert torch.allclose(wrapped(shown), own((shown - 0.5) / 0.25), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("smal", "unknown function of .*mine.py 'smal'; did you mean 'small'"),
        ("wrong", "mine.py:wrong must return a torch.nn.Module, got int"),
        ("broken", "mine.py:broken ended with KeyError: .*no weights here.*; it must be callable"),
    ],
)
def test_what_is_wrong_is_one_sentence(file, name, sentence):
    with pytest.raises(ValueError, match=sentence):
        models.load(f"{file}:{name}")


def test_a_file_that_is_not_there_or_does_not_run_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no Python file at .*gone.py"):
        models.load(f"{tmp_path}/gone.py:make")
    (tmp_path / "bad.py").write_text("import no_such_package")
    with pytest.raises(ValueError, match="bad.py does not run: ModuleNotFoundError: No module"):
        models.load(f"{tmp_path}/bad.py:make")
