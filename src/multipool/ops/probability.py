"""Entropies, cross-entropies and weights over logits, one value per sample."""

from __future__ import annotations

from torch import Tensor


def entropy(logits: Tensor) -> Tensor:
    """Return the Shannon entropy of ``softmax(logits)`` in nats, ``(B, L)`` to ``(B,)``.

    The gradient flows through both factors of ``p log p``.
    """
    log_p = logits.log_softmax(dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)


def uncertainty(logits: Tensor) -> Tensor:
    """Return the entropy that memories store, with 1e-6 inside the logarithm, ``(B,)``.

    RoTTA's and PeTTA's released code; it can be slightly negative, so it is not :func:`entropy`.
    """
    p = logits.softmax(dim=1)
    return -(p * (p + 1e-6).log()).sum(dim=1)


def soft_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return CE(p, z) = -sum_c p_c log softmax(z)_c for target probabilities ``(B, L)``, ``(B,)``.

    >>> import torch
    >>> soft_cross_entropy(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]])).round(decimals=4)
    tensor([0.6931])
    """
    return -(target * logits.log_softmax(dim=1)).sum(dim=1)


def symmetric_cross_entropy(logits: Tensor, other: Tensor) -> Tensor:
    """Return SCE(z, z') = (CE(p', z) + CE(p, z')) / 2 from two sets of logits, ``(B,)``.

    The gradient flows into every argument that requires it, through targets too.
    """
    forward = soft_cross_entropy(logits, other.softmax(dim=1))
    backward = soft_cross_entropy(other, logits.softmax(dim=1))
    return (forward + backward) / 2
