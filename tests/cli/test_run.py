from __future__ import annotations

import json
import shlex
import signal
from dataclasses import fields

import pytest

from multipool.bench.run.experiment import Experiment
from multipool.bench.run.rerun import command
from multipool.bench.run.result import VARYING, Result

SMALL = ("--batch-size", 8, "--device", "cpu")


def test_the_same_run_twice_gives_the_same_file_but_for_times(call, tiny, tmp_path):
    contents = []
    for name in "ab":
        code, out, _ = call("run", "--method", "source", *SMALL, "--out", tmp_path / name)
        assert code == 0
        assert "mean" in out
        content = json.loads((tmp_path / name / "result.json").read_text())
        contents.append({k: v for k, v in content.items() if k not in VARYING})
    assert contents[0] == contents[1]
    assert contents[0]["complete"] is True


def test_json_prints_the_result_and_nothing_else(call, tiny):
    code, out, err = call("run", "--method", "bn", *SMALL, "--json")
    content = json.loads(out)
    assert code == 0
    assert err == ""
    assert content["settings"]["method"] == "bn"
    assert set(content["errors"]) == {"dark", "plain", "bright"}


def test_quiet_prints_the_error_alone(call, tiny):
    _, out, err = call("run", "--method", "source", *SMALL, "--quiet")
    assert 0 <= float(out) <= 100
    assert err == ""


def test_a_decoded_run_shows_both_errors_the_estimate_and_its_pools(call, tiny, tmp_path):
    code, out, err = call("run", *SMALL, "--out", tmp_path)
    found = json.loads((tmp_path / "result.json").read_text())
    assert code == 0
    assert f"{found['undecoded_error']:.2f}" in out.split("mean, undecoded")[1]
    assert f"estimated error at the end, without labels: {100 - found['estimate']:.2f} %" in err
    assert f"{found['pools']['pools']} pools at the end; " in err
    assert f"{found['pools']['created']} created" in err
    _, out, err = call("run", "--method", "rotta", *SMALL)
    assert "undecoded" not in out
    assert "estimated" not in err
    assert "pools" not in err


def test_hyperparameters_reach_method_and_memory(call, tiny):
    options = ("--set", "lr=0.5", "--set", "memory.capacity=16", "--set", "update-every=32")
    code, out, _ = call("run", "--method", "rotta", "--memory", "mcm", *options, *SMALL, "--json")
    settings = json.loads(out)["settings"]
    assert code == 0
    assert settings["options"]["lr"] == 0.5
    assert settings["options"]["update_every"] == 32
    assert settings["memory_options"] == {"capacity": 16}
    assert json.loads(out)["counts"]["updates"] == 8


def test_ctrl_c_leaves_what_was_measured_and_resume_goes_on(call, tiny, tmp_path, monkeypatch):
    import multipool.bench.run.runner as runner

    args = ("run", "--method", "rotta", *SMALL, "--out", tmp_path, "--quiet")
    real = runner.Session.step

    def step(self, images):
        real(self, images)
        if self.batches == 12:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(runner.Session, "step", step)
    code, out, err = call(*args)
    assert (code, out) == (130, "")
    assert "interrupted after 96 of 270 samples; go on with: multipool run" in err
    assert f"--method rotta --batch-size 8 --device cpu --out {tmp_path} --resume" in err
    part = json.loads((tmp_path / "result.json").read_text())
    assert (part["complete"], part["samples"]) == (False, 96)
    monkeypatch.setattr(runner.Session, "step", real)
    code, out, _ = call(*args, "--resume")
    assert code == 0
    done = json.loads((tmp_path / "result.json").read_text())
    assert (done["complete"], done["samples"]) == (True, 270)


def test_a_result_that_cannot_be_written_is_printed_all_the_same(call, tiny, tmp_path, monkeypatch):
    def full(self, folder):
        raise OSError(28, "No space left on device", str(folder))

    monkeypatch.setattr(Result, "write", full)
    code, out, err = call("run", "--method", "source", *SMALL, "--quiet", "--out", tmp_path / "a")
    assert code == 1
    assert 0 <= float(out) <= 100
    assert "error: No space left on device" in err


def test_an_occupied_folder_is_refused(call, tiny, tmp_path):
    args = ("run", "--method", "source", *SMALL, "--quiet", "--out", tmp_path)
    assert call(*args)[0] == 0
    code, _, err = call(*args)
    assert code == 2
    assert "go on with it by --resume, or use another --out" in err


def test_every_setting_travels_from_the_command_line_to_the_file_and_back(call, tiny, monkeypatch):
    everything = Experiment(
        dataset="folder",
        size=64,
        classes="classes.txt",
        method="petta",
        memory="mcm",
        protocol="few",
        model="wrn10-1",
        weights="shapes-wrn10-1",
        batchnorm=True,
        data_dir="/data",
        domains=("fog", "snow"),
        severity=3,
        batch_size=8,
        gamma=0.5,
        rounds=2,
        shown=5,
        seed=7,
        device="cpu",
        guard=True,
        fallback="source",
        limit=40,
        distinct=True,
        source="train",
        precision="bf16",
        compile=True,
        reset_every=9,
        decode="sequence",
        options={"lr": 0.5},
        memory_options={"capacity": 16},
    )
    plain = Experiment()
    same = [f.name for f in fields(Experiment) if getattr(everything, f.name) == f.default]
    assert not same, "a setting of which this test does not know"
    seen = []

    def caught(experiment, *args, **kwargs):
        seen.append(experiment)
        raise ValueError("enough")

    monkeypatch.setattr("multipool.cli.run.run", caught)
    for experiment in (everything, plain):
        words = shlex.split(command(experiment.settings()))
        call(*words[1:])
        assert seen[-1].settings() == experiment.settings()
        assert Experiment.from_settings(experiment.settings()).settings() == experiment.settings()


def test_notes_about_the_source_data_are_told(call, tiny):
    _, _, err = call("run", "--method", "petta", *SMALL)
    assert "note: petta: the source data are 90 clean test images" in err
    _, _, err = call("run", "--method", "petta", "--source", "train", *SMALL)
    assert "note: petta: the source data are 90 training images" in err


@pytest.mark.parametrize("text", ["lr", "=1", "a.b=1"])
def test_malformed_settings_are_refused(text):
    from multipool.cli.options import split_settings

    with pytest.raises(ValueError, match="--set takes KEY=VALUE"):
        split_settings([text])


def test_the_baseline_stands_beside_the_method_and_is_kept(call, tiny, tmp_path):
    code, out, err = call("run", "--method", "bn", *SMALL, "--baseline", "--out", tmp_path)
    assert code == 0
    ours = json.loads((tmp_path / "result.json").read_text())
    frozen = json.loads((tmp_path / "baseline" / "result.json").read_text())
    assert frozen["settings"]["method"] == "source"
    (line,) = (line for line in out.splitlines() if " mean " in line)
    gap = ours["error"] - frozen["error"]
    assert [part.strip() for part in line.strip("│ ").split("│")] == [
        "mean",
        f"{ours['error']:.2f}",
        f"{frozen['error']:.2f}",
        f"{gap:+.2f}",
    ]
    assert ("took" if gap <= 0 else "cost") + f" {abs(gap):.1f} points" in err


def test_the_baseline_in_json_and_quietly(call, tiny):
    _, out, _ = call("run", "--method", "bn", *SMALL, "--baseline", "--json")
    content = json.loads(out)
    assert content["baseline"]["settings"]["method"] == "source"
    _, out, _ = call("run", "--method", "bn", *SMALL, "--baseline", "--quiet")
    assert out == f"{content['error']:.2f} {content['baseline']['error']:.2f}\n"


def test_the_source_model_has_no_baseline(call, tiny):
    code, _, err = call("run", "--method", "source", *SMALL, "--baseline")
    assert code == 2
    assert "got --method source; leave one out" in err


def test_pictures_without_labels_show_no_error_but_an_estimate(call, tmp_path):
    from PIL import Image

    for domain in ("day", "night"):
        (tmp_path / "own" / domain).mkdir(parents=True)
        for number in range(4):
            grey = Image.new("RGB", (32, 32), (60 * number,) * 3)
            grey.save(tmp_path / "own" / domain / f"{number}.png")
    words = ("--dataset", "folder", "--data-dir", tmp_path / "own", "--size", 32)
    words += ("--weights", "shapes-wrn10-1", "--batch-size", 4, "--device", "cpu")
    code, out, err = call("run", *words, "--predictions", tmp_path / "answers.csv")
    assert code == 0
    assert "nan" not in out + err
    assert "multipool on folder: the images have no labels, so there is no error" in err
    assert "estimated error at the end, without labels: " in err
    assert f"answers written to {tmp_path / 'answers.csv'}" in err
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == 9
    assert call("run", *words, "--quiet")[1].strip() == "nan"
