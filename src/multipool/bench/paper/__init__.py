"""The paper's tables and figures by id: run what they need, set ours beside the paper's numbers.

``TARGETS`` holds every id; ``grids`` says which experiment stands in which row and column, so the
table and the list of its runs are one thing. ``reproduce`` runs what is missing through a sweep
and writes ``ID.csv``, ``ID.md`` and the figures; runs that several ids share are made once.
``export`` writes the runs as a sweep's file, for a machine without typer, rich, yaml or matplotlib;
a folder of results is recognised wherever it was made.
"""

from multipool.bench.paper.drive import Made, missing_runs, obstacles, reproduce
from multipool.bench.paper.plan import cases_of, datasets_of, export
from multipool.bench.paper.reproduction import Reproduction
from multipool.bench.paper.setting import SCALES, Setting, assign_weights
from multipool.bench.paper.targets import ALL, TARGETS, chosen, title

__all__ = [
    "ALL",
    "SCALES",
    "TARGETS",
    "Made",
    "Reproduction",
    "Setting",
    "assign_weights",
    "cases_of",
    "chosen",
    "datasets_of",
    "export",
    "missing_runs",
    "obstacles",
    "reproduce",
    "title",
]
