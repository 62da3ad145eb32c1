"""The second look at images whose answers are in doubt, with the statistics of the first."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from multipool.engine import tensor_pass
from multipool.methods.multipool.mirror import Looked, doubtful, joined
from multipool.methods.multipool.rules import Ints
from multipool.methods.multipool.standing import PoolStanding
from multipool.ops.host import Arriving, sent
from multipool.ops.mirror import mirrored


class Part(NamedTuple):
    """Some images of a batch and how to answer them again; ``young`` ones of a young pool."""

    rows: Ints  # (R,)
    again: Callable[[Tensor, Tensor], Tensor]  # from their rows and views to logits
    young: bool


@dataclass(frozen=True)
class Look:
    """Logits ``(B, L)`` after a second look, and what that found, on its way to the host."""

    logits: Tensor
    found: Sequence[Arriving] = ()  # (2, L) each
    spent: int = 0

    def looked(self) -> Looked:
        """Return what was found, once it is there."""
        nothing = torch.zeros(2, self.logits.shape[1], dtype=torch.float64)
        return Looked(sum((one.wait() for one in self.found), nothing).numpy(), self.spent)


class SecondLook(PoolStanding, ABC):
    """Looks again, in a mirror, at images whose answers are in doubt."""

    def look_again(self, images: Tensor, logits: Tensor, parts: Sequence[Part]) -> Look:
        """Return the logits with a second look at what is in doubt, and what that found.

        Young pools, which take several passes anyway, may look at twice the share, and at classes
        for which the mirror has done no good so far: so that is asked again now and then.
        """
        if self.config.again == 0:
            return Look(logits)
        found, spent = [], 0
        logits = logits.clone()  # on a GPU the next pass writes where they lie
        old = sum(len(part.rows) for part in parts if not part.young)
        for part in parts:
            if (most := self._looks(len(images), part, old)) == 0:
                continue
            mine, worth, agrees = self._asked(part, len(images))
            rows, views, asked = self.doubtful_pass(images, logits, mine, worth, logits[:most, 0])
            if len(rows) == 0:
                continue
            again = part.again(rows, views)
            logits, agreed = self.joined_pass(logits, again, rows, asked, agrees)
            found.append(Arriving(agreed))
            spent += 0 if part.young else len(rows)
        return Look(logits, found, spent)

    def _looks(self, images: int, part: Part, old: int) -> int:
        """Return how many images of a part may be looked at again.

        Parts that are not young, of ``old`` images in all, have the stream's share together.
        """
        if part.young:  # of few sizes, on a GPU
            return int(2 * self.config.again * (images if self.beside_host else len(part.rows)))
        if self.mirror.is_known and not self.mirror.agrees().any():
            return 0
        most = self.mirror.looks(images if self.beside_host else old, self.config.again)
        return most * len(part.rows) // old

    def _asked(self, part: Part, images: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return which images ``(B,)`` bool are of a part, which classes ``(L,)`` are worth a look.

        And for which classes the mirror agrees, ``(L,)``; in one copy to the device.
        """
        agrees = self.mirror.agrees()
        mine = np.zeros(images, dtype=np.bool_)
        mine[part.rows] = True
        everything = part.young or not self.mirror.is_known
        worth = np.ones_like(agrees) if everything else agrees
        told = sent(np.concatenate([mine, worth, agrees]), self.device)
        first, second, third = told.split([images, len(worth), len(agrees)])
        return first, second, third

    @tensor_pass
    def doubtful_pass(
        self, images: Tensor, logits: Tensor, mine: Tensor, worth: Tensor, room: Tensor
    ) -> tuple[Tensor, ...]:
        """Return the rows ``(R,)`` in doubt, views of their images, and which of them are asked.

        Of the images that are ``mine`` ``(B,)``, and said to be of a class that is ``worth`` a look
        ``(L,)``; as many at the most as ``room`` is long, whatever it holds.
        """
        asked = mine & worth[logits.argmax(dim=1)]
        rows = doubtful(logits, len(room), asked, always=self.beside_host)
        return rows, self.network.prepare(mirrored(images[rows])), asked[rows]

    @tensor_pass
    def joined_pass(
        self, logits: Tensor, again: Tensor, rows: Tensor, asked: Tensor, agrees: Tensor
    ) -> tuple[Tensor, ...]:
        """Return all logits with those of both looks at ``rows``, and how far they agree."""
        both, agreed = joined(logits[rows], again, asked, agrees)
        return logits.index_copy(0, rows, both), agreed
