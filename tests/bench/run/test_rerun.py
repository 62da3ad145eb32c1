from __future__ import annotations

import json
import shlex

import pytest

from multipool.bench.run.experiment import Experiment
from multipool.bench.run.rerun import command


@pytest.mark.parametrize(
    "experiment",
    [
        Experiment(),
        Experiment(method="source", limit=2000, seed=3),
        Experiment(method="petta", memory="mcm", source="train", options={"pull": 2.5}),
        Experiment(memory="mcm+", memory_options={"capacity": 32}, guard=True, compile=True),
        Experiment(protocol="recurring", rounds=4, domains=("fog", "snow"), batch_size=16),
        Experiment(protocol="few", shown=3, limit=60),
        Experiment(dataset="imagenet-c", method="petta", weights="shapes-wrn10-1"),
    ],
)
def test_the_command_makes_the_same_experiment(experiment, monkeypatch):
    """Read back by the command line itself."""
    from multipool.cli import run as cli
    from multipool.cli.main import main

    seen = []

    def catch(found, *args, **kwargs):
        seen.append(found)
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run", catch)
    settings = json.loads(json.dumps(experiment.settings()))
    with pytest.raises(SystemExit):
        main(shlex.split(command(settings))[1:])
    assert json.loads(json.dumps(seen[0].settings())) == settings
