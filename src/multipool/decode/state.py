"""What a decoder knows of the stream so far, as plain tensors and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multipool.core import brief, check_plain
from multipool.decode.belief import HEATS, Belief, believe
from multipool.decode.bias import Said
from multipool.decode.chains import Array, Ints, last_in_slots, unknown
from multipool.decode.order import (
    LAGS,
    LINKED,
    LONG,
    PAST,
    agreements,
    choose_lag,
    discounted,
    is_shown,
)
from multipool.decode.runs import KINDS, begin_shares, resting_shares
from multipool.decode.sharpen import FACTORS
from multipool.decode.within import followed, is_within, within_terms

_MOST_SEEN = 2**53
_DOMAINS = 16  # more than so many share their places
_OLDER_CHAINS, _OLDER_GATING = 11, 7  # of states saved when each chain had one stay probability
_SHARES = (
    "recent",
    "past",
    "filtered",
    "last",
    "marginal",
)  # each row a distribution over the classes


@dataclass(frozen=True)
class State:
    """All sums are of logarithms and forget over the window; a new one is made of each batch."""

    recent: Array  # (R, T, L) emissions of the last samples at every temperature
    past: Array  # (P, L) those at temperature 1 of more of them
    filtered: Array  # (S, T, K, L) the chains' posteriors of the last sample in each slot
    begun: Array  # (T, K) runs of each kind that began lately, see runs.py; no logs
    evidence: Array  # (T,) of the chains
    agreement: Array  # (R + 1,) of the lags, and of samples linked by their domain
    order: Array  # (5, R) how much more neighbours agree than strangers, see order.py; no logs
    within: Array  # (3,) how much more than their domain explains, see within.py; no logs
    last: Array  # (D, L) emissions at temperature 1 of the last sample in each domain
    marginal: Array  # (L,) how often each class was predicted
    marginal_evidence: Array  # ()
    sureness: Array  # (S + 1,) of the model at each factor, not of logarithms
    confidence: Array  # (up to window,) highest posteriors of the last samples
    lag: int = 1
    seen: int = 0

    @classmethod
    def fresh(cls, classes: int) -> State:
        """Return the state before any sample: every class alike, no evidence."""
        begun = np.zeros((HEATS, KINDS))
        return cls(
            recent=np.full((LAGS, HEATS, classes), 1 / classes),
            past=np.full((PAST, classes), 1 / classes),
            filtered=unknown(resting_shares(begin_shares(begun)), 1, classes).copy(),
            begun=begun,
            evidence=np.zeros(HEATS),
            agreement=np.zeros(LAGS + 1),
            order=np.zeros((5, LAGS)),
            within=np.zeros(3),
            last=np.full((_DOMAINS, classes), 1 / classes),
            marginal=np.full(classes, 1 / classes),
            marginal_evidence=np.zeros(()),
            sureness=np.zeros(len(FACTORS) + 1),
            confidence=np.zeros(0),
        )

    @property
    def shows_order(self) -> bool:
        """Whether neighbours were seen to agree beyond chance, bias and domain."""
        return is_shown(self.order) or is_within(self.within)

    def next_lag(self, marginal_evidence: float) -> int:
        """Return the lag that agrees best.

        Where order was shown within domains alone, samples are linked by them at once: whatever
        lags agree by is a bias then.
        """
        if is_within(self.within) and not is_shown(self.order):
            return LINKED
        return choose_lag(self.lag, self.agreement, marginal_evidence)

    def belief(self, evidence: Array) -> Belief:
        """Return what is believed of chains with this ``evidence`` ``(T,)``.

        Where runs are long the frequencies of classes explain as much as they do. So once order
        was shown within domains, frequencies are no rival.
        """
        known = is_within(self.within)
        marginal = 0.0 if known else float(self.marginal_evidence)
        return believe(evidence, marginal, known or is_shown(self.order))

    @property
    def estimate(self) -> float | None:
        """The expected accuracy over the last window: the mean of the highest posteriors."""
        return float(self.confidence.mean()) if len(self.confidence) else None

    def slots(self, size: int, said: Said | None) -> Ints:
        """Return the slots of ``size`` samples after these: each follows the last one in its own.

        They take turns by the lag, or there is one for each domain.
        """
        if self.lag != LINKED:
            return (self.seen + np.arange(size)) % self.lag
        return np.zeros(size, dtype=np.int64) if said is None else places(said)

    def started(self, lag: int) -> tuple[Array, Array]:
        """Return the posteriors ``(S, T, K, L)`` and the evidence that chains of a lag go on from.

        Chains of another lag start afresh, even with what they compete against.
        """
        if lag == self.lag:
            return self.filtered, self.evidence
        resting = resting_shares(begin_shares(self.begun))
        evidence = np.full(HEATS, max(0.0, float(self.marginal_evidence)))
        if lag == LINKED:
            found = self.last[:, None]  # (D, 1, L), as good at any temperature
        else:
            turns = (self.seen - lag + np.arange(lag)) % lag
            found = self.recent[LAGS - lag :][np.argsort(turns)]
        return found[:, :, None] * resting[..., None], evidence

    def compared(self, plain: Array, near: Array, said: Said | None, window: int) -> State:
        """Return the state with how samples ``(B, L)`` agree with others.

        ``near`` ``(B, R)``: the :func:`agreements` with those a lag before. Where domains are
        known, with those before in the same domain, too, and with what is said of it.
        """
        if said is None:
            logs = np.concatenate([np.log(near), np.zeros((len(near), 1))], axis=1)
            return self.changed(agreement=discounted(self.agreement, logs, window))
        slots = places(said)
        before = np.add.reduce(plain * followed(plain, slots, self.last), axis=1)
        linked = agreements(before, plain.shape[1])[:, None]
        used, newest = last_in_slots(slots)
        last = self.last.copy()
        last[used] = plain[newest]
        logs = np.log(np.concatenate([near, linked], axis=1))
        return self.changed(
            agreement=discounted(self.agreement, logs, window),
            within=discounted(self.within, within_terms(plain, before, said), LONG),
            last=last,
        )

    def changed(self, **values: Any) -> State:  # noqa: ANN401
        """Return the same with other values; ``replace`` takes longer than a sample's chains."""
        made = object.__new__(State)
        vars(made).update(vars(self))
        vars(made).update(values)
        return made

    def tensors(self) -> dict[str, Tensor]:
        """Return a copy of every field: float64, and int64 for the two whole numbers."""
        return {field.name: torch.tensor(getattr(self, field.name)) for field in fields(self)}


def places(said: Said) -> Ints:
    """Return the place of each sample's domain."""
    return said.domains % _DOMAINS


def read(state: Mapping[str, Tensor], classes: int, window: int) -> State:
    """Return the state that :meth:`State.tensors` saved, or ``ValueError``."""
    expected = State.fresh(classes).tensors()
    if "begun" not in state:
        state = _of_older(state, expected)
    if state.keys() != expected.keys():
        odd = brief(sorted(map(str, state.keys() ^ expected.keys()))[0])
        raise ValueError(f"the decoder's state has too much or too little: look for {odd}")
    for name, like in expected.items():
        _check_kind(name, state[name], like, any_length=name in ("confidence", "filtered"))
    arrays = {name: tensor.detach().cpu().numpy().copy() for name, tensor in state.items()}
    lag, seen = int(arrays.pop("lag")), int(arrays.pop("seen"))
    if not (0 <= lag <= LAGS and 0 <= seen <= _MOST_SEEN):
        raise ValueError(f"the decoder's lag and count must be sound, got {lag} and {seen}")
    if len(arrays["filtered"]) != (slots := _DOMAINS if lag == LINKED else lag):
        got = len(arrays["filtered"])
        raise ValueError(f"the decoder's 'filtered' must have {slots} slots for its lag, got {got}")
    if len(arrays["confidence"]) != min(seen, window):
        raise ValueError(
            f"the decoder's state must have {min(seen, window)} values of confidence for "
            f"{seen} samples and window {window}, got {len(arrays['confidence'])}"
        )
    for name, array in arrays.items():
        _check_values(name, array)
    return State(**arrays, lag=lag, seen=seen)


def _of_older(state: Mapping[str, Tensor], fresh: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Return a state from when all runs were of one kind: chains begin anew, as sure of order."""
    evidence = state.get("evidence")
    if not isinstance(evidence, Tensor) or evidence.shape != (_OLDER_CHAINS,):
        return state  # damaged, as will be said
    kept = evidence.new_full(fresh["evidence"].shape, float(evidence[:_OLDER_GATING].max()))
    new = {
        name: fresh[name] for name in ("filtered", "begun", "agreement", "within", "last", "lag")
    }
    return {**state, **new, "evidence": kept}


def _check_kind(name: str, found: Tensor, like: Tensor, any_length: bool) -> None:
    """Refuse what is no plain tensor of the expected dtype and shape."""
    if not isinstance(found, Tensor):
        raise ValueError(f"the decoder's '{name}' must be a tensor, got {type(found).__name__}")
    check_plain(f"the decoder's '{name}'", found)
    shaped = found.shape[any_length:] == like.shape[any_length:] and found.ndim == like.ndim
    if found.dtype != like.dtype or not shaped:
        raise ValueError(
            f"the decoder's '{name}' must be {like.dtype} of shape {tuple(like.shape)} for this "
            f"number of classes, got {found.dtype} of shape {tuple(found.shape)}"
        )


def _check_values(name: str, array: Array) -> None:
    """Refuse numbers that no stream leads to."""
    if not np.isfinite(array).all():
        raise ValueError(f"the decoder's '{name}' must be finite, load an undamaged state")
    if name == "confidence" and ((array < 0) | (array > 1 + 1e-9)).any():
        raise ValueError("the decoder's 'confidence' must lie in [0, 1], load an undamaged state")
    if (name == "order" and (array[[1, 4]] < 0).any()) or (name == "within" and array[1] < 0):
        raise ValueError(f"the decoder's '{name}' must have no squares below 0")
    if name == "begun" and (array < 0).any():
        raise ValueError("the decoder's 'begun' must have no counts below 0")
    if name not in _SHARES:
        return
    rows = array.sum(axis=(-2, -1) if name == "filtered" else -1)
    if (array < 0).any() or (np.abs(rows - 1) > 1e-6).any():
        raise ValueError(f"the decoder's '{name}' must have rows that sum to 1")
