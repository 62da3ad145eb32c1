"""Triton kernels of the random view: the colours of an image in one, warp, blur and noise in one.

``augment.py`` and ``colour.py`` are the plain reference, and say what is computed; here one draw
serves the whole batch and images have three channels.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _unit(x):
    return tl.minimum(tl.maximum(x, 0.0), 1.0)


@triton.jit
def _grey(r, g, b):
    return 0.2989 * r + 0.587 * g + 0.114 * b


@triton.jit
def _turned(x, rising, middle, turns, chroma, least, value):
    """Return one channel after the hue has turned; ``rising`` is the next one less the last."""
    sign = tl.where(rising > 0, 1.0, tl.where(rising < 0, -1.0, 0.0))
    return tl.minimum(tl.maximum(2 * x - middle - sign * (6 * turns) * chroma, least), value)


@triton.jit(do_not_specialize=["order", "bright", "contrast", "saturation", "turns", "gamma"])
def colours(
    images,
    out,
    order,
    bright,
    contrast,
    saturation,
    turns,
    gamma,
    pixels,
    stride_image,
    stride_channel,
    stride_pixel,
    BLOCK: tl.constexpr,
):
    """Write the five colour operations of one image, in the order of ``order``: 3 bits each."""
    image = tl.program_id(0)
    p = tl.arange(0, BLOCK)
    has = p < pixels
    at = images + image * stride_image + p * stride_pixel
    r = _unit(tl.load(at, has, 0.0))
    g = _unit(tl.load(at + stride_channel, has, 0.0))
    b = _unit(tl.load(at + 2 * stride_channel, has, 0.0))
    for i in range(5):
        kind = (order >> (3 * i)) & 7
        if kind == 0:
            r, g, b = _unit(r * bright), _unit(g * bright), _unit(b * bright)
        elif kind == 1:
            grey = tl.sum(tl.where(has, _grey(r, g, b), 0.0), axis=0) / pixels
            r = _unit(grey + contrast * (r - grey))
            g = _unit(grey + contrast * (g - grey))
            b = _unit(grey + contrast * (b - grey))
        elif kind == 2:
            own = _grey(r, g, b)
            r = _unit(own + saturation * (r - own))
            g = _unit(own + saturation * (g - own))
            b = _unit(own + saturation * (b - own))
        elif kind == 3:
            value = tl.maximum(tl.maximum(r, g), b)
            least = tl.minimum(tl.minimum(r, g), b)
            chroma = value - least
            middle = r + g + b - value - least
            red = _turned(r, g - b, middle, turns, chroma, least, value)
            green = _turned(g, b - r, middle, turns, chroma, least, value)
            blue = _turned(b, r - g, middle, turns, chroma, least, value)
            r, g, b = red, green, blue
        else:
            r = _unit(tl.exp(tl.log(tl.maximum(r, 1e-8)) * gamma))
            g = _unit(tl.exp(tl.log(tl.maximum(g, 1e-8)) * gamma))
            b = _unit(tl.exp(tl.log(tl.maximum(b, 1e-8)) * gamma))
    to = out + image * 3 * pixels + p
    tl.store(to, r, has)
    tl.store(to + pixels, g, has)
    tl.store(to + 2 * pixels, b, has)


@triton.jit(
    do_not_specialize=[
        "xx", "xy", "x1", "yx", "yy", "y1", "near", "far", "middle", "strength", "height", "width",
    ]
)  # fmt: skip
def warp(
    images,
    noise,
    out,
    xx,
    xy,
    x1,
    yx,
    yy,
    y1,
    far,
    near,
    middle,
    strength,
    height,
    width,
    BLOCK: tl.constexpr,
):
    """Write a block of pixels of one image: warped, blurred, with noise, between 0 and 1.

    A pixel comes from (xx u + xy v + x1, yx u + yy v + y1), places about the centre. ``far``,
    ``near`` and ``middle`` are the taps of the blur. ``images`` and ``noise`` are ``(B, 3, H, W)``
    in that order in memory, ``out`` has its channels last.
    """
    pixels = height * width
    block = tl.cdiv(pixels, BLOCK)
    image = tl.program_id(0) // block
    p = tl.program_id(0) % block * BLOCK + tl.arange(0, BLOCK)
    has = p < pixels
    u = (p % width).to(tl.float32) - (width - 1) / 2
    v = (p // width).to(tl.float32) - (height - 1) / 2
    plane = images + image * 3 * pixels
    r = tl.zeros((BLOCK,), dtype=tl.float32)
    g = tl.zeros((BLOCK,), dtype=tl.float32)
    b = tl.zeros((BLOCK,), dtype=tl.float32)
    for tap in range(25):
        i, j = tap // 5 - 2, tap % 5 - 2
        down = tl.where(i == 0, middle, tl.where(i * i == 1, near, far))
        weight = down * tl.where(j == 0, middle, tl.where(j * j == 1, near, far))
        if weight > 1e-12:
            x = xx * (u + j) + xy * (v + i) + x1 + (width - 1) / 2
            y = yx * (u + j) + yy * (v + i) + y1 + (height - 1) / 2
            x = tl.minimum(tl.maximum(x, 0.0), width - 1.0)
            y = tl.minimum(tl.maximum(y, 0.0), height - 1.0)
            left, top = tl.floor(x), tl.floor(y)
            dx, dy = x - left, y - top
            x0, y0 = left.to(tl.int32), top.to(tl.int32)
            x2, y2 = tl.minimum(x0 + 1, width - 1), tl.minimum(y0 + 1, height - 1)
            a = weight * (1 - dy) * (1 - dx)
            c = weight * (1 - dy) * dx
            d = weight * dy * (1 - dx)
            e = weight * dy * dx
            at00, at01 = plane + y0 * width + x0, plane + y0 * width + x2
            at10, at11 = plane + y2 * width + x0, plane + y2 * width + x2
            r += a * tl.load(at00, has, 0.0) + c * tl.load(at01, has, 0.0)
            r += d * tl.load(at10, has, 0.0) + e * tl.load(at11, has, 0.0)
            g += a * tl.load(at00 + pixels, has, 0.0) + c * tl.load(at01 + pixels, has, 0.0)
            g += d * tl.load(at10 + pixels, has, 0.0) + e * tl.load(at11 + pixels, has, 0.0)
            b += a * tl.load(at00 + 2 * pixels, has, 0.0) + c * tl.load(at01 + 2 * pixels, has, 0.0)
            b += d * tl.load(at10 + 2 * pixels, has, 0.0) + e * tl.load(at11 + 2 * pixels, has, 0.0)
    grain = noise + image * 3 * pixels + p
    r += strength * tl.load(grain, has, 0.0)
    g += strength * tl.load(grain + pixels, has, 0.0)
    b += strength * tl.load(grain + 2 * pixels, has, 0.0)
    to = out + (image * pixels + p) * 3
    tl.store(to, _unit(r), has)
    tl.store(to + 1, _unit(g), has)
    tl.store(to + 2, _unit(b), has)
