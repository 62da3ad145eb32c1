"""Triton kernels over activations whose channels lie last, as ``(rows, C)``: one read, one write.

Each has a plain reference in torch, which CPUs and machines without Triton run; see ``fused.py``.
What differs from call to call is told in arguments rather than in constants, and only C is
specialised on (a multiple of 16): each kernel is compiled once for each type of activation.
"""

from __future__ import annotations

import triton
import triton.language as tl


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
    # Neighbours in time are neighbours in memory: blocks go along the channels first.
    wide = tl.cdiv(channels, WIDE)
    c = tl.program_id(0) % wide * WIDE + tl.arange(0, WIDE)
    r = tl.program_id(0) // wide * ROWS + tl.arange(0, ROWS)
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
    do_not_specialize=["rows", "space", "parts", "weighted"],
    do_not_specialize_on_alignment=["weights", "middle"],
)
def sum_parts(
    x,
    weights,
    middle,
    sums,
    rows,
    channels,
    space,
    parts,
    weighted,
    ROWS: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Write sums of d and d^2 over each part of the rows; d = x - middle, weighted by image.

    From the last rows to the first: those written last are still at hand, and those read last
    are the first that whoever normalises wants.
    """
    part = tl.program_id(1)
    c = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    has = c < channels
    m = tl.load(middle + c, has, 0.0).to(tl.float32)[None, :]
    first = tl.zeros((ROWS, WIDE), dtype=tl.float32)
    second = tl.zeros((ROWS, WIDE), dtype=tl.float32)
    last = tl.cdiv(rows, ROWS) - 1
    for back in range(part, last + 1, parts):
        r = (last - back) * ROWS + tl.arange(0, ROWS)
        inside = (r < rows)[:, None] & has[None, :]
        value = tl.load(x + r[:, None] * channels + c[None, :], inside, 0.0).to(tl.float32)
        d = tl.where(inside, value - m, 0.0)
        scale = tl.load(weights + r // space, (r < rows) & (weighted > 0), 1.0)[:, None]
        first += scale * d
        second += scale * d * d
    tl.store(sums + part * 2 * channels + c, tl.sum(first, axis=0), has)
    tl.store(sums + (part * 2 + 1) * channels + c, tl.sum(second, axis=0), has)


@triton.jit(
    do_not_specialize=["count", "parts"],
    do_not_specialize_on_alignment=["mean", "var", "home_mean", "home_var", "share", "rate"],
)
def move(
    sums,
    mean,
    var,
    home_mean,
    home_var,
    share,
    rate,
    mixed,
    parts,
    count,
    channels,
    PARTS: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Move (mean, var) by ``rate`` to the summed rows'; mixed = their mixture with the home's."""
    c = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    has = c < channels
    p = tl.arange(0, PARTS)
    inside = (p < parts)[:, None] & has[None, :]
    at = p[:, None] * 2 * channels + c[None, :]
    first = tl.sum(tl.load(sums + at, inside, 0.0), axis=0) / count
    second = tl.sum(tl.load(sums + at + channels, inside, 0.0), axis=0) / count
    by, of = tl.load(rate), tl.load(share)
    m, v = tl.load(mean + c, has, 0.0), tl.load(var + c, has, 0.0)
    m, v = m + by * first, v + by * (second - first * first - v)
    tl.store(mean + c, m, has)
    tl.store(var + c, v, has)
    hm, hv = tl.load(home_mean + c, has, 0.0), tl.load(home_var + c, has, 0.0)
    tl.store(mixed + c, hm + of * (m - hm), has)
    tl.store(mixed + channels + c, hv + of * (v - hv), has)
