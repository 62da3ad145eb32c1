"""What multipool says about a batch, and what it knows before all is decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from torch import Tensor

from multipool.engine import Prediction
from multipool.methods.multipool.events import Route
from multipool.methods.multipool.leaning import Trial
from multipool.methods.multipool.mirror import Looked
from multipool.methods.multipool.router import Router
from multipool.methods.multipool.rules import Floats
from multipool.methods.multipool.second_look import Look
from multipool.methods.multipool.shares import Shares
from multipool.ops import uncertainty

_NONE = Shares()
_NO_MATTER = 0.005  # by which the weight of a pool's statistics may differ from what was guessed


@dataclass(frozen=True)
class Routed(Prediction):
    """A prediction, and where its images belong; the router as it will be, if this is learned.

    ``shown``: for young pools, what their images show, ``(L + 2,)``, and by how much answers are
    surer with the pool's statistics in early layers. ``looked``: what the second look found.
    ``leaned``: what was found out about pools that may lean on others.
    """

    route: Route | None = None
    router: Router | None = None
    shown: Mapping[int, tuple[Floats, float]] = field(default_factory=dict)
    looked: Looked = field(kw_only=True)
    leaned: Mapping[int, Trial] = field(default_factory=dict)

    def decoded(self, labels: Tensor, doubt: Tensor) -> Prediction:
        """Return the same with what a decoder says, for banks."""
        return replace(self, labels=labels, doubt=doubt)

    def labelled(self) -> Prediction:
        """Return the same with what the logits themselves say, where no decoder has spoken."""
        if self.labels is not None:
            return self
        on_host = self.host_logits()
        return replace(self, labels=on_host.argmax(dim=1), doubt=uncertainty(on_host))


@dataclass(frozen=True)
class Answer:
    """Logits ``(B, L)``, and ``again``: how to answer images again that stand in some rows.

    ``pool`` is that of all images, if they have one, and ``shares`` its weight beside the source;
    ``look`` what a second look at all of them has made of the logits, if there was time for it.
    """

    logits: Tensor
    again: Callable[[Tensor, Tensor], Tensor]
    pool: int = -1
    shares: Shares = _NONE
    look: Look | None = None

    def fits(self, pools: list[int], shares: npt.NDArray[np.float32]) -> bool:
        """Tell whether images of these pools, which have these weights, have been answered."""
        if pools != [self.pool]:
            return False
        return bool((np.abs(np.subtract(self.shares, shares[self.pool])) < _NO_MATTER).all())
