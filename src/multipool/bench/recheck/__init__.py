"""Rows checked by making them again: a file of results in, a verdict for every row out.

``read_file`` finds the certificates and numbers in a ``result.json`` or a table that ``sweep``,
``compare`` or ``reproduce`` wrote; ``recheck`` runs what a row's certificates say, with weights
and images that the caller has (``Places``), and compares. Nothing in a file names a place, and no
code that it names is run.
"""

from multipool.bench.recheck.again import Again, Places
from multipool.bench.recheck.recorded import Recorded, read_file
from multipool.bench.recheck.verdict import Number, Verdict, recheck

__all__ = ["Again", "Number", "Places", "Recorded", "Verdict", "read_file", "recheck"]
