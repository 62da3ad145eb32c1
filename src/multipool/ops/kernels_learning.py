"""Triton kernels for normalisation that learns, over activations ``(rows, C)``, channels last.

The forward sums (``kernels.sum_parts``), settles the statistics and normalises; the backward sums,
finishes those sums, and writes the gradient of its input: each activation is read twice and written
once, whatever stands around the layer. See ``fused_learning.py`` for the plain reference.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(
    do_not_specialize=["parts", "count", "rate", "moves"],
    do_not_specialize_on_alignment=["mean", "var"],
)
def settle(
    sums,
    x,
    mean,
    var,
    settled,
    parts,
    count,
    rate,
    moves,
    channels,
    PARTS: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Write (mixed mean, mixed variance, batch mean): the state's, moved by ``rate`` to the sums'.

    ``sums`` are about the first row of ``x``. ``moves``: the state's follow.
    """
    c = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    has = c < channels
    p = tl.arange(0, PARTS)
    inside = (p < parts)[:, None] & has[None, :]
    at = p[:, None] * 2 * channels + c[None, :]
    first = tl.sum(tl.load(sums + at, inside, 0.0), axis=0) / count
    second = tl.sum(tl.load(sums + at + channels, inside, 0.0), axis=0) / count
    middle = tl.load(x + c, has, 0.0).to(tl.float32) + first
    spread = tl.maximum(second - first * first, 0.0)
    m, v = tl.load(mean + c, has, 0.0), tl.load(var + c, has, 0.0)
    new_mean, new_var = m + rate * (middle - m), v + rate * (spread - v)
    tl.store(settled + c, new_mean, has)
    tl.store(settled + channels + c, new_var, has)
    tl.store(settled + 2 * channels + c, middle, has)
    tl.store(mean + c, new_mean, has & (moves > 0))
    tl.store(var + c, new_var, has & (moves > 0))


@triton.jit(
    do_not_specialize=["eps", "relu", "add", "keep", "direct", "rows", "parts"],
    do_not_specialize_on_alignment=["weight", "bias", "mean", "var"],
)
def backward_sums(
    grad,
    more,
    x,
    y,
    weight,
    bias,
    mean,
    var,
    sums,
    kept,
    grad_x,
    eps,
    relu,
    add,
    keep,
    direct,
    rows,
    channels,
    parts,
    ROWS: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Write sums of g and g (x - mean) over each part of the rows; g = grad, and ``more`` if add.

    ``relu`` 1: g counts where the output was positive, told by ``x``; 2: told by ``y``; 0:
    everywhere. ``keep``: g goes to ``kept``. ``direct``: w g / sqrt(var + eps) to ``grad_x``.
    """
    c = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    part = tl.program_id(1)
    has = c < channels
    m = tl.load(mean + c, has, 0.0)[None, :]
    v = tl.load(var + c, has, 1.0)[None, :]
    scale = tl.load(weight + c, has, 0.0)[None, :] * tl.rsqrt(v + eps)
    b = tl.load(bias + c, has, 0.0)[None, :]
    first = tl.zeros((ROWS, WIDE), dtype=tl.float32)
    second = tl.zeros((ROWS, WIDE), dtype=tl.float32)
    last = tl.cdiv(rows, ROWS) - 1
    for back in range(part, last + 1, parts):  # in this order as in sum_parts
        r = (last - back) * ROWS + tl.arange(0, ROWS)
        inside = (r < rows)[:, None] & has[None, :]
        at = r[:, None] * channels + c[None, :]
        g = tl.load(grad + at, inside, 0.0).to(tl.float32)
        d = tl.load(x + at, inside, 0.0).to(tl.float32) - m
        if add:
            g += tl.load(more + at, inside, 0.0).to(tl.float32)
        if relu == 1:
            g = tl.where(d * scale + b <= 0, 0.0, g)
        if relu == 2:
            g = tl.where(tl.load(y + at, inside, 0.0).to(tl.float32) <= 0, 0.0, g)
        if keep:
            tl.store(kept + at, g.to(kept.dtype.element_ty), inside)
        if direct:
            tl.store(grad_x + at, (g * scale).to(grad_x.dtype.element_ty), inside)
        first += g
        second += tl.where(inside, g * d, 0.0)
    tl.store(sums + part * 2 * channels + c, tl.sum(first, axis=0), has)
    tl.store(sums + (part * 2 + 1) * channels + c, tl.sum(second, axis=0), has)


@triton.jit(
    do_not_specialize=["parts", "eps", "through"],
    do_not_specialize_on_alignment=["weight", "var", "grads"],
)
def finish(
    sums,
    weight,
    var,
    grads,
    slopes,
    parts,
    eps,
    through,
    channels,
    PARTS: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Write the gradients of weight and bias, and what the statistics add to that of ``x``."""
    c = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    has = c < channels
    p = tl.arange(0, PARTS)
    inside = (p < parts)[:, None] & has[None, :]
    at = p[:, None] * 2 * channels + c[None, :]
    first = tl.sum(tl.load(sums + at, inside, 0.0), axis=0)
    second = tl.sum(tl.load(sums + at + channels, inside, 0.0), axis=0)
    r = tl.rsqrt(tl.load(var + c, has, 1.0) + eps)
    share = tl.load(weight + c, has, 0.0) * r * through
    tl.store(grads + c, second * r, has)
    tl.store(grads + channels + c, first, has)
    tl.store(slopes + c, share * first, has)
    tl.store(slopes + channels + c, share * r * r * second, has)


@triton.jit(
    do_not_specialize=["eps", "relu", "weighted", "rows", "space", "count"],
    do_not_specialize_on_alignment=["weight", "bias", "settled", "weights"],
)
def backward_x(
    grad,
    x,
    weight,
    bias,
    settled,
    slopes,
    weights,
    grad_x,
    eps,
    relu,
    weighted,
    rows,
    channels,
    space,
    count,
    ROWS: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Write w r g - (s + t (x - batch mean)) / count, the last part weighted by image.

    ``relu``: g counts where the output was positive. ``settled`` is what ``settle`` wrote,
    ``slopes`` are s and t.
    """
    wide = tl.cdiv(channels, WIDE)
    c = tl.program_id(0) % wide * WIDE + tl.arange(0, WIDE)
    r = tl.program_id(0) // wide * ROWS + tl.arange(0, ROWS)
    has = c < channels
    inside = (r < rows)[:, None] & has[None, :]
    m = tl.load(settled + c, has, 0.0)[None, :]
    v = tl.load(settled + channels + c, has, 1.0)[None, :]
    middle = tl.load(settled + 2 * channels + c, has, 0.0)[None, :]
    scale = tl.load(weight + c, has, 0.0)[None, :] * tl.rsqrt(v + eps)
    shift = tl.load(slopes + c, has, 0.0)[None, :]
    slope = tl.load(slopes + channels + c, has, 0.0)[None, :]
    at = r[:, None] * channels + c[None, :]
    g = tl.load(grad + at, inside, 0.0).to(tl.float32)
    value = tl.load(x + at, inside, 0.0).to(tl.float32)
    if relu:
        b = tl.load(bias + c, has, 0.0)[None, :]
        g = tl.where((value - m) * scale + b <= 0, 0.0, g)
    part = tl.load(weights + r // space, (r < rows) & (weighted > 0), 1.0)[:, None] / count
    out = g * scale - part * (shift + slope * (value - middle))
    tl.store(grad_x + at, out.to(grad_x.dtype.element_ty), inside)
