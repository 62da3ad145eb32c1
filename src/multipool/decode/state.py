"""What a decoder knows of the stream so far, as plain tensors and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multipool.core import brief, check_plain
from multipool.decode.bank import HEATS, Belief, believe
from multipool.decode.bias import Said
from multipool.decode.chains import Array, unknown
from multipool.decode.order import LAGS, LONG, PAST, discounted, is_shown
from multipool.decode.runs import KINDS, begin_shares, resting_shares
from multipool.decode.sharpen import FACTORS
from multipool.decode.within import is_within, within_terms

_MOST_SEEN = 2**53
_OLDER_CHAINS = 11  # of states saved when each chain had one stay probability
_SHARES = ("recent", "past", "filtered", "marginal")  # each row a distribution over the classes


@dataclass(frozen=True)
class State:
    """All sums are of logarithms and forget over the window; a new one is made of each batch."""

    recent: Array  # (R, T, L) emissions of the last samples at every temperature
    past: Array  # (P, L) those at temperature 1 of more of them
    filtered: Array  # (R, T, K, L) the chains' posteriors of the last samples
    begun: Array  # (T, K) runs of each kind that began lately, see runs.py; no logs
    evidence: Array  # (T,) of the chains
    agreement: Array  # (R,) of the lags
    order: Array  # (5, R) how much more neighbours agree than strangers, see order.py; no logs
    within: Array  # (5, R) than what is said of their domain, where it is known, see within.py
    domains: NDArray[np.int64]  # (R,) of the last samples, -1 where not known
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
            filtered=unknown(resting_shares(begin_shares(begun)), LAGS, classes).copy(),
            begun=begun,
            evidence=np.zeros(HEATS),
            agreement=np.zeros(LAGS),
            order=np.zeros((5, LAGS)),
            within=np.zeros((5, LAGS)),
            domains=np.full(LAGS, -1),
            marginal=np.full(classes, 1 / classes),
            marginal_evidence=np.zeros(()),
            sureness=np.zeros(len(FACTORS) + 1),
            confidence=np.zeros(0),
        )

    @property
    def shows_order(self) -> bool:
        """Whether neighbours were seen to agree beyond chance, bias and domain."""
        return is_shown(self.order) or is_within(self.within)

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

    def started(self, lag: int) -> tuple[Array, Array]:
        """Return the posteriors and the evidence that chains of a lag go on from.

        Chains of another lag start afresh, even with what they compete against.
        """
        if lag == self.lag:
            return self.filtered, self.evidence
        resting = resting_shares(begin_shares(self.begun))
        evidence = np.full(HEATS, max(0.0, float(self.marginal_evidence)))
        return self.recent[:, :, None] * resting[..., None], evidence

    def held_against(self, said: Said, plain: Array, near: Array, own: Array) -> State:
        """Return the state with what samples ``(B, L)`` have in common with their domain.

        ``near`` ``(B, R)``, ``own`` ``(B,)``: what they have with neighbours and with themselves.
        """
        domains = np.concatenate([self.domains, said.domains])
        terms = within_terms(plain, near, own, domains, said)
        return self.changed(within=discounted(self.within, terms, LONG), domains=domains[-LAGS:])

    def changed(self, **values: Any) -> State:  # noqa: ANN401
        """Return the same with other values; ``replace`` takes longer than a sample's chains."""
        made = object.__new__(State)
        vars(made).update(vars(self))
        vars(made).update(values)
        return made

    def tensors(self) -> dict[str, Tensor]:
        """Return a copy of every field: float64, and int64 for domains and whole numbers."""
        return {field.name: torch.tensor(getattr(self, field.name)) for field in fields(self)}


def read(state: Mapping[str, Tensor], classes: int, window: int) -> State:
    """Return the state that :meth:`State.tensors` saved, or ``ValueError``."""
    expected = State.fresh(classes).tensors()
    if "begun" not in state:
        state = _of_older(state, expected)
    if state.keys() != expected.keys():
        odd = brief(sorted(map(str, state.keys() ^ expected.keys()))[0])
        raise ValueError(f"the decoder's state has too much or too little: look for {odd}")
    for name, like in expected.items():
        _check_kind(name, state[name], like, any_length=name == "confidence")
    arrays = {name: tensor.detach().cpu().numpy().copy() for name, tensor in state.items()}
    lag, seen = int(arrays.pop("lag")), int(arrays.pop("seen"))
    if not (1 <= lag <= LAGS and 0 <= seen <= _MOST_SEEN):
        raise ValueError(f"the decoder's lag and count must be sound, got {lag} and {seen}")
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
    kept = evidence.new_full(fresh["evidence"].shape, float(evidence.max()))
    new = {name: fresh[name] for name in ("filtered", "begun", "within", "domains")}
    return {**state, **new, "evidence": kept}


def _check_kind(name: str, found: Tensor, like: Tensor, any_length: bool) -> None:
    """Refuse what is no plain tensor of the expected dtype and shape."""
    if not isinstance(found, Tensor):
        raise ValueError(f"the decoder's '{name}' must be a tensor, got {type(found).__name__}")
    check_plain(f"the decoder's '{name}'", found)
    shaped = found.ndim == 1 if any_length else found.shape == like.shape
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
    if name in ("order", "within") and (array[[1, 4]] < 0).any():
        raise ValueError(f"the decoder's '{name}' must have no squares below 0")
    if name == "begun" and (array < 0).any():
        raise ValueError("the decoder's 'begun' must have no counts below 0")
    rows = array.sum(axis=(-2, -1) if name == "filtered" else -1)
    if name in _SHARES and ((array < 0).any() or (np.abs(rows - 1) > 1e-6).any()):
        raise ValueError(f"the decoder's '{name}' must have rows that sum to 1")
