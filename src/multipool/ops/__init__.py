"""Pure tensor functions and model surgery: losses, normalisation, branches, augmentation.

A method is a short class over these blocks; no block knows which method calls it.
"""

from multipool.ops.augment import View, ViewParameters
from multipool.ops.branch import Branch
from multipool.ops.classes import class_means
from multipool.ops.graphs import Graphed
from multipool.ops.network import Group, Network, activated
from multipool.ops.normalise import LayerState, Policy, Residual, Robust, batch, frozen
from multipool.ops.optimise import FlatAdam
from multipool.ops.probability import (
    age_weight,
    entropy,
    soft_cross_entropy,
    symmetric_cross_entropy,
    uncertainty,
)
from multipool.ops.pulls import PULLS, Cuts, cosine_pull, no_pull, squared_pull

__all__ = [
    "PULLS",
    "Branch",
    "Cuts",
    "FlatAdam",
    "Graphed",
    "Group",
    "LayerState",
    "Network",
    "Policy",
    "Residual",
    "Robust",
    "View",
    "ViewParameters",
    "activated",
    "age_weight",
    "batch",
    "class_means",
    "cosine_pull",
    "entropy",
    "frozen",
    "no_pull",
    "squared_pull",
    "soft_cross_entropy",
    "symmetric_cross_entropy",
    "uncertainty",
]
