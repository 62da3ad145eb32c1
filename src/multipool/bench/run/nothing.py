"""The result of a run that measured nothing."""

from __future__ import annotations

import torch

from multipool.bench.run.environment import host, versions
from multipool.bench.run.experiment import Experiment
from multipool.bench.run.result import Result


def nothing(experiment: Experiment, device: torch.device) -> Result:
    """Return the result of a run that was ended before its first batch."""
    return Result(
        error=None,
        errors={},
        complete=False,
        settings=experiment.settings(),
        versions=versions(),
        seed=experiment.seed,
        samples=0,
        total=0,
        host=host(device),
    )
