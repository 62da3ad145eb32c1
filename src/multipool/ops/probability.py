"""Entropies, cross-entropies and weights over logits, one value per sample."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_FLOOR = 1e-7  # added to every share of an opinion, as in COME's release


def entropy(logits: Tensor) -> Tensor:
    """Return the Shannon entropy of ``softmax(logits)`` in nats, ``(B, L)`` to ``(B,)``.

    The gradient flows through both factors of ``p log p``.
    """
    log_p = logits.log_softmax(dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)


def conservative_entropy(logits: Tensor) -> Tensor:
    """Return COME's entropy of opinion: over the L classes and what is not known, ``(B,)``.

    Zhang et al., COME: Test-time Adaption by Conservatively Minimizing Entropy, ICLR 2025. Beliefs
    exp(z_c) / S and the uncertainty mass L / S, S = sum_c exp(z_c) + L, are the softmax of the
    logits and one more of ln L. The norm of the logits is held: its gradient is cut, so that
    minimising cannot make a sample surer by scaling it. The release writes 1000 for L, its only
    number of classes.

    >>> conservative_entropy(torch.zeros(1, 2)).round(decimals=4)  # shares 1/4, 1/4, 1/2
    tensor([1.0397])
    """
    norm = torch.linalg.vector_norm(logits, dim=1, keepdim=True).clamp_min(1e-12)
    held = logits / norm * norm.detach()
    unknown = torch.full_like(held[:, :1], math.log(logits.shape[1]))
    shares = torch.cat([held, unknown], dim=1).softmax(dim=1) + _FLOOR  # (B, L + 1)
    return -(shares * shares.log()).sum(dim=1)


ENTROPIES = {"entropy": entropy, "come": conservative_entropy}  # what may be minimised


def uncertainty(logits: Tensor) -> Tensor:
    """Return the entropy that memories store, with 1e-6 inside the logarithm, ``(B,)``.

    RoTTA's and PeTTA's released code; it can be slightly negative, so it is not :func:`entropy`.
    """
    p = logits.softmax(dim=1)
    return -(p * (p + 1e-6).log()).sum(dim=1)


def soft_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return CE(p, z) = -sum_c p_c log softmax(z)_c for target probabilities ``(B, L)``, ``(B,)``.

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
