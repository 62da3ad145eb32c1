"""One sample at a time: what ``decoder.advance`` makes of a batch of one, in half the steps.

Bit for bit the same. Where images come one by one each small step of numpy counts: here they work
on vectors, sums that are needed twice are made once, and what is known of a batch of one (nothing
comes after its sample, the mean before it is the mean so far) is not computed.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from multipool.decode.bank import HEAT, STAY, TEMPERATURES, Belief, believe
from multipool.decode.bias import Said, without_bias
from multipool.decode.chains import Array
from multipool.decode.compiled import compare, predict
from multipool.decode.order import (
    LAGS,
    LONG,
    choose_lag,
    discounted,
    is_shown,
    newest_share,
)
from multipool.decode.sharpen import choose_factor, sums, sureness
from multipool.decode.state import State
from multipool.ops.host import product

_HEATS = np.array(TEMPERATURES)[:, None]  # (T, 1)
_BEFORE = np.array([[1.0, 0.0], [1.0, 0.0]])  # shares before a sample alone: it has none itself
_TINY = np.finfo(float).tiny


def advance_one(
    state: State, logits: Array, window: int, said: Said | None = None
) -> tuple[Array, State]:
    """Return log posteriors ``(1, L)`` of float64 logits ``(1, L)`` and the state after them."""
    given: Array = logits[0] - logits[0].max()  # (L,)
    totals = sums(given[None])  # (1, S)
    sure = discounted(state.sureness, sureness(totals), window)
    emissions = np.exp(given / (_HEATS / choose_factor(sure)))  # (T, L)
    emissions /= emissions.sum(axis=-1, keepdims=True)
    if said is not None:
        emissions = without_bias(emissions[None], said)[0]
    state, before = _order(state, emissions[:1], window), state
    filtered, evidence = before.started(state.lag)
    prior, gained = predict(emissions[None], HEAT, filtered[LAGS - state.lag :], STAY, state.lag)
    joint = prior[0] * emissions.take(HEAT, axis=0)  # (G, L), of which ``gained`` are the sums
    evidence = discounted(evidence, np.log(gained * len(given)), window)
    belief = believe(evidence, float(state.marginal_evidence), is_shown(state.order))
    answer: Array = given - np.log(totals[0, :1])
    if belief.weights.any():
        answer = _posterior(joint, belief, answer)
    highest = np.exp(answer.max(keepdims=True))
    return answer[None], state.changed(
        recent=np.concatenate([before.recent[1:], emissions[None]]),
        filtered=np.concatenate([filtered[1:], (joint / gained[0][:, None])[None]]),
        evidence=evidence,
        sureness=sure,
        confidence=np.concatenate([before.confidence, highest])[-window:],
        seen=before.seen + 1,
    )


def _order(state: State, plain: Array, window: int) -> State:
    """Return the state with what does not depend on the chains; ``plain`` ``(1, L)``."""
    past = np.concatenate([state.past, plain])
    found = compare(plain, product(plain, past.T), state.marginal, _BEFORE, state.seen, window)
    marginal_evidence = discounted(state.marginal_evidence, np.log(found.match), window)
    agreement = discounted(state.agreement, np.log(found.agreements), window)
    share = newest_share(state.seen, window)
    return state.changed(
        marginal=(1 - share) * state.marginal + share * plain[0],
        marginal_evidence=marginal_evidence,
        agreement=agreement,
        order=discounted(state.order, found.terms, LONG),
        past=past[1:],
        lag=choose_lag(state.lag, agreement, float(marginal_evidence)),
    )


def _posterior(joint: Array, belief: Belief, plain: Array) -> Array:
    """Return the log posterior ``(L,)``; ``plain`` is that of the sample alone."""
    used = np.flatnonzero(belief.weights)
    both = joint.take(used, axis=0) * _nothing_after(len(plain)).take(used, axis=0)
    both /= both.sum(axis=-1, keepdims=True)
    posterior: Array = np.einsum("g,bgl->bl", belief.weights[used], both[None])[0]
    posterior += (1 - belief.gate) * np.exp(plain)
    return np.asarray(np.log(np.maximum(posterior, _TINY)))


@lru_cache(maxsize=16)
def _nothing_after(classes: int) -> Array:
    """Return what each chain says of a sample of which none comes after, ``(G, 1)``."""
    return ((1 / classes) * STAY + (1 - STAY) / classes)[:, None]
