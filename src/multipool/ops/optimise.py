"""Adam over one flat vector, with its whole state in tensors from the first step on."""

from __future__ import annotations

import torch
from torch import Tensor


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
