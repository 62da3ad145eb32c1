"""When to look for a collapse, and what to go back to: a good state, or the beginning."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from multipool.engine.collapse import WINDOW, Verdict, judge, tally
from multipool.engine.method import Method

EVERY, EXPENSIVE = 16, 64  # batches between two looks; of methods whose prediction is expensive
REST = 256  # batches without learning after the first collapse; each later rest is twice as long
LONGEST = 8192  # batches
CALM = 4  # times as long between two probes while all is well
_GOOD, _PROBES, _NUMBERS = "guard.good.", "guard.probes", "guard.numbers"


def probe_interval(method: Method | type[Method]) -> int:
    """Return how many batches lie between two looks for a collapse; 0: it cannot collapse."""
    if not method.self_training:
        return 0
    return EXPENSIVE if method.expensive else EVERY


class Recovery:
    """Keeps the state before any learning and a good one of later, and knows when to rest.

    ``every`` batches the caller probes: it predicts one batch from the state before any learning,
    too; a quarter as often while all is well. After a collapse, learning rests: a stream that has
    ruined the model once does so again.
    """

    def __init__(self, tensors: Mapping[str, Tensor], num_classes: int, every: int) -> None:
        self.every = every
        self.restored = 0
        self._live = dict(tensors)
        self._home = {name: t.detach().clone() for name, t in tensors.items()}
        self._good = {name: t.detach().clone() for name, t in tensors.items()}
        self._probes = torch.zeros(WINDOW, 2, num_classes + 1, dtype=torch.float64)
        # Batch numbers; what is counted is counted by the adapter.
        self._numbers = {"probes": 0, "trips": 0, "rest_until": 0, "good_seen": 0}
        self._calm = False  # follows from the probes

    def resting(self, batches: int) -> bool:
        """Tell whether learning rests, after so many batches."""
        return batches < self._numbers["rest_until"]

    def rest(self, batches: int) -> int:
        """Return how many batches after the one that follows so many will not be learned from."""
        return max(0, self._numbers["rest_until"] - batches - 1)

    def due(self, batches: int) -> bool:
        """Tell whether the batch after so many is one to probe."""
        return (batches + 1) % (self.every * CALM if self._calm else self.every) == 0

    def probe(self, live: Tensor, home: Tensor, batches: int, seen: int) -> Verdict:
        """Take in the logits ``(B, L)`` of both states for one batch; keep a state that is good."""
        # One copy to the host: to count there is quicker than to launch what counts.
        logits = torch.cat([live, home]).cpu().split([len(live), len(home)])
        found = torch.stack([tally(part) for part in logits])
        self._probes = torch.cat([self._probes[1:], found[None]])
        self._numbers["probes"] += 1
        verdict = self._verdict()
        self._calm = verdict.calm
        if verdict.healthy and (batches + 1) % (self.every * WINDOW) == 0:
            self._copy(self._live, self._good)
            self._numbers["good_seen"] = seen
        return verdict

    def go_home(self) -> None:
        """Put the state before any learning in place, to probe it; the caller puts it back."""
        self._copy(self._home, self._live)

    def restore(self, batches: int, *, source: bool) -> tuple[str, int]:
        """Go back to a good state, or to the beginning; return its name and what it had seen.

        The beginning also follows where the good state did not last for two windows of probes.
        """
        numbers = self._numbers
        lasted = batches - numbers["rest_until"]
        source = source or (numbers["trips"] > 0 and lasted < 2 * WINDOW * self.every)
        self._copy(self._home if source else self._good, self._live)
        if source:
            self._copy(self._home, self._good)
            numbers["good_seen"] = 0
        self.restored += 1
        rest = min(LONGEST, REST * 2 ** min(numbers["trips"], 16))
        numbers.update(probes=0, trips=numbers["trips"] + 1, rest_until=batches + 1 + rest)
        self._calm = False
        return ("the source model" if source else "the last good state"), numbers["good_seen"]

    def state_dict(self) -> dict[str, Tensor]:
        """Return what decides about the future, flat, as copies on the CPU."""
        state = {_GOOD + name: t.cpu().clone() for name, t in self._good.items()}
        numbers = torch.tensor(list(self._numbers.values()))
        return {**state, _PROBES: self._probes.clone(), _NUMBERS: numbers}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Put back what :meth:`state_dict` returned."""
        self._copy({name: state[_GOOD + name] for name in self._good}, self._good)
        self._probes = state[_PROBES].clone()
        self._numbers = dict(zip(self._numbers, state[_NUMBERS].tolist(), strict=True))
        self._calm = self._numbers["probes"] > 0 and self._verdict().calm

    def _verdict(self) -> Verdict:
        return judge(self._probes[-min(WINDOW, self._numbers["probes"]) :])

    @torch.no_grad()
    def _copy(self, origin: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
        """Copy in place: graphs know the tensors by where they are."""
        torch._foreach_copy_(list(target.values()), [origin[name] for name in target])
