"""Optimisers over one flat vector, with their whole state in tensors from the first step on."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

_BETAS, _EPS = (0.9, 0.999), 1e-8  # of torch's Adam


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
        # Torch makes these at the first step; made now, a state saved at any time is complete.
        self.state: dict[str, Tensor] = {
            "step": torch.zeros((), dtype=torch.float32, device=values.device),
            "exp_avg": torch.zeros_like(values),
            "exp_avg_sq": torch.zeros_like(values),
        }
        self._optimizer: torch.optim.Adam | None = None
        if values.is_cuda:
            self._optimizer = torch.optim.Adam([values], lr=lr, fused=True, capturable=True)
            self._optimizer.state[values] = self.state

    def step(self, gradient: Tensor) -> None:
        """Move the values by one step along ``-gradient``."""
        if self._optimizer is None:
            self._step_on_cpu(gradient)
            return
        self.values.grad = gradient
        self._optimizer.step()
        self.values.grad = None

    @torch.no_grad()
    def _step_on_cpu(self, gradient: Tensor) -> None:
        """Do what torch's Adam does to one tensor, without what it asks and looks up around it."""
        mean, square = self.state["exp_avg"], self.state["exp_avg_sq"]
        steps = float(self.state["step"].add_(1))
        mean.lerp_(gradient, 1 - _BETAS[0])
        square.mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1 - _BETAS[1])
        scale = (1 - _BETAS[1] ** steps) ** 0.5
        self.values.addcdiv_(
            mean, square.sqrt().div_(scale).add_(_EPS), value=-self.lr / (1 - _BETAS[0] ** steps)
        )


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
