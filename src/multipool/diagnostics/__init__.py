"""What Gaussian mixtures say about a stream, or about a memory's content.

:func:`clusterability` tells how many modes a stream shows at a time, before a memory is chosen;
:func:`memory_quality` whether a memory covers what the stream has shown, and
:class:`MemoryObserver` the same while a method runs. Nothing here knows a method or an experiment.
"""

from multipool.diagnostics.clusterability import Clusterability, clusterability
from multipool.diagnostics.described import describe
from multipool.diagnostics.mixture import COVARIANCES
from multipool.diagnostics.observer import Measured, MemoryObserver
from multipool.diagnostics.pca import Plane
from multipool.diagnostics.quality import (
    COMPONENTS,
    Quality,
    Reference,
    memory_quality,
    occupancy_quality,
)

__all__ = [
    "COMPONENTS",
    "COVARIANCES",
    "Clusterability",
    "Measured",
    "MemoryObserver",
    "Plane",
    "Quality",
    "Reference",
    "clusterability",
    "describe",
    "memory_quality",
    "occupancy_quality",
]
