"""One step of the training: a batch's gradients and the update, on a GPU replayed as a graph."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from multipool.bench.train.mix import Mixed, mixed_loss
from multipool.engine.graphs import Graphed


class Step:
    """Updates a model by batches of one size.

    With ``short`` the forward pass runs in bfloat16. On a GPU a small model's step is mostly the
    launching of its kernels: they are recorded once and launched together.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        smoothing: float,
        device: torch.device,
        short: bool,
    ) -> None:
        self._model, self._optimizer = model, optimizer
        self._smoothing, self._device, self._short = smoothing, device, short
        self._graph = Graphed(self._gradients)

    def __call__(self, mixed: Mixed, labels: Tensor) -> Tensor:
        """Learn from images and labels ``(B,)``; return the loss ``()``, valid until the next."""
        # One signature, mixed or not: gradients lie where the one recording writes them.
        others = labels if mixed.partners is None else labels[mixed.partners]
        share = torch.full((), mixed.share, device=self._device)
        (loss,) = self._graph(mixed.images, labels, others, share)
        self._optimizer.step()
        return loss

    def _gradients(
        self, images: Tensor, labels: Tensor, others: Tensor, share: Tensor
    ) -> tuple[Tensor, ...]:
        # None, not zeros: replayed, the backward pass writes its gradients and adds to nothing.
        self._optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._short):
            logits = self._model(images)
        loss = mixed_loss(logits.float(), labels, others, share, self._smoothing)
        loss.backward()
        return (loss.detach(),)
