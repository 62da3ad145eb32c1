"""How far a pool's own statistics are trusted beside the source's: in early layers, in late ones.

Early layers see edges and colours, which a domain changes and a class hardly does; late ones see
classes. So the statistics of a pool that shows one class of ten are a domain's in early layers, and
in late ones only that class's: there they would take away what tells the class from others.

Which classes a pool shows is asked with its own statistics in all layers but the last third, which
has more and more of the source's. With the source's in all layers a shifted model favours a few
classes, whatever is shown; with the pool's own in all layers it spreads its answers over all.

Where classes come in runs it is the same with the samples of one class, which are less alike to
early layers than to late ones.

Early layers are not quite the same for all classes, and a class that the source model knows well
anyway is only harmed. So a pool of few classes is trusted there if answers are surer so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from multipool.methods.multipool.rules import Floats, trust

_ANSWERED = (0.4, 0.8)  # share of the depth that counts as early, and from which on as late
_ASKED = (0.7, 1.0)  # the same where a pool is asked which classes it shows
_FAVOUR = 0.5  # of L sum p^2: so uneven are the answers of any model
_CLEARLY = 1.0  # of the same: from here on few classes are certain
_DOUBT = 0.02  # of an answer's certainty: what a pool's statistics may cost it and still be taken
EARLY, LATE = 0.5, 1.5  # times how alike samples of one class are: so are they in such layers
_APART = 16.0  # squared distance of two classes in late layers, as that of domains is measured


class Shares(NamedTuple):
    """Weights of a pool's own statistics, 0 to 1; layers between early and late have some of both.

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


def shown(answers: Floats) -> Floats:
    """Return what answers ``(N, L)``, probabilities, say about the classes shown, ``(N, L + 2)``.

    Sums over images are kept: of the probabilities, of their entropy, and of their squares.
    """
    doubt = -(answers * np.log(np.maximum(answers, 1e-12))).sum(axis=1)
    return np.column_stack([answers, doubt, np.square(answers).sum(axis=1)])


def certainty(logits: Tensor) -> Floats:
    """Return how sure answers with these logits ``(N, L)`` are: the largest probability, ``(N,)``.

    >>> certainty(torch.zeros(2, 4)).tolist()
    [0.25, 0.25]
    """
    return np.asarray(logits.double().softmax(dim=1).amax(dim=1).cpu().numpy())


def is_surer(gain: float, sums: Floats, runs: float = 0.0) -> bool:
    """Tell whether answers are as sure with a pool's statistics in early layers, or surer.

    ``gain`` in certainty and ``sums`` ``(L + 2,)`` are summed over the images that it has shown.
    Where classes are known to come in ``runs``, 0 to 1, any loss counts: the other way to answer is
    then one that is good for all classes, too.

    >>> is_surer(-1.0, np.full(102, 1.0)), is_surer(-1.0, np.full(102, 1.0), runs=1.0)
    (True, False)
    """
    return bool(gain >= -_DOUBT * (1 - runs) * float(sums[:-2].sum()))


def unevenness(sums: Floats) -> float:
    """Return how far few classes are shown: 0 for all L alike, 1 - 1/L for one.

    ``sums`` ``(L + 2,)`` are those of :func:`shown` over n images. That their mean answer p favours
    some classes is told by L sum p_c^2, 1 if none is: by pairs of images, since an image resembles
    itself; beyond what models favour anyway and what chance brings. How many classes k there are is
    told by what the answers have to do with the images, ln k = H(p) - mean H: a class whose
    statistics are taken off is answered by many, and surely by none. 0 before any image.

    >>> every, one = np.repeat(np.eye(4), 50, axis=0), np.eye(4)[np.zeros(200, dtype=int)]
    >>> unevenness(shown(every).sum(axis=0)), unevenness(shown(one).sum(axis=0))
    (0.0, 0.75)
    """
    images, classes = float(sums[:-2].sum()), len(sums) - 2
    if images <= 1:
        return 0.0
    p, (doubt, sharpness) = sums[:-2] / images, sums[-2:] / images
    alike = classes * (float(np.square(p).sum()) - sharpness / images) / (1 - 1 / images)
    chance = 2 * np.sqrt(2 * classes) * sharpness / images
    told = min(max(float(alike - 1 - _FAVOUR - chance), 0.0) / _CLEARLY, 1.0)
    known = float(np.exp(doubt + (p * np.log(np.maximum(p, 1e-12))).sum()))  # 1 / k
    return told * max(0.0, known - 1 / classes)


def shares(
    samples: tuple[float, float], shift: float, uneven: float, prior: float, surer: bool = True
) -> Shares:
    """Return how far a pool is trusted.

    Its statistics err by 1/n, n the independent ``samples`` it is worth to early and to late
    layers; in late ones also by the ``uneven`` part of the classes it shows, times how far classes
    lie apart there. In early ones they do not, if they make its answers ``surer``; else all layers
    are as late ones.
    """
    early, late = samples
    behind = trust(late / (1 + late * _APART * uneven), shift, prior)
    return Shares(trust(early, shift, prior) if surer else behind, behind)


def evenness(uneven: float) -> float:
    """Return 1 where all classes are shown, less the fewer they are.

    >>> evenness(0.0), evenness(1.0) < evenness(0.5)
    (1.0, True)
    """
    return 1 / (1 + _APART * uneven)
