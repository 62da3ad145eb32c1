"""Test-time adaptation with a multi-cluster memory.

``multipool.adapt(model, method="rotta", memory="mcm")`` wraps a classifier so that it keeps
learning from the unlabelled images it is asked about; ``multipool.load`` continues a saved one.
"""

from multipool import data, diagnostics, memory, methods, models
from multipool.methods import adapt, load

__version__ = "0.1.0"

__all__ = ["adapt", "data", "diagnostics", "load", "memory", "methods", "models"]
