"""Comparisons: which method for which kind of stream.

``compare(out, Setting(...))`` runs methods on kinds of stream (``SCALES``) as a sweep and writes
``compare.csv`` and ``compare.html``: regret, the error minus the best of the same stream. On a
machine without the command line's packages it does the same as ``multipool compare``.
"""

from multipool.bench.compare.drive import Comparison, Setting, cases, compare, write_tables
from multipool.bench.compare.entrant import Entrant
from multipool.bench.compare.judge import DECODE, Judgement, judge, speeds
from multipool.bench.compare.kind import Kind
from multipool.bench.compare.rows import Row, read_rows
from multipool.bench.compare.scales import SCALES, Scale

__all__ = [
    "DECODE",
    "SCALES",
    "Comparison",
    "Entrant",
    "Judgement",
    "Kind",
    "Row",
    "Scale",
    "Setting",
    "cases",
    "compare",
    "judge",
    "read_rows",
    "speeds",
    "write_tables",
]
