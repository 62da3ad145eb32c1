"""How far a pool's own statistics are trusted beside the source's: in early layers, in late ones.

Early layers see edges and colours, which a domain changes and a class hardly does; late ones see
classes. So the statistics of a pool that shows one class of ten are a domain's in early layers, and
in late ones only that class's: there they would take away what tells the class from others.

Which classes a pool shows is asked with its own statistics in all layers but the last third, which
has more and more of the source's. With the source's in all layers a shifted model favours a few
classes, whatever is shown; with the pool's own in all layers it spreads its answers over all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from multipool.methods.multipool.rules import Floats, effective_samples, trust

_ANSWERED = (0.4, 0.8)  # share of the depth that counts as early, and from which on as late
_ASKED = (0.7, 1.0)  # the same where a pool is asked which classes it shows
_FAVOUR = 0.5  # of 1/L: so uneven are the answers of any model
_EARLY = 0.2  # of a class's samples' likeness: what early layers have of it
_APART = 16.0  # squared distance of two classes in late layers, as that of domains is measured


class Shares(NamedTuple):
    """A number for early layers and one for late ones; layers between have some of both.

    Mostly the weight of a pool's own statistics, 0 to 1.

    >>> Shares(0.9, 0.1).mean(0.25)
    0.7
    """

    early: float = 0.0
    late: float = 0.0

    def mean(self, late: float) -> float:
        """Return the weight on average, if a share ``late`` of the layers is late."""
        return self.early + late * (self.late - self.early)


def lateness(layers: int) -> Tensor:
    """Return how far each normalisation layer counts as late, ``(2, layers)``, 0 to 1.

    First where a pool answers, then where it is asked which classes it shows.

    >>> lateness(5)
    tensor([[0.0000, 0.0000, 0.2500, 0.8750, 1.0000],
            [0.0000, 0.0000, 0.0000, 0.1667, 1.0000]])
    """
    depth = torch.linspace(0, 1, layers, dtype=torch.float32)
    ramps = [(depth - start) / (stop - start) for start, stop in (_ANSWERED, _ASKED)]
    return torch.stack(ramps).clamp(0, 1)


def unevenness(shown: Floats) -> float:
    """Return sum (p_c - 1/L)^2 of the classes shown, ``(L,)`` summed probabilities of n images.

    What chance brings (1/n), and what a model favours anyway, is taken off. 0 before any image.

    >>> unevenness(np.array([50.0, 50.0])), round(unevenness(np.array([100.0, 0.0])), 2)
    (0.0, 0.24)
    """
    images = float(shown.sum())
    if images == 0:
        return 0.0
    alike = float(np.square(shown).sum()) / images**2  # of two images, that their class is the same
    return max(0.0, alike - (1 + _FAVOUR) / len(shown) - 1 / images)


def independent(counts: Floats, likeness: float) -> Shares:
    """Return how many independent samples classes of these ``counts`` ``(L,)`` are worth.

    Samples of one class have a correlation of ``likeness`` in late layers, a fifth in early ones.

    >>> independent(np.array([10.0, 0.0]), 1.0)
    Shares(early=3.57142857142857, late=1.0)
    """
    return Shares(effective_samples(counts, _EARLY * likeness), effective_samples(counts, likeness))


def shares(samples: Shares, shift: float, uneven: float, prior: float) -> Shares:
    """Return how far a pool is trusted.

    Its statistics err by 1/n, n its independent ``samples``; in late layers also by the ``uneven``
    part of the classes it shows, times how far classes lie apart there.
    """
    late = samples.late / (1 + samples.late * _APART * uneven)
    return Shares(trust(samples.early, shift, prior), trust(late, shift, prior))


def evenness(shown: Floats) -> float:
    """Return 1 where all classes are shown, less the fewer they are.

    >>> evenness(np.array([50.0, 50.0])), round(evenness(np.array([100.0, 0.0])), 2)
    (1.0, 0.21)
    """
    return 1 / (1 + _APART * unevenness(shown))
