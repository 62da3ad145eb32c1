"""Classifiers by name or by file: the architectures of the benchmarks and their weights.

Every model is a plain ``nn.Module`` from images ``(B, 3, H, W)`` in [0, 1] to logits ``(B, L)``:
normalisation is its own first step, and its last layer is an ``nn.Linear`` whose input are the
penultimate features. Parameter names are those of the published checkpoints, so they load.
``MODELS`` lists the architectures, ``SHIPPED`` the trained weights inside the package, ``HUBS``
the other packages that models can come from; ``wrap`` puts a normalisation into any model,
``with_batchnorm`` BatchNorm layers into one that has none.
"""

from multipool.models.batchnorm import with_batchnorm
from multipool.models.files import classifier, load, metadata, save
from multipool.models.heads import with_new_head, with_outputs
from multipool.models.hubs import HUBS, SPELLINGS, is_foreign
from multipool.models.normalise import Normalise, Normalised, wrap
from multipool.models.own_file import file_of, is_own
from multipool.models.table import MODELS, SHIPPED, Architecture, available, build

__all__ = [
    "HUBS",
    "MODELS",
    "SHIPPED",
    "SPELLINGS",
    "Architecture",
    "Normalise",
    "Normalised",
    "available",
    "build",
    "classifier",
    "file_of",
    "is_foreign",
    "is_own",
    "load",
    "metadata",
    "save",
    "with_batchnorm",
    "with_new_head",
    "with_outputs",
    "wrap",
]
