"""Read what a decoder saved: a state that fits is taken, any other is refused in a sentence."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from multipool.core import brief, check_plain
from multipool.decode.chains import Array
from multipool.decode.order import LAGS, LINKED
from multipool.decode.state import DOMAINS, State

_MOST_SEEN = 2**53
_MOST_COUNTED = 2**16  # far more than is remembered
_OLDER_CHAINS, _OLDER_GATING = 11, 7  # of states saved when each chain had one stay probability
_SHARES = ("recent", "past", "filtered", "last", "marginal")  # rows that sum to 1


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
    if len(arrays["filtered"]) != (slots := DOMAINS if lag == LINKED else lag):
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
    evidence, lag = state.get("evidence"), state.get("lag")
    if not (isinstance(evidence, Tensor) and isinstance(lag, Tensor)):
        return state  # damaged, as will be said
    if evidence.shape != (_OLDER_CHAINS,) or evidence.dtype != torch.float64 or lag.numel() != 1:
        return state
    for name, tensor in (("evidence", evidence), ("lag", lag)):
        check_plain(f"the decoder's '{name}'", tensor)
    sure = float(evidence[:_OLDER_GATING].max()) if int(lag) == 1 else 0.0  # of no lag but this
    kept = evidence.new_full(fresh["evidence"].shape, sure)
    new = {
        name: fresh[name]
        for name in ("filtered", "begun", "agreement", "within", "read", "last", "lag")
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
    squares = array[[1, 4]] if name == "order" else array[:, 1] if name == "within" else None
    if squares is not None and (squares < 0).any():
        raise ValueError(f"the decoder's '{name}' must have no squares below 0")
    if name in ("begun", "read") and ((array < 0) | (array > _MOST_COUNTED)).any():
        raise ValueError(f"the decoder's '{name}' must have counts of 0 to {_MOST_COUNTED:,}")
    if name not in _SHARES:
        return
    rows = array.sum(axis=(-2, -1) if name == "filtered" else -1)
    if (array < 0).any() or (np.abs(rows - 1) > 1e-6).any():
        raise ValueError(f"the decoder's '{name}' must have rows that sum to 1")
