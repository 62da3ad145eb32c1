"""Normalisation that learns, with what surrounds it, in three kernels forth and three back.

A layer's output is ReLU(w (x - m) / sqrt(v + eps) + b + shortcut), where m and v are a mix of
stored statistics and the batch's (:class:`~multipool.ops.normalise.Mix`). With r = 1/sqrt(v + eps),
upstream g where the output was positive, n values a channel and the share s of the gradient that
flows through the batch's own mean m_b and variance (methods.md 3.15):
dx = w r [g - (s/n) sum g - (s/n) r^2 (x - m_b) sum g (x - m)], and the shortcut gets g.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from multipool.ops import fused
from multipool.ops.normalise import LayerState, Mix, Policy

_TWIN = "_multipool_twin"


def normalised(
    policy: Policy, x: Tensor, state: LayerState, *, relu: bool, shortcut: Tensor | None
) -> Tensor | None:
    """Return what ``policy`` makes of ``x``, plus ``shortcut``, cut off at 0 if ``relu``.

    None to have plain kernels do it.
    """
    if not fused.usable(x) or (mix := fused.mix_of(policy, x)) is None:
        return None
    return learned(x, state, mix, relu=relu, shortcut=shortcut)


def learned(
    x: Tensor, state: LayerState, mix: Mix, *, relu: bool = False, shortcut: Tensor | None = None
) -> Tensor:
    """Return the layer's output, with gradients for ``x``, weight, bias and ``shortcut``.

    It may be given on to a convolution and as a shortcut to a later layer. Each way its gradient
    comes by itself and is added where it is read: the shortcut takes another output of the same
    function, in the same memory.
    """
    shortcut = None if shortcut is None else twin_of(shortcut)
    out, twin = _Learned.apply(  # type: ignore[no-untyped-call]
        x, state.weight, state.bias, shortcut, state, mix, relu
    )
    setattr(out, _TWIN, twin)
    return out


def twin_of(out: Tensor) -> Tensor:
    """Return what stands for ``out`` as a shortcut: its twin, or itself if it has none."""
    twin: Tensor = getattr(out, _TWIN, out)
    return twin


class _Learned(torch.autograd.Function):
    """See the top of this file."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        shortcut: Tensor | None,
        state: LayerState,
        mix: Mix,
        relu: bool,
    ) -> tuple[Tensor, Tensor]:
        if mix.rate > 0:
            settled = fused.settle(x, state, mix)
        else:  # copies: whoever moves them later must not reach the backward
            settled = torch.stack([state.mean, state.var, state.mean])
        y = fused.normalised(x, settled[0], settled[1], state, relu=relu, shortcut=shortcut)
        told = y if relu and shortcut is not None else None  # else x tells where y is positive
        ctx.save_for_backward(x, weight, bias, settled, told)
        ctx.eps, ctx.mix, ctx.relu, ctx.added = state.eps, mix, relu, shortcut is not None
        ctx.set_materialize_grads(False)
        return y, y.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, weight, bias, settled, y = ctx.saved_tensors
        given = [fused.laid_out(g, x) for g in grads if g is not None]
        needs_x, needs_shortcut = ctx.needs_input_grad[0], ctx.needs_input_grad[3]
        keep = len(given) == 2 or (ctx.added and ctx.relu)
        kept = torch.empty_like(x) if keep else given[0]
        direct = needs_x and ctx.mix.through == 0
        grad_x = torch.empty_like(x) if needs_x else x
        wide, parts = fused.cut(x)
        channels, rows = x.shape[1], x.numel() // x.shape[1]
        sums = torch.empty(parts, 2, channels, device=x.device)
        known = fused.kernels(x)
        known.backward_sums[(wide, parts)](
            given[0], given[-1], x, x if y is None else y, weight, bias, settled[0], settled[1],
            sums, kept, grad_x, ctx.eps, int(ctx.relu) if y is None else 2, len(given) - 1,
            int(keep), int(direct), rows, channels, parts, ROWS=fused.ROWS, WIDE=fused.WIDE,
        )  # fmt: skip
        affine, slopes = torch.empty(2, 2, channels, device=x.device).unbind()
        known.finish[(wide,)](
            sums, weight, settled[1], affine, slopes, parts, ctx.eps, ctx.mix.through, channels,
            PARTS=fused.MOST, WIDE=fused.WIDE,
        )  # fmt: skip
        if needs_x and not direct:
            weights = ctx.mix.weights
            count = rows if weights is None else rows // len(x)
            known.backward_x[(-(-rows // fused.ROWS) * wide,)](
                kept, x, weight, bias, settled, slopes, sums if weights is None else weights,
                grad_x, ctx.eps, int(ctx.relu and not keep), int(weights is not None), rows,
                channels, rows // len(x), float(count), ROWS=fused.ROWS, WIDE=fused.WIDE,
            )  # fmt: skip
        through = kept if needs_shortcut else None
        return (grad_x if needs_x else None, affine[0], affine[1], through, None, None, None)


def rehearse(x: Tensor, state: LayerState) -> None:
    """Run every kernel once, so that all are compiled."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        out = learned(leaf, state, Mix(0.5, 0.5), relu=True)
        torch.autograd.grad(out.float().sum(), leaf)
