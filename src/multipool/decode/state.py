"""What a decoder knows of the stream so far, as plain tensors and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multipool.core import brief, check_plain
from multipool.decode.bank import CHAINS, HEAT, TEMPERATURES
from multipool.decode.chains import Array
from multipool.decode.order import LAGS, PAST
from multipool.decode.sharpen import FACTORS

_MOST_SEEN = 2**53
_SHARES = ("recent", "past", "filtered", "marginal")  # each row a distribution over the classes


@dataclass(frozen=True)
class State:
    """All sums are of logarithms and forget over the window; a new one is made of each batch."""

    recent: Array  # (K, T, L) emissions of the last samples at every temperature
    past: Array  # (P, L) those at temperature 1 of more of them
    filtered: Array  # (K, G, L) the chains' posteriors of the last samples
    evidence: Array  # (G,) of the chains
    agreement: Array  # (K,) of the lags
    order: Array  # (5, K) how much more neighbours agree than strangers, see order.py; no logs
    marginal: Array  # (L,) how often each class was predicted
    marginal_evidence: Array  # ()
    sureness: Array  # (S + 1,) of the model at each factor, not of logarithms
    confidence: Array  # (up to window,) highest posteriors of the last samples
    lag: int = 1
    seen: int = 0

    @classmethod
    def fresh(cls, classes: int) -> State:
        """Return the state before any sample: every class alike, no evidence."""
        return cls(
            recent=np.full((LAGS, len(TEMPERATURES), classes), 1 / classes),
            past=np.full((PAST, classes), 1 / classes),
            filtered=np.full((LAGS, CHAINS, classes), 1 / classes),
            evidence=np.zeros(CHAINS),
            agreement=np.zeros(LAGS),
            order=np.zeros((5, LAGS)),
            marginal=np.full(classes, 1 / classes),
            marginal_evidence=np.zeros(()),
            sureness=np.zeros(len(FACTORS) + 1),
            confidence=np.zeros(0),
        )

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
        evidence = np.full(CHAINS, max(0.0, float(self.marginal_evidence)))
        return self.recent[:, HEAT], evidence

    def changed(self, **values: Any) -> State:  # noqa: ANN401
        """Return the same with other values; ``replace`` takes longer than a sample's chains."""
        made = object.__new__(State)
        vars(made).update(vars(self))
        vars(made).update(values)
        return made

    def tensors(self) -> dict[str, Tensor]:
        """Return a copy of every field: float64, and int64 for the two whole numbers."""
        return {field.name: torch.tensor(getattr(self, field.name)) for field in fields(self)}


def read(state: Mapping[str, Tensor], classes: int, window: int) -> State:
    """Return the state that :meth:`State.tensors` saved, or ``ValueError``."""
    expected = State.fresh(classes).tensors()
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
    if name == "order" and (array[[1, 4]] < 0).any():
        raise ValueError("the decoder's 'order' must have no squares below 0")
    if name in _SHARES and ((array < 0).any() or (np.abs(array.sum(axis=-1) - 1) > 1e-6).any()):
        raise ValueError(f"the decoder's '{name}' must have rows that sum to 1")
