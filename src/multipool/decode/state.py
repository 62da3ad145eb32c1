"""What a decoder knows of the stream so far, as plain tensors and back."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

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
from multipool.decode.within import followed, is_within, read_on, within_terms

DOMAINS = 16  # more than so many share their places


@dataclass(frozen=True)
class State:
    """All sums are of logarithms and forget over the window, where no line says otherwise.

    A new state is made of each batch.
    """

    recent: Array  # (R, T, L) emissions of the last samples at every temperature
    past: Array  # (P, L) those at temperature 1 of more of them
    filtered: Array  # (S, T, K, L) the chains' posteriors of the last sample in each slot
    begun: Array  # (T, K) runs of each kind that began lately, see runs.py; no logs
    evidence: Array  # (T,) of the chains
    agreement: Array  # (R + 1,) of the lags, and of samples linked by their domain
    order: Array  # (5, R) how much more neighbours agree than strangers, see order.py; no logs
    within: Array  # (2, 3) how much more than their domain explains, see within.py; no logs
    read: Array  # (D, L) sums of what the chains read of each domain; no logs
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
            within=np.zeros((2, 3)),
            read=np.zeros((DOMAINS, classes)),
            last=np.full((DOMAINS, classes), 1 / classes),
            marginal=np.full(classes, 1 / classes),
            marginal_evidence=np.zeros(()),
            sureness=np.zeros(len(FACTORS) + 1),
            confidence=np.zeros(0),
        )

    @property
    def shows_order(self) -> bool:
        """Whether neighbours were seen to agree beyond chance, bias and domain."""
        return is_shown(self.order) or is_within(self.within)

    def next_lag(self, marginal_evidence: float, told: bool) -> int:
        """Return the lag that agrees best.

        Where order was shown within domains alone, samples are linked by them at once: whatever
        lags agree by is a bias then. ``told``: whether their domains are known.
        """
        if is_within(self.within) and not is_shown(self.order):
            return LINKED
        lag = self.lag if told or self.lag != LINKED else 1  # nothing links them any more
        return choose_lag(lag, self.agreement, marginal_evidence)

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
        if self.lag != LINKED or said is None:
            return (self.seen + np.arange(size)) % max(self.lag, 1)
        return places(said)

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
        if said is None:  # nothing links them, and what was shown within domains is gone
            logs = np.concatenate([np.log(near), np.zeros((len(near), 1))], axis=1)
            agreement = discounted(self.agreement, logs, window)
            return self.changed(agreement=agreement, within=np.zeros_like(self.within))
        slots = places(said)
        before = np.add.reduce(plain * followed(plain, slots, self.last), axis=1)
        linked = agreements(before, plain.shape[1])[:, None]
        used, newest = last_in_slots(slots)
        last = self.last.copy()
        last[used] = plain[newest]
        logs = np.log(np.concatenate([near, linked], axis=1))
        terms = within_terms(plain, before, self.read, said, slots)
        return self.changed(
            agreement=discounted(self.agreement, logs, window),
            within=discounted(self.within, terms, LONG),
            read=read_on(self.read, plain, said, slots),
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
    return said.domains % DOMAINS
