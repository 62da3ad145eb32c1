"""Corruptions: the 15 common and 4 extra ones of CIFAR-C, Tiny-ImageNet-C and ImageNet-C.

:func:`corrupt` makes any of them, at severities 1 to 5, for a whole batch at once. The files follow
the families of Hendrycks and Dietterich (ICLR 2019); the constants are theirs, the code is ours.
``COMMON`` has the order in which the paper streams the 15.
"""

from multipool.data.corruptions.corrupt import COMMON, CORRUPTIONS, EXTRA, corrupt
from multipool.data.corruptions.frost import frost_source
from multipool.data.corruptions.parameters import PARAMETER_SETS, ParameterSet

__all__ = [
    "COMMON",
    "CORRUPTIONS",
    "EXTRA",
    "PARAMETER_SETS",
    "ParameterSet",
    "corrupt",
    "frost_source",
]
