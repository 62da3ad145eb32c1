from __future__ import annotations

import dataclasses
import json

import pytest

from multipool.bench.run.experiment import Experiment, memories, needs_source
from multipool.bench.run.hyperparameters import (
    COLUMNS,
    HYPERPARAMETERS,
    SOURCE_SPLITS,
    published_options,
)
from multipool.data import DATASETS
from multipool.memory import MEMORIES
from multipool.methods import METHODS


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"dataset": "nope"}, "unknown dataset 'nope'.*shapes-c"),
        ({"method": "rota"}, "unknown method 'rota'; did you mean 'rotta'"),
        ({"memory": "mcmm"}, "unknown memory 'mcmm'; did you mean 'mcm'"),
        ({"method": "source", "memory": "mcm"}, "source has no memory.*rotta"),
        ({"protocol": "p"}, "unknown protocol 'p'.*ptta"),
        ({"precision": "half"}, "unknown precision 'half'.*float32"),
        ({"precision": "auto"}, "unknown precision 'auto'.*float32"),
        ({"source": "valid"}, "unknown source split 'valid'.*test, train"),
        ({"model": "wrn"}, "unknown model 'wrn'.*wrn10-1"),
        ({"model": "net.py"}, "unknown model 'net.py'.*FILE.py:FUNCTION.*timm:NAME"),
        ({"severity": 6}, "severity must be 1 to 5, got 6"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
        ({"gamma": 0.0}, "gamma must be greater than 0"),
        ({"rounds": 0}, "rounds must be a whole number of at least 1, got 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"limit": 0}, "limit must be a whole number of at least 1, got 0"),
        (
            {"method": "rotta", "options": {"lrr": 1.0}},
            "unknown option of rotta 'lrr'; did you mean 'lr'",
        ),
        ({"method": "rotta", "options": {"lr": "fast"}}, "lr.*float.*fast"),
        ({"memory": "mcm", "memory_options": {"size": 3}}, "unknown memory option 'size'"),
        ({"method": "bn", "memory_options": {"capacity": 3}}, "bn has no memory"),
        ({"dataset": "cifar100-c"}, "cifar100-c has no weights in the package"),
    ],
)
def test_mistakes_are_told_before_anything_runs(wrong, message):
    with pytest.raises(ValueError, match=message):
        Experiment(**wrong)


def test_missing_weights_are_named():
    with pytest.raises(FileNotFoundError, match="no weights at gone.safetensors"):
        Experiment(weights="gone.safetensors")


def test_settings_go_through_json_and_back():
    first = Experiment(method="petta", memory="mcm", domains=("fog", "snow"), options={"pull": 2.0})
    text = json.dumps(first.settings())
    again = Experiment.from_settings(json.loads(text))
    assert json.dumps(again.settings()) == text
    with pytest.raises(ValueError, match="unknown setting 'colour'"):
        Experiment.from_settings({"colour": 1})


def test_the_classes_shown_are_a_setting_of_streams_of_few_alone():
    assert "shown" not in Experiment(shown=3).settings()  # older results stay valid
    assert Experiment(protocol="few", shown=3).settings()["shown"] == 3
    assert Experiment(protocol="few", shown=3).stream().shown == 3
    with pytest.raises(ValueError, match="shown must be a whole number of at least 1, got 0"):
        Experiment(protocol="few", shown=0)


def test_settings_hold_every_hyperparameter():
    options = Experiment(method="rotta", options={"lr": 5}).settings()["options"]
    fields = {f.name for f in dataclasses.fields(METHODS["rotta"].Config)}
    assert set(options) == fields
    assert options["lr"] == 5


@pytest.mark.parametrize("method", HYPERPARAMETERS)
def test_published_columns_name_fields_that_exist_and_differ_from_the_defaults(method):
    config = METHODS[method].Config()
    for column, options in HYPERPARAMETERS[method].items():
        assert column in COLUMNS.values()
        assert column != "cifar100-c"
        dataclasses.replace(config, **options)
        for name, value in options.items():
            assert getattr(config, name) != value, f"{method} {column} {name}"


def test_every_dataset_has_a_column():
    assert set(DATASETS) <= set(COLUMNS)


def test_tiny_imagenet_uses_imagenets_column_and_shapes_uses_cifar100s():
    tiny = published_options("petta", "tiny-imagenet-c")
    assert tiny == published_options("petta", "imagenet-c") != {}
    assert published_options("petta", "shapes-c") == {}


def test_the_users_options_beat_the_published_ones():
    weights = "shapes-wrn10-1"
    plain = Experiment(dataset="imagenet-c", method="petta", weights=weights)
    own = dataclasses.replace(plain, options={"loss": "sce"})
    assert plain.method_options()["loss"] == "ce"
    assert own.method_options()["loss"] == "sce"


def test_roid_is_told_the_batch_size():
    assert Experiment(method="roid", batch_size=16).method_options()["batch_size"] == 16


def test_single_is_a_memory_beside_those_of_the_table():
    assert set(memories()) == {"single", *MEMORIES}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_planned_and_knows_its_source(method):
    experiment = Experiment(method=method)
    assert needs_source(experiment) == (method in SOURCE_SPLITS)


def test_a_model_and_a_file_of_weights_are_both_heard(tmp_path):
    file = tmp_path / "own.pt"
    file.touch()
    own = Experiment(model="timm:resnet18", weights=str(file))
    assert (own.weights_name(), own.architecture()) == (str(file), "timm:resnet18")
    theirs = Experiment(model="timm:resnet18")
    assert (theirs.weights_name(), theirs.architecture()) == ("timm:resnet18", None)
    assert Experiment.from_settings(theirs.settings()).architecture() is None
    plain = Experiment(model="wrn16-2", weights=str(file))
    assert plain.architecture() == "wrn16-2"
    with pytest.raises(ValueError, match="comes with its weights, got --weights"):
        Experiment(model="shapes-wrn10-1", weights=str(file))


def test_options_of_a_memory_left_out_are_those_of_the_bank_that_the_method_prefers():
    assert Experiment(memory_options={"max_clusters": 2}).memory_options == {"max_clusters": 2}
    with pytest.raises(ValueError, match="max_clusters"):
        Experiment(memory="single", memory_options={"max_clusters": 2})
    with pytest.raises(ValueError, match="max_clusters"):
        Experiment(method="rotta", memory_options={"max_clusters": 2})
