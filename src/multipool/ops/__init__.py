"""Pure tensor functions and model surgery: losses, normalisation, branches, augmentation.

A method is a short class over these blocks; no block knows which method calls it.
"""

from multipool.ops.augment import View, ViewParameters
from multipool.ops.branch import Branch
from multipool.ops.classes import class_means
from multipool.ops.network import Group, Network
from multipool.ops.normalise import LayerState, Policy, Robust, batch, frozen
from multipool.ops.optimise import FlatAdam
from multipool.ops.probability import (
    entropy,
    soft_cross_entropy,
    symmetric_cross_entropy,
    uncertainty,
)
from multipool.ops.steering import activated

__all__ = [
    "Branch",
    "FlatAdam",
    "Group",
    "LayerState",
    "Network",
    "Policy",
    "Robust",
    "View",
    "ViewParameters",
    "activated",
    "batch",
    "class_means",
    "entropy",
    "frozen",
    "soft_cross_entropy",
    "symmetric_cross_entropy",
    "uncertainty",
]
