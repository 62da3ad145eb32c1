"""Whether predictions collapse: fewer classes, and surer of them, than without any learning.

Both are read from the same images, so a stream that shows few classes for a while, or images
that are hard, changes both sides alike. Where few classes are shown, a model that gets better
predicts fewer, too, and is surer: but others from probe to probe, while a model that collapses
predicts the same few whatever it sees. No label is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.ops import entropy

# How the thresholds were chosen is in docs/notebook/guard.md.
DIVERSITY = 0.95  # share of the classes left, below which a surer model has begun to collapse
CERTAINTY = 0.85  # share of the entropy left, below which a model is the surer one
RUIN = 0.5  # share of the classes left, below which nothing else matters
SPREAD = 0.92  # share of the difference between probes left, above which fewer classes are right
WINDOW = 8  # probes of a judgement
QUICK = 4  # probes that are enough to see ruin


@dataclass(frozen=True)
class Verdict:
    """Shares of the classes and of the entropy that are left, ruin included; 1: as at home."""

    diversity: float  # effective classes over those of the same method before any learning
    certainty: float  # mean entropy over that of the same method before any learning
    ruin: float  # diversity, of the last probes only
    lately: float  # certainty, of the last probes only
    spread: float  # how much predictions tell about the probe they are from, over home's
    full: bool  # whether there were enough probes for a fine judgement

    @property
    def collapsed(self) -> bool:
        """Tell whether learning has done harm that will not heal by itself."""
        fading = self.diversity < DIVERSITY and self.certainty < CERTAINTY
        return self.spread < SPREAD and (self.ruin < RUIN or (self.full and fading))

    @property
    def calm(self) -> bool:
        """Tell whether all is well, of late too, so that looking less often will do."""
        return self.healthy and self.ruin >= DIVERSITY and self.lately > (1 + CERTAINTY) / 2

    @property
    def healthy(self) -> bool:
        """Tell whether this state is worth keeping: as diverse as home, and not much surer."""
        as_before = self.diversity > (1 + DIVERSITY) / 2 and self.certainty > (1 + CERTAINTY) / 2
        return self.full and (self.diversity >= 1 or as_before)


@torch.no_grad()
def tally(logits: Tensor) -> Tensor:
    """Return how often each class is predicted, then the mean entropy, ``(B, L)`` to ``(L + 1,)``.

    >>> tally(torch.tensor([[9.0, -9.0], [0.0, 0.0]])).round(decimals=2)
    tensor([2.0000, 0.0000, 0.3500], dtype=torch.float64)
    """
    z = logits.double()
    counts = torch.bincount(z.argmax(dim=1), minlength=z.shape[1]).double()  # (L,)
    return torch.cat([counts, entropy(z).mean()[None]])


def effective_classes(counts: Tensor) -> float:
    """Return exp of the entropy of a histogram ``(L,)``: the number of classes in it.

    >>> round(effective_classes(torch.tensor([5.0, 5.0, 0.0])), 6)
    2.0
    """
    return float(_entropies(counts).exp())


def judge(probes: Tensor) -> Verdict:
    """Return the verdict on probes ``(P, 2, L + 1)``: tallies of the live model and of home.

    The oldest comes first.
    """
    counts, doubts = probes[:, :, :-1], probes[:, :, -1]  # (P, 2, L), (P, 2)
    sums = torch.stack([counts.sum(dim=0), counts[-QUICK:].sum(dim=0)])
    whole, quick = _entropies(sums)  # (2,) each: live and home, in nats
    # What a class says about the probe it was predicted in: the entropy of all predictions less
    # the mean entropy of each probe's, their mutual information.
    told = (whole - _entropies(counts).mean(dim=0)).tolist()
    sure, lately = doubts.mean(dim=0).tolist(), doubts[-QUICK:].mean(dim=0).tolist()
    return Verdict(
        diversity=_left(whole),
        certainty=sure[0] / max(sure[1], 1e-6),
        ruin=_left(quick) if len(probes) >= QUICK else 1.0,
        lately=lately[0] / max(lately[1], 1e-6),
        spread=told[0] / max(told[1], 1e-6),
        full=len(probes) >= WINDOW,
    )


def _entropies(counts: Tensor) -> Tensor:
    """Return the entropy of histograms ``(..., L)``, in nats."""
    shares = counts / counts.sum(dim=-1, keepdim=True).clamp_min(1)
    return torch.special.entr(shares).sum(dim=-1)


def _left(entropies: Tensor) -> float:
    """Return the share of home's effective classes that the live model still predicts."""
    return float((entropies[0] - entropies[1]).exp())
