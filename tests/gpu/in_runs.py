"""What multipool does in runs of classes, which no other check's stream has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multipool.engine import Adapter
from multipool.methods.multipool.leaning import Trial
from multipool.methods.multipool.second_look import Part

OPTIONS = {"young": 0, "update_every": 10**6, "lr": 0.0, "again": 0.25, "prior": 1e-9}
TURNS = 6  # calls of each shape: recorded ones are warmed up first


@torch.no_grad()
def check_leaning(
    make: Callable[..., Adapter],
    images: Callable[..., Tensor],
    differ: Callable[[Tensor, Tensor], float],
) -> str:
    """A pool leans on another, and a guess is looked at again, with graphs as without."""
    found: list[list[Tensor]] = []
    for graphs in (True, False):
        method: Any = make("multipool", options=OPTIONS, graphs=graphs).method
        method.own[1] = method.home * 1.5
        method.own[0] = method.home * 0.8
        method.accounts.counts[:2] += 1000
        method.mirror.agreed += 100.0
        answers = []
        for t in range(TURNS):
            x = method.network.prepare(images(t))
            for leans in (False, True):
                method.leaning.forget(1)
                method.leaning.take(1, Trial(0, 100.0 if leans else -100.0, 128))
                method.on_trial = lambda pool, fresh, router: 0 if pool == 1 else -1
                for pools in ([1] * 64, [1, 0] * 32):
                    look, _, trials = method.answered(
                        x, np.array(pools), set(), method.router, None
                    )
                    assert set(trials) == {1}
                    answers.append(look.logits.clone())
            method.on_trial = lambda pool, fresh, router: -1
            guessed, then = _beforehand(method, x)
            assert differ(guessed, then) <= 1e-4, "a look beforehand finds something else"
            answers.append(guessed)
        found.append(answers)
    worst = max(differ(a, b) for a, b in zip(*found, strict=True))
    assert worst <= 1e-3, f"differs by {worst:.1e} of the largest logit"
    return f"differs by {worst:.0e}" if worst else "equal"


def _beforehand(method: Any, x: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401
    """Return a guess after its second look, and what one that nobody guessed has."""
    router = method.router
    router.numbers[1], router.owners[:] = 0, 0
    beside, method.beside_host = method.beside_host, True
    guess = method.guess(x)
    guessed, _, _ = method.answered(x, np.zeros(64, dtype=np.int64), set(), router, guess)
    assert guessed is guess.look, "the guess was not taken"
    first = guessed.logits.clone()
    answer = method.of_one(x, 0, guess.shares)
    then = method.look_again(x, answer.logits, [Part(np.arange(64), answer.again, young=False)])
    method.beside_host = beside
    return first, then.logits.clone()
