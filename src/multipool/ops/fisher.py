"""How much each affine parameter matters to a trained model, and a pull that respects it.

Kirkpatrick et al., Overcoming catastrophic forgetting in neural networks (2017), as EATA uses it.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.ops.branch import Branch
from multipool.ops.network import Group, Network
from multipool.ops.normalise import batch


def fisher_weights(network: Network, branch: Branch, batches: Iterable[Tensor]) -> Tensor:
    """Return the diagonal Fisher weights ``(P,)`` of a trainable branch's affine parameters.

    Each batch of images gives the squared gradient *of the batch mean* of the cross-entropy to
    the model's own argmax, under the batch's statistics; the result is the mean over batches.
    """
    total, count = torch.zeros_like(branch.affine), 0
    for images in batches:
        with torch.enable_grad():
            (logits,) = network.run(Group(images, branch, batch))
            loss = F.cross_entropy(logits, logits.detach().argmax(dim=1))
            total += branch.gradient(loss).square()
        count += 1
    return total / max(count, 1)


def fisher_pull(values: Tensor, anchor: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return sum_j F_j (v_j - a_j)^2 and its gradient ``(P,)``.

    >>> value, slope = fisher_pull(torch.tensor([3.0]), torch.tensor([1.0]), torch.tensor([0.5]))
    >>> float(value), float(slope)
    (2.0, 2.0)
    """
    gap = values - anchor
    return (weights * gap.square()).sum(), 2 * weights * gap
