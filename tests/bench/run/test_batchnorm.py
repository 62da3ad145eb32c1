"""``--batchnorm``: a model without BatchNorm, measured on training images before it runs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from multipool import models
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.loader import Loader
from multipool.bench.run.runner import run

SMALL = {"batch_size": 16, "limit": 96, "device": "cpu"}


@pytest.fixture(scope="module")
def loader():
    """A real one, which reads the files it is told to; the shared one knows a single model."""
    return Loader()


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "gn.safetensors"
    models.save(models.build("wrn28-1-gn", 100), path, {"architecture": "wrn28-1-gn"})
    return str(path)


def test_a_method_that_needs_batchnorm_runs_and_the_result_says_on_what(weights, loader):
    result = run(Experiment(method="bn", weights=weights, batchnorm=True, **SMALL), loader=loader)
    assert result.settings["batchnorm"] is True
    assert "BatchNorm: the source data are" in result.notes[0]
    assert "training images, none of which the stream shows; at most 1,000" in result.notes[0]
    again = Experiment.from_settings(result.settings)
    assert again.batchnorm


def test_the_source_model_answers_as_without(weights, loader):
    plain, made = (
        run(Experiment(method="source", weights=weights, batchnorm=given, **SMALL), loader=loader)
        for given in (False, True)
    )
    assert made.error == pytest.approx(plain.error, abs=2)  # rounding may turn an answer
    assert made.weights == plain.weights


def test_runs_in_a_row_measure_a_model_once(weights, loader):
    def made(**asked):
        experiment = Experiment(method="bn", weights=weights, **{**SMALL, **asked})
        return loader.both(experiment, torch.device("cpu")).model

    first = made(batchnorm=True)
    assert made(batchnorm=True, seed=1, protocol="ctta") is first
    plain = made()
    assert plain is not first
    assert not any(isinstance(m, nn.BatchNorm2d) for m in plain.modules())
    assert made(batchnorm=True) is first
    assert made(batchnorm=True, severity=3) is not first  # other data, so other training images


def test_without_it_a_method_that_keeps_statistics_says_what_is_missing(weights, loader):
    result = run(Experiment(weights=weights, **SMALL), loader=loader)
    assert result.notes == [
        "multipool: the model has no BatchNorm whose statistics could be kept; with clean "
        "training images --batchnorm puts some in"
    ]
    assert "batchnorm" not in result.settings


def test_a_model_of_batchnorm_layers_is_refused(loader):
    with pytest.raises(ValueError, match="no normalisation layer without statistics"):
        run(Experiment(method="bn", batchnorm=True, **SMALL), loader=loader)
