"""Triton kernels over activations whose channels lie last, as ``(rows, C)``: one read, one write.

Each has a plain reference in torch, which CPUs and machines without Triton run; see ``fused.py``.
What differs from call to call is told in arguments rather than in constants, and only C is
specialised on (a multiple of 16): each kernel is compiled once for each type of activation.
"""

from __future__ import annotations

import triton
import triton.language as tl

PARTS = tl.constexpr(128)  # rows of a reduction are summed in so many parts


@triton.jit(
    do_not_specialize=["eps", "low", "add", "rows", "space", "stride"],
    do_not_specialize_on_alignment=["mean", "var", "weight", "bias"],
)
def normalise(
    x,
    y,
    shortcut,
    mean,
    var,
    weight,
    bias,
    eps,
    low,
    add,
    rows,
    channels,
    space,
    stride,
    EACH: tl.constexpr,
    ROWS: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Write y = max(low, (x - mean) w / sqrt(var + eps) + b, plus the shortcut if ``add``).

    ``EACH``: statistics of each image, ``stride`` apart; an image has ``space`` rows.
    """
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    has = c < channels
    inside = (r < rows)[:, None] & has[None, :]
    w = tl.load(weight + c, has, 0.0)[None, :]
    b = tl.load(bias + c, has, 0.0)[None, :]
    if EACH:
        of = (r // space)[:, None] * stride + c[None, :]
        m = tl.load(mean + of, inside, 0.0)
        v = tl.load(var + of, inside, 1.0)
    else:
        m = tl.load(mean + c, has, 0.0)[None, :]
        v = tl.load(var + c, has, 1.0)[None, :]
    at = r[:, None] * channels + c[None, :]
    out = (tl.load(x + at, inside, 0.0).to(tl.float32) - m) * (w * tl.rsqrt(v + eps)) + b
    if add:
        out += tl.load(shortcut + at, inside, 0.0).to(tl.float32)
    out = tl.where(out < low, low, out)  # what is no number stays none: the guard must see it
    tl.store(y + at, out.to(y.dtype.element_ty), inside)


@triton.jit(
    do_not_specialize=["rows", "space", "each", "weighted"],
    do_not_specialize_on_alignment=["weights", "middle"],
)
def sum_parts(
    x,
    weights,
    middle,
    parts,
    rows,
    channels,
    space,
    each,
    weighted,
    ROWS: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Write sums of d and d^2 over each part of the rows; d = x - middle, weighted by image."""
    part = tl.program_id(0)
    c = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    has = c < channels
    m = tl.load(middle + c, has, 0.0)[None, :]
    first = tl.zeros((ROWS, WIDE), dtype=tl.float32)
    second = tl.zeros((ROWS, WIDE), dtype=tl.float32)
    end = tl.minimum((part + 1) * each, rows)
    for start in range(part * each, end, ROWS):
        r = start + tl.arange(0, ROWS)
        inside = (r < end)[:, None] & has[None, :]
        value = tl.load(x + r[:, None] * channels + c[None, :], inside, 0.0).to(tl.float32)
        d = tl.where(inside, value - m, 0.0)
        scale = tl.load(weights + r // space, (r < end) & (weighted > 0), 1.0)[:, None]
        first += scale * d
        second += scale * d * d
    tl.store(parts + part * 2 * channels + c, tl.sum(first, axis=0), has)
    tl.store(parts + (part * 2 + 1) * channels + c, tl.sum(second, axis=0), has)


@triton.jit(
    do_not_specialize=["count"],
    do_not_specialize_on_alignment=["mean", "var", "home_mean", "home_var", "share", "rate"],
)
def move(
    parts, mean, var, home_mean, home_var, share, rate, mixed, count, channels, WIDE: tl.constexpr
):
    """Move (mean, var) by ``rate`` to the summed rows'; mixed = their mixture with the home's."""
    c = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    has = c < channels
    p = tl.arange(0, PARTS)
    inside = (p >= 0)[:, None] & has[None, :]
    at = p[:, None] * 2 * channels + c[None, :]
    first = tl.sum(tl.load(parts + at, inside, 0.0), axis=0) / count
    second = tl.sum(tl.load(parts + at + channels, inside, 0.0), axis=0) / count
    by, of = tl.load(rate), tl.load(share)
    m, v = tl.load(mean + c, has, 0.0), tl.load(var + c, has, 0.0)
    m, v = m + by * first, v + by * (second - first * first - v)
    tl.store(mean + c, m, has)
    tl.store(var + c, v, has)
    hm, hv = tl.load(home_mean + c, has, 0.0), tl.load(home_var + c, has, 0.0)
    tl.store(mixed + c, hm + of * (m - hm), has)
    tl.store(mixed + channels + c, hv + of * (v - hv), has)
