"""Optimisers over one flat vector, with their whole state in tensors from the first step on."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class FlatOptimizer(Protocol):
    """What moves a flat vector ``values`` in place; ``state`` holds all else that it changes."""

    values: Tensor
    state: dict[str, Tensor]

    def step(self, gradient: Tensor) -> None:
        """Move the values by one step along ``-gradient``."""
        ...


class FlatAdam:
    """Adam (beta 0.9 and 0.999, no weight decay) on a flat vector, in place.

    ``state`` holds everything that moves; equal to ``torch.optim.Adam`` element by element.
    """

    def __init__(self, values: Tensor, lr: float) -> None:
        self.values = values
        self.lr = lr
        on_gpu = values.is_cuda
        self._optimizer = torch.optim.Adam([values], lr=lr, fused=on_gpu, capturable=on_gpu)
        # Torch makes these at the first step; made now, a state saved at any time is complete.
        self.state: dict[str, Tensor] = {
            "step": torch.zeros((), device=values.device if on_gpu else "cpu"),
            "exp_avg": torch.zeros_like(values),
            "exp_avg_sq": torch.zeros_like(values),
        }
        self._optimizer.state[values] = self.state

    def step(self, gradient: Tensor) -> None:
        """Move the values by one step along ``-gradient``."""
        self.values.grad = gradient
        self._optimizer.step()
        self.values.grad = None


class FlatSGD:
    """Gradient descent with momentum (no dampening, no weight decay) on a flat vector, in place.

    Equal to ``torch.optim.SGD``, whose first momentum is the first gradient: as from zero.
    """

    def __init__(
        self, values: Tensor, lr: float, momentum: float = 0.9, *, nesterov: bool = True
    ) -> None:
        self.values = values
        self.lr, self.momentum, self.nesterov = lr, momentum, nesterov
        self.state: dict[str, Tensor] = {"momentum": torch.zeros_like(values)}

    @torch.no_grad()
    def step(self, gradient: Tensor) -> None:
        """Move the values by one step along ``-gradient``."""
        speed = self.state["momentum"].mul_(self.momentum).add_(gradient)
        move = gradient.add(speed, alpha=self.momentum) if self.nesterov else speed
        self.values.add_(move, alpha=-self.lr)


@torch.no_grad()
def step_where(optimizer: FlatOptimizer, gradient: Tensor, go: Tensor) -> None:
    """Take a step where ``go`` holds, ``()`` or ``(P,)`` bool; elsewhere nothing moves, not time.

    The choice stays on the device: a batch with nothing to learn from costs no wait. Adam's own
    count of steps is one number, so only a ``()`` choice is exact with it.
    """
    moving = [optimizer.values, *optimizer.state.values()]
    before = [t.clone() for t in moving]
    optimizer.step(gradient)
    for now, old in zip(moving, before, strict=True):
        now.copy_(torch.where(go, now, old))


OPTIMIZERS = {"adam": FlatAdam, "sgd": FlatSGD}
