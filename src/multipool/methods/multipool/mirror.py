"""A second look, in a mirror, at the images whose answers are in doubt.

Most classes look the same in a mirror, and a model errs otherwise there: the mean of both answers
is right more often, by as much as methods gain that learn. Only where two classes are nearly as
likely can it change anything, so a small part of a batch is looked at again.

Where classes do not look the same in a mirror (digits, arrows), the mirror's answers give little to
the class that the first ones say. That is counted for each class, and only those are answered so
that the mirror has been shown to leave as likely as they were, or nearly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from multipool.methods.multipool.records import saved, sound
from multipool.methods.multipool.rules import Floats

_MARGIN = 0.5  # between the two likeliest classes: from here on there is no doubt
_AGREE = 0.65  # of a class's probability that the mirror leaves it, at least, if it does no harm
_ENOUGH = 8.0  # sum of these before anything is known
_PRIOR = 4.0  # of these, that what holds for all classes counts for in each
_MEMORY = 4000.0  # images after which most of what was found is forgotten, and asked again
_SAVED = 4.0  # looks that may be saved up, for images that come one by one


@dataclass(frozen=True)
class Looked:
    """What a second look found.

    ``agreed`` ``(2, L)``: of the answers in doubt that say this class, its probability by the
    mirror, and by the first look, summed. ``spent``: looks that the stream's share pays for.
    """

    agreed: Floats
    spent: int = 0


class Mirror:
    """How far a mirror leaves each of L classes as likely as it was, and looks saved up."""

    def __init__(self, num_classes: int) -> None:
        self.agreed = np.zeros((2, num_classes))
        self.credit = np.zeros(1)

    def agrees(self) -> npt.NDArray[np.bool_]:
        """Return for which classes the mirror has been shown to do no harm, ``(L,)``.

        >>> mirror = Mirror(2)
        >>> mirror.add(Looked(np.array([[20.0, 1.0], [20.0, 20.0]])), 40, 0.25)
        >>> mirror.agrees().tolist()
        [True, False]
        """
        left, said = self.agreed
        if not self.is_known:
            return np.zeros(len(said), dtype=np.bool_)
        every = left.sum() / said.sum()
        return np.asarray((left + _PRIOR * every) / (said + _PRIOR) >= _AGREE)

    @property
    def is_known(self) -> bool:
        """Whether enough has been seen to tell."""
        return bool(self.agreed[1].sum() >= _ENOUGH)

    def looks(self, images: int, share: float) -> int:
        """Return at how many of these ``images`` the stream's ``share`` lets us look again."""
        return min(images, int(self.credit[0] + share * images))

    def add(self, looked: Looked, images: int, share: float) -> None:
        """Take in what was found about a batch; NaN, of a broken model, not."""
        self.credit[0] = min(self.credit[0] + share * images - looked.spent, _SAVED)
        if np.isfinite(looked.agreed).all():
            self.agreed = self.agreed * (1 - 1 / _MEMORY) ** images + looked.agreed

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that moves."""
        return saved(self, ("agreed", "credit"))

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over a saved state, or raise ``ValueError`` and stay as it was."""
        anew = Mirror(self.agreed.shape[1]).state_dict()  # nobody looked again before 0.3
        found = sound(self, ("agreed", "credit"), state or anew, "mirror's")
        if (found["agreed"] < 0).any() or found["credit"][0] > _SAVED:
            raise ValueError("the mirror's state has counts below zero or too many looks saved")
        vars(self).update(found)


def doubtful(logits: Tensor, most: int, asked: Tensor, always: bool = False) -> Tensor:
    """Return the rows ``(R,)`` with the least margin between two classes, ``most`` at the most.

    ``asked`` ``(B,)`` bool says which rows may be taken. ``always`` so many, in doubt or not, where
    each number of rows has its own recording and the host does not wait; :func:`joined` leaves
    those alone that are not in doubt.

    >>> doubtful(torch.tensor([[9.0, 0.0], [1.0, 0.9], [1.0, 1.0]]), 2, torch.ones(3).bool())
    tensor([2, 1])
    """
    margins = _margin(logits).masked_fill(~asked, torch.inf)
    least = margins.topk(min(most, len(margins)), largest=False)
    return least.indices if always else least.indices[least.values < _MARGIN]


def joined(first: Tensor, again: Tensor, asked: Tensor, agrees: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logits ``(R, L)`` of both looks together, and how far they agree ``(2, L)``.

    The mean of both, where the first is in doubt about a row that is ``asked`` ``(R,)`` and says a
    class for which the mirror ``agrees`` ``(L,)``; elsewhere the first.
    """
    p, q = first.softmax(dim=1), again.softmax(dim=1)
    doubt = (_margin(first) < _MARGIN) & asked
    likely, says = p.max(dim=1)
    left = torch.stack([q.gather(1, says[:, None])[:, 0], likely])  # (2, R)
    agreed = torch.zeros(2, p.shape[1], dtype=p.dtype, device=p.device)
    agreed.index_add_(1, says, left * doubt)
    both = (doubt & agrees[says])[:, None]
    return torch.where(both, first.lerp(again.to(first.dtype), 0.5), first), agreed


def _margin(logits: Tensor) -> Tensor:
    """Return how much likelier the likeliest class is than the next, ``(B,)``."""
    two = logits.float().softmax(dim=1).topk(2, dim=1).values
    return two[:, 0] - two[:, 1]
