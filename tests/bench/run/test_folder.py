"""What a run asks of the folder it writes to: that it is its own, and that weights are the same."""

from __future__ import annotations

import json
import os
import signal
import stat

import pytest
import torch

from multipool import models
from multipool.bench.run import checkpoint, claim
from multipool.bench.run import loader as loading
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.result import FILE, Result, read
from multipool.bench.run.runner import Interrupted, NotWrittenError, run

EXPERIMENT = Experiment(method="rotta", batch_size=8, device="cpu")


@pytest.fixture
def interrupted(loader, tmp_path):
    """A folder with the checkpoint of a run that was interrupted."""
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def stop(step):
        if step.total:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(Interrupted):
        run(EXPERIMENT, tmp_path / "run", stop, loader=loader)
    return tmp_path / "run"


def test_a_digest_follows_the_content_of_a_file_and_not_its_name(tmp_path):
    path = tmp_path / "model.safetensors"
    found = []
    model = models.build("wrn10-1", 4)
    for bias in (0.0, 0.0, 1.0):
        torch.nn.init.constant_(models.classifier(model).bias, bias)
        models.save(model, path, {"architecture": "wrn10-1"})
        found.append(loading.weights_digest(str(path)))
        assert found[-1] == loading.model_digest(models.load(path))
    assert found[0] == found[1] != found[2]
    assert loading.weights_digest("timm:resnet50") is None


def test_a_checkpoint_of_replaced_weights_is_refused(loader_class, interrupted):
    class Replaced(loader_class):
        def model(self, experiment, num_classes, device):
            model = super().model(experiment, num_classes, device)
            with torch.no_grad():
                model[5].bias.add_(0.5)
            return model

    with pytest.raises(ValueError, match="made with other weights than shapes-wrn10-1 holds now"):
        run(EXPERIMENT, interrupted, resume=True, loader=Replaced())


def test_a_result_of_replaced_weights_is_not_returned_as_that_of_the_new_ones(
    loader, tmp_path, monkeypatch
):
    run(EXPERIMENT, tmp_path, loader=loader)
    monkeypatch.setattr(loading, "weights_digest", lambda name, architecture=None: "another")
    with pytest.raises(ValueError, match=r"result\.json was made with other weights"):
        run(EXPERIMENT, tmp_path, resume=True, loader=loader)


def test_a_folder_that_holds_a_run_is_not_written_over(loader, tmp_path, interrupted):
    kept = (interrupted / FILE).read_bytes()
    with pytest.raises(ValueError, match="holds a run already .*--resume, or use another --out"):
        run(EXPERIMENT, interrupted, loader=loader)
    assert (interrupted / FILE).read_bytes() == kept
    assert run(EXPERIMENT, interrupted, resume=True, loader=loader).complete
    assert not (interrupted / claim.FILE).exists()


def test_a_second_run_is_refused_while_the_first_lives(loader, tmp_path):
    refused = []

    def second(step):
        if step.total and not refused:
            for resume in (False, True):
                with pytest.raises(ValueError, match=f"a run is going on in .* {os.getpid()} "):
                    run(EXPERIMENT, tmp_path, resume=resume, loader=loader)
            refused.append(step.done)

    assert run(EXPERIMENT, tmp_path, second, loader=loader).complete
    assert refused


def test_a_folder_that_cannot_be_is_told_before_anything_is_loaded(tmp_path):
    (tmp_path / "file").write_text("no folder")
    loaded = []
    with pytest.raises(ValueError, match="cannot write into .*file/out: Not a directory"):
        run(EXPERIMENT, tmp_path / "file" / "out", loaded.append)
    assert not loaded


def test_a_result_that_cannot_be_written_is_not_lost(loader, tmp_path, monkeypatch):
    def full(self, folder):
        raise OSError(28, "No space left on device", str(folder))

    monkeypatch.setattr(Result, "write", full)
    monkeypatch.setattr(checkpoint.Checkpoint, "write", full)
    with pytest.raises(NotWrittenError, match="No space left") as caught:
        run(EXPERIMENT, tmp_path / "out", checkpoint_every=2, loader=loader)
    assert caught.value.result.complete
    assert caught.value.result.notes == [
        "a checkpoint could not be written: No space left on device"
    ]
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_a_checkpoint_holds_images_and_is_its_owners_alone(interrupted):
    assert stat.S_IMODE((interrupted / checkpoint.FILE).stat().st_mode) == 0o600


def test_a_run_without_a_folder_keeps_nothing(loader, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(EXPERIMENT, loader=loader)
    assert json.loads(json.dumps(result.as_dict()))["complete"]
    assert [path.name for path in tmp_path.iterdir()] in ([], ["cache"])
    with pytest.raises(FileNotFoundError, match="no result at"):
        read(tmp_path / FILE)
