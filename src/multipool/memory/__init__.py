"""Banks: what is kept of the stream, and what is handed back for adaptation.

The multi-cluster memory of the paper, its strategies as small pure functions in tables
(``DESCRIPTORS``, ``DISTANCES``, ``CONSOLIDATIONS``, ``RETRIEVALS``, ``REPLACEMENTS``, ``SPAWNS``),
and the single pools it is compared with. All follow the protocol ``Memory`` and are built by name
from the table ``MEMORIES``; ``compat.LegacyBank`` puts any of them into published code.
"""

from multipool.memory.class_balanced import ClassBalancedPool
from multipool.memory.compat import LegacyBank
from multipool.memory.confidence import ConfidencePool
from multipool.memory.consolidations import CONSOLIDATIONS, SPAWNS
from multipool.memory.descriptors import DESCRIPTORS
from multipool.memory.distances import DISTANCES
from multipool.memory.multicluster import MultiClusterMemory
from multipool.memory.pool import EntropyPool, FifoPool, Pool
from multipool.memory.presets import MEMORIES, build
from multipool.memory.protocol import Memory
from multipool.memory.replacements import REPLACEMENTS
from multipool.memory.reservoir import ReservoirPool
from multipool.memory.retrievals import RETRIEVALS

__all__ = [
    "CONSOLIDATIONS",
    "DESCRIPTORS",
    "DISTANCES",
    "MEMORIES",
    "REPLACEMENTS",
    "RETRIEVALS",
    "SPAWNS",
    "ClassBalancedPool",
    "ConfidencePool",
    "EntropyPool",
    "FifoPool",
    "LegacyBank",
    "Memory",
    "MultiClusterMemory",
    "Pool",
    "ReservoirPool",
    "build",
]
