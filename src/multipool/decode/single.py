"""One sample at a time: what ``decoder.advance`` makes of a batch of one, in half the steps.

Bit for bit the same. Where images come one by one each small step of numpy counts: here they work
on vectors, sums that are needed twice are made once, and what is known of a batch of one (nothing
comes after its sample, the mean before it is the mean so far) is not computed.
"""

from __future__ import annotations

import numpy as np

from multipool.decode.belief import TEMPERATURES, believed
from multipool.decode.bias import Said, without_bias
from multipool.decode.chains import Array, from_both_sides
from multipool.decode.compiled import compare, predict
from multipool.decode.order import (
    LONG,
    discounted,
    newest_share,
)
from multipool.decode.runs import MEMORY, STAYS, begin_shares, beginnings, resting_shares
from multipool.decode.sharpen import choose_factor, sums, sureness
from multipool.decode.state import State
from multipool.ops.host import product

_BEFORE = np.array([[1.0, 0.0], [1.0, 0.0]])  # shares before a sample alone: it has none itself


def advance_one(
    state: State, logits: Array, window: int, said: Said | None = None
) -> tuple[Array, State]:
    """Return log posteriors ``(1, L)`` of float64 logits ``(1, L)`` and the state after them."""
    given: Array = logits[0] - logits[0].max()  # (L,)
    totals = sums(given[None])  # (1, S)
    sure = discounted(state.sureness, sureness(totals), window)
    emissions = np.exp(given / (TEMPERATURES[:, None] / choose_factor(sure)))  # (T, L)
    emissions /= emissions.sum(axis=-1, keepdims=True)
    if said is not None:
        emissions = without_bias(emissions[None], said)[0]
    state, before = _order(state, emissions[:1], window, said), state
    filtered, evidence = before.started(state.lag)
    begins = begin_shares(before.begun)
    slots = state.slots(1, said)
    prior, found = predict(emissions[None], filtered, slots, STAYS, begins)
    gained = np.add.reduce(found[0], axis=1)  # (T,)
    filtered = filtered.copy()
    filtered[slots[0]] = prior[0] * emissions[:, None] / gained[:, None, None]
    begun = discounted(before.begun, beginnings(found / gained[:, None]), MEMORY)
    if state.shows_order:
        resting = resting_shares(begins)
        nothing = (resting / len(given))[None, ..., None]  # is said by samples after it
        joint = from_both_sides(prior, nothing, resting)[0] * emissions  # (T, L)
        gained = joint.sum(axis=1)
    evidence = discounted(evidence, np.log(gained * len(given))[None], window)
    belief = state.belief(evidence)
    answer: Array = given - np.log(totals[0, :1])
    if belief.weights.any():
        answer = believed(joint[None], gained[None], belief, answer[None])[0]
    highest = np.exp(answer.max(keepdims=True))
    return answer[None], state.changed(
        recent=np.concatenate([before.recent[1:], emissions[None]]),
        filtered=filtered,
        begun=begun,
        evidence=evidence,
        sureness=sure,
        confidence=np.concatenate([before.confidence, highest])[-window:],
        seen=before.seen + 1,
    )


def _order(state: State, plain: Array, window: int, said: Said | None) -> State:
    """Return the state with what does not depend on the chains; ``plain`` ``(1, L)``."""
    past = np.concatenate([state.past, plain])
    found = compare(plain, product(plain, past.T), state.marginal, _BEFORE, state.seen, window)
    marginal_evidence = discounted(state.marginal_evidence, np.log(found.match), window)
    state = state.compared(plain, found.agreements, said, window)
    share = newest_share(state.seen, window)
    return state.changed(
        marginal=(1 - share) * state.marginal + share * plain[0],
        marginal_evidence=marginal_evidence,
        order=discounted(state.order, found.terms, LONG),
        past=past[1:],
        lag=state.next_lag(float(marginal_evidence), said is not None),
    )
