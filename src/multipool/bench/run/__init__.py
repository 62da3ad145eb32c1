"""One experiment: what it is, how it is run, and what is written down about it.

``Experiment`` says what to run; ``run`` runs it and returns a ``Result``. Nothing here needs
typer, rich, yaml, pooch or matplotlib, so a machine with torch alone can do it:

>>> from multipool.bench.run import Experiment, run
>>> experiment = Experiment(method="source", limit=150, device="cpu")
"""

from multipool.bench.run.experiment import Experiment
from multipool.bench.run.result import Result
from multipool.bench.run.runner import Interrupted, Progress, run

__all__ = ["Experiment", "Interrupted", "Progress", "Result", "run"]
