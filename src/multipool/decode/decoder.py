"""The sequence decoder: what the order of a stream says about the classes of its samples."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from multipool.core import check_plain
from multipool.decode.belief import TEMPERATURES, Belief, believed
from multipool.decode.bias import Said, check_said, without_bias
from multipool.decode.chains import Array, from_both_sides, last_in_slots
from multipool.decode.compiled import compare, predict, predict_back
from multipool.decode.order import (
    LAGS,
    LONG,
    PAST,
    discounted,
    products,
    running_mean,
)
from multipool.decode.runs import MEMORY, STAYS, begin_shares, beginnings, resting_shares
from multipool.decode.saved import read
from multipool.decode.sharpen import choose_factor, sums, sureness
from multipool.decode.single import advance_one
from multipool.decode.state import State
from multipool.ops.host import product

_FLOOR = -80.0  # of log posteriors: exp of it is still a normal float32
_PIECE = 512  # samples decoded at once, which bounds the space


class SequenceDecoder:
    """Turn logits into posteriors, given that neighbours in the stream often share a class.

    Markov chains over the classes, with short and long runs as the stream has them, that take the
    model more or less literally, and no chain at all: each believed by how well it foretold the
    last ``window`` samples. Where none did better than samples without order, the softmax of the
    logits comes back as it is; so it does until neighbours have been seen to agree more than
    samples far apart. In a batch later samples speak for earlier ones too.

    Args:
        num_classes: L, the width of the logits.
        window: how many of the last samples decide which chain is believed.

    >>> decoder = SequenceDecoder(3)
    >>> runs = torch.eye(3).mul(4.0).repeat_interleave(20, dim=0).repeat(2, 1)
    >>> _ = decoder(runs)
    >>> doubtful = torch.tensor([[0.9, 1.0, 0.0]])
    >>> decoder(torch.cat([runs[:20], doubtful, runs[:20]])).argmax(dim=1)[20]
    tensor(0)
    """

    def __init__(self, num_classes: int, *, window: int = 256) -> None:
        for name, value, low in (("num_classes", num_classes, 2), ("window", window, 2)):
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= 2**20:
                raise ValueError(f"{name} must be a whole number of {low} to 2^20, got {value!r}")
        self.num_classes, self.window = num_classes, window
        self.reset()

    def reset(self) -> None:
        """Forget the stream."""
        self._state = State.fresh(self.num_classes)

    def __call__(self, logits: Tensor) -> Tensor:
        """Return log posteriors ``(B, L)`` of samples in the order of the stream, and go on."""
        answer, self._state = self._decode(logits)
        return answer

    def ahead(self, logits: Tensor, said: Said | None = None) -> tuple[Tensor, State]:
        """Return what a call would, and the state it would leave, for :meth:`go_on`.

        ``said``: what the model said of each sample's domain before, if domains are known.
        """
        return self._decode(logits, said)

    def go_on(self, state: State) -> None:
        """Take the state that :meth:`ahead` returned."""
        self._state = state

    def peek(self, logits: Tensor) -> Tensor:
        """Return what a call would, and stay where the stream is."""
        return self._decode(logits)[0]

    @property
    def gate(self) -> float:
        """Belief that the stream has an order: 1 less the weight of no chain."""
        return self._belief().gate

    @property
    def persistence(self) -> float:
        """The expected stay probability, 0 as long as the gate is closed."""
        weights = self._belief().weights
        if not weights.any():
            return 0.0
        stays = resting_shares(begin_shares(self._state.begun)) @ STAYS
        return float(weights @ stays / weights.sum())

    @property
    def estimate(self) -> float | None:
        """The expected accuracy over the last window: the mean of the highest posteriors."""
        return self._state.estimate

    def state_dict(self) -> dict[str, Tensor]:
        """Return what is needed to go on bit for bit."""
        return self._state.tensors()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a saved state; one that does not fit is refused and changes nothing."""
        self._state = read(state, self.num_classes, self.window)

    def __repr__(self) -> str:
        return (
            f"SequenceDecoder({self.num_classes}, window={self.window}) after {self._state.seen} "
            f"samples: gate {self.gate:.2f}, persistence {self.persistence:.2f}, "
            f"lag {self._state.lag}"
        )

    def _belief(self) -> Belief:
        return self._state.belief(self._state.evidence)

    def _decode(self, logits: Tensor, said: Said | None = None) -> tuple[Tensor, State]:
        _check(logits, self.num_classes)
        state, answers = self._state, []
        given: Array = logits.detach().to("cpu", torch.float64).numpy()
        if not np.isfinite(given).all():
            raise ValueError(
                "logits must be finite, got NaN or infinity; mask or drop those samples"
            )
        if said is not None:
            check_said(said, len(given), self.num_classes)
        step = advance_one if len(given) == 1 else advance
        for start in range(0, len(given), _PIECE):
            piece = slice(start, start + _PIECE)
            known = None if said is None else said.part(piece)
            answer, state = step(state, given[piece], self.window, known)
            answers.append(answer)
        if len(answers) != 1:
            answers = [np.concatenate([np.empty((0, self.num_classes)), *answers])]
        kept = np.maximum(answers[0], _FLOOR).astype(np.float32)
        return torch.from_numpy(kept).to(logits.device), state


def advance(
    state: State, logits: Array, window: int, said: Said | None = None
) -> tuple[Array, State]:
    """Return log posteriors ``(B, L)`` of float64 logits and the state after them."""
    # By numpy: torch wakes its threads for every small step, which costs more than the step.
    given: Array = logits - logits.max(axis=1, keepdims=True)
    totals = sums(given)
    sure = discounted(state.sureness, sureness(totals), window)
    emissions = _emissions(given, choose_factor(sure), said)
    plain = np.ascontiguousarray(emissions[:, 0])
    state, before = _order(state, plain, window, said), state
    filtered, evidence = before.started(state.lag)
    begins = begin_shares(before.begun)
    slots = state.slots(len(plain), said)
    prior, found = predict(emissions, filtered, slots, STAYS, begins)
    gained = np.add.reduce(found, axis=2)  # (B, T)
    used, last = last_in_slots(slots)
    filtered = filtered.copy()
    filtered[used] = prior[last] * emissions[last, :, None] / gained[last, :, None, None]
    begun = discounted(before.begun, beginnings(found / gained[..., None]), MEMORY)
    if state.shows_order:
        resting = resting_shares(begins)
        after = predict_back(emissions, slots, STAYS, begins, resting)
        joint = from_both_sides(prior, after, resting) * emissions  # (B, T, L)
        gained = np.add.reduce(joint, axis=2)
    evidence = discounted(evidence, np.log(gained * plain.shape[1]), window)
    belief = state.belief(evidence)
    answer: Array = given - np.log(totals[:, :1])
    if belief.weights.any():
        answer = believed(joint, gained, belief, answer)
    highest = np.exp(answer.max(axis=1))
    confidence = np.concatenate([before.confidence, highest])[-window:]
    return answer, state.changed(
        recent=np.concatenate([before.recent, emissions])[-LAGS:],
        filtered=filtered,
        begun=begun,
        evidence=evidence,
        sureness=sure,
        confidence=confidence,
        seen=before.seen + len(plain),
    )


def _emissions(given: Array, factor: float, said: Said | None) -> Array:
    """Return what the chains read of logits ``(B, L)``, at each temperature ``(B, T, L)``."""
    emissions = given[:, None] / (TEMPERATURES[:, None] / factor)
    np.exp(emissions, out=emissions)
    emissions /= np.add.reduce(emissions, axis=-1, keepdims=True)
    return emissions if said is None else without_bias(emissions, said)


def _order(state: State, plain: Array, window: int, said: Said | None) -> State:
    """Return the state with what does not depend on the chains: frequencies, and the lag."""
    shares = running_mean(len(plain), state.seen, window)
    same = products(plain, state.past)
    found = compare(plain, same, state.marginal, shares, state.seen, window)
    marginal_evidence = discounted(state.marginal_evidence, np.log(found.match), window)
    state = state.compared(plain, found.agreements, said, window)
    return state.changed(
        marginal=shares[-1, 0] * state.marginal + product(shares[-1:, 1:], plain)[0],
        marginal_evidence=marginal_evidence,
        order=discounted(state.order, found.terms, LONG),
        past=np.concatenate([state.past, plain])[-PAST:],
        lag=state.next_lag(float(marginal_evidence), said is not None),
    )


def _check(logits: Tensor, classes: int) -> None:
    """Refuse what are no logits of these classes."""
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        kind = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"logits must be a tensor of floating point, got {kind}")
    check_plain("logits", logits)
    if logits.ndim != 2 or logits.shape[1] != classes:
        shape = tuple(logits.shape)
        raise ValueError(f"logits must have shape (B, {classes}), one row a sample, got {shape}")
