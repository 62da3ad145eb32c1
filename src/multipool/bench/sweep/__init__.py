"""Sweeps: many experiments from one file, on all cores, GPUs or machines, each done once.

``read`` turns a file into checked runs (``Planned``), ``make_plan`` says what is done and how
long the rest may take, ``sweep`` does it with a backend of ``BACKENDS``, ``collect_tables``
writes the tables. A run's folder is named after its settings, so whatever asks for the same run,
now or later, finds it. On a machine without the command line's packages,
``sweep(read("grid.json"), "out")`` does the same as ``multipool sweep``.
"""

from multipool.bench.sweep.collect import collect_tables
from multipool.bench.sweep.drive import BACKENDS, Ended, sweep
from multipool.bench.sweep.grid import expand, read
from multipool.bench.sweep.ledger import News
from multipool.bench.sweep.plan import Plan, make_plan, with_trials
from multipool.bench.sweep.planned import Planned
from multipool.bench.sweep.work import Options

__all__ = [
    "BACKENDS",
    "Ended",
    "News",
    "Options",
    "Plan",
    "Planned",
    "collect_tables",
    "expand",
    "make_plan",
    "read",
    "sweep",
    "with_trials",
]
