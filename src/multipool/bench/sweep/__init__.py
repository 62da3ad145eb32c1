"""Sweeps: many experiments from one file, on all cores, GPUs or machines, each done once.

``grid.read`` turns a file into checked runs (``Planned``), ``plan.plan`` says what is done and how
long the rest may take, ``drive.sweep`` does it with a backend of ``BACKENDS``, ``collect.collect``
writes the tables. A run's folder is named after its settings, so whatever asks for the same run,
now or later, finds it. ``python -m multipool.bench.sweep`` needs neither typer nor yaml.
"""

from multipool.bench.sweep.collect import collect
from multipool.bench.sweep.drive import BACKENDS, Ended, sweep
from multipool.bench.sweep.grid import expand, read
from multipool.bench.sweep.ledger import News
from multipool.bench.sweep.options import Options
from multipool.bench.sweep.plan import Plan, plan, with_trials
from multipool.bench.sweep.planned import Planned

__all__ = [
    "BACKENDS",
    "Ended",
    "News",
    "Options",
    "Plan",
    "Planned",
    "collect",
    "expand",
    "plan",
    "read",
    "sweep",
    "with_trials",
]
