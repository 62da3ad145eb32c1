"""Which source images a method gets, and what a result says about them."""

from __future__ import annotations

import pytest

from multipool.bench.run.experiment import Experiment
from multipool.bench.run.runner import run

SMALL = {"batch_size": 16, "limit": 96, "device": "cpu"}


@pytest.mark.parametrize("method", ["petta", "eata", "mecta"])
@pytest.mark.parametrize(
    ("split", "said"),
    [("test", "90 clean test images, of which the stream shows"), ("train", "90 training images")],
)
def test_a_result_says_which_images_the_source_data_were(loader, method, split, said):
    result = run(Experiment(method=method, source=split, **SMALL), loader=loader)
    assert len(result.notes) == 1
    assert said in result.notes[0]
    assert result.settings["source"] == split


def test_methods_that_read_labels_never_get_those_of_the_stream(loader):
    with pytest.raises(ValueError, match="rmt learns from the labels .* got the test split"):
        run(Experiment(method="rmt", source="test", **SMALL), loader=loader)
    result = run(Experiment(method="rmt", **SMALL), loader=loader)
    assert "training images" in result.notes[0]


def test_methods_without_source_data_say_nothing_about_it(loader):
    result = run(Experiment(method="rotta", **SMALL), loader=loader)
    assert (result.notes, result.settings["source"]) == ([], None)


@pytest.mark.parametrize(
    ("method", "dataset", "split"),
    [
        ("petta", "cifar100-c", "test"),
        ("mecta", "cifar100-c", "test"),
        ("eata", "cifar100-c", "train"),
        ("rmt", "cifar100-c", "train"),
        ("petta", "folder", "train"),
        ("mecta", "domainnet126", "train"),
    ],
)
def test_source_data_are_those_that_the_public_code_takes(method, dataset, split):
    experiment = Experiment(method=method, dataset=dataset, weights="shapes-wrn10-1")
    assert experiment.source_split() == split
    assert experiment.settings()["source"] == split
