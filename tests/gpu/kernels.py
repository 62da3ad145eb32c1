"""What fused kernels must compute: the same as plain ones, forth and back."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import torch
from torch import Tensor

from multipool.methods.multipool.statistics import Moving
from multipool.methods.resitta import Residual
from multipool.ops import (
    LayerState,
    Policy,
    Robust,
    View,
    batch,
    frozen,
    fused,
    fused_learning,
    fused_view,
)
from multipool.ops.moments import normalise

SHAPES = ((5, 16, 4, 4), (3, 48, 7, 5), (64, 64, 2, 2), (6, 32), (64, 256, 32, 32))
ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}
NEAR = 1e-4  # of 0: rounding may put an activation on either side of the ReLU


def differ(one: Tensor, other: Tensor) -> float:
    """Return the largest difference, as a share of the largest value."""
    return float((one - other).abs().max() / other.abs().max())


def activations(shape: tuple[int, ...], draw: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Return random activations as they lie in a network."""
    x = torch.randn(shape, generator=draw, device=draw.device).to(dtype)
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x


def check_kernels(device: torch.device, dtype: torch.dtype) -> str:
    """Fused kernels compute what plain ones do."""
    if not fused.get_ready(device, dtype):
        return "no Triton here: plain kernels"
    draw, worst = torch.Generator(device).manual_seed(0), 0.0
    for shape in SHAPES:
        x = activations(shape, draw, dtype)
        rows = torch.rand(8, shape[1], generator=draw, device=device) + 0.1
        own, home = (LayerState(*rows[i : i + 4], 1e-5) for i in (0, 4))
        share, rate = rows[0, 0], rows[1, 0].clamp(max=1)
        weights = torch.rand(shape[0], generator=draw, device=device)
        for given in (None, weights / weights.sum()):
            one, other = (replace(own, mean=own.mean.clone(), var=own.var.clone()) for _ in "ab")
            both = (id(one), id(other))
            policy = Moving(dict.fromkeys(both, home), dict.fromkeys(both, share), rate, given)
            expected = policy(x, one)
            found = fused.normalised(x, *policy.moments(x, other), other)
            worst = max(worst, differ(found.float(), expected.float()))
            worst = max(worst, differ(one.mean, other.mean), differ(one.var, other.var))
        plain = frozen(x, own)
        found = fused.normalised(x, own.mean, own.var, own, relu=True, shortcut=x)
        worst = max(worst, differ(found.float(), torch.relu(plain + x).float()))
        each = torch.rand(2, shape[0], shape[1] + 1, generator=draw, device=device)[..., 1:] + 0.1
        found = fused.normalised(x, *each, own)
        worst = max(worst, differ(found.float(), normalise(x, *each, own).float()))
    assert worst <= ROUNDING[dtype], f"differs by {worst:.1e}"
    return f"differs by {worst:.0e}"


def check_learning(device: torch.device, dtype: torch.dtype) -> str:
    """Gradients of fused kernels are those of plain ones, of every input and every policy."""
    if not fused.get_ready(device, dtype):
        return "no Triton here: plain kernels"
    draw, worst = torch.Generator(device).manual_seed(0), 0.0
    for shape in SHAPES:
        rows = (torch.arange(shape[0], device=device) < shape[0] - 1).float()
        policies = [frozen, batch, Robust(0.3), Robust(0.3, rows), Residual(0.3)]
        for policy, relu, added, twice in product([*policies, Residual(0.3, rows)], *[(0, 1)] * 3):
            counted = getattr(policy, "rows", None)
            given = [activations(shape, draw, dtype) for _ in range(4)]
            vectors = torch.rand(4, shape[1], generator=draw, device=device) + 0.1
            if relu:
                given[2:] = _clear_of_zero(policy, given, vectors, added=added)
            both = [
                _pushed(make, policy, given, vectors, counted, relu=relu, added=added, twice=twice)
                for make in (_by_kernels, _plainly)
            ]
            worst = max(worst, *(differ(a, b) for a, b in zip(*both, strict=True)))
    assert worst <= ROUNDING[dtype], f"differs by {worst:.1e}"
    return f"differs by {worst:.0e}"


Made = tuple[Tensor, Tensor]  # what a convolution and what a shortcut behind the layer is given
Make = Callable[[Policy, Tensor, LayerState, bool, Tensor | None], Made]


def _by_kernels(
    policy: Policy, x: Tensor, state: LayerState, relu: bool, shortcut: Tensor | None
) -> Made:
    mix = fused.mix_of(policy, x)
    assert mix is not None
    out = fused_learning.learned(x, state, mix, relu=relu, shortcut=shortcut)
    return out, fused_learning.twin_of(out)


def _plainly(
    policy: Policy, x: Tensor, state: LayerState, relu: bool, shortcut: Tensor | None
) -> Made:
    out = policy(x.float(), state)
    out = out if shortcut is None else out + shortcut.float()
    out = torch.relu(out) if relu else out
    return out, out


def _clear_of_zero(
    policy: Policy, given: list[Tensor], vectors: Tensor, *, added: bool
) -> list[Tensor]:
    """Return what pulls at the output, nothing where that is cut off or not by a rounding.

    There the gradient is all or nothing, and reaches the sums of its channel as well.
    """
    weight, bias, mean, var = (v.clone() for v in vectors)
    state = LayerState(weight, bias, mean, var, 1e-5)
    before, _ = _plainly(policy, given[0], state, False, given[1] if added else None)
    return [pull * (before.abs() >= NEAR) for pull in given[2:]]


def _pushed(
    make: Make,
    policy: Policy,
    given: list[Tensor],
    vectors: Tensor,
    rows: Tensor | None,
    *,
    relu: bool,
    added: bool,
    twice: bool,
) -> list[Tensor]:
    """Return the output, all gradients and the statistics afterwards, in float32."""
    x, shortcut = (t.detach().clone().requires_grad_() for t in given[:2])
    weight, bias, mean, var = (v.clone() for v in vectors)
    affine = (weight.requires_grad_(), bias.requires_grad_())
    out, other = make(
        policy, x, LayerState(*affine, mean, var, 1e-5), relu, shortcut if added else None
    )
    pull = [
        t.float() if rows is None else t.float() * rows.view(-1, *[1] * (t.ndim - 1))
        for t in given[2:]
    ]
    loss = (out.float() * pull[0]).sum()
    if twice:
        loss = loss + (other.float() * pull[1]).sum()
    wanted = (x, *affine, shortcut) if added else (x, *affine)
    found = [out.detach(), *torch.autograd.grad(loss, wanted), mean, var]
    return [t.float() for t in found]


def check_views(device: torch.device) -> str:
    """A view in two kernels is the view of plain ones."""
    if not fused.get_ready(device, torch.float32):
        return "no Triton here: plain kernels"
    view, worst, real = View(), 0.0, fused_view.usable
    draw = torch.Generator(device).manual_seed(0)
    for seed, (height, width) in product(range(5), ((32, 32), (13, 9), (64, 64))):
        x = torch.rand(7, 3, height, width, generator=draw, device=device)
        x = x.contiguous(memory_format=torch.channels_last) if seed % 2 else x
        noise = torch.randn(x.shape, generator=draw, device=device)
        drawn = view.draw(len(x), width, np.random.default_rng(seed))
        assert fused_view.usable(x)
        found = view.apply(x, drawn, noise)
        try:
            fused_view.usable = lambda images: False
            worst = max(worst, differ(found, view.apply(x, drawn, noise)))
        finally:
            fused_view.usable = real
    assert worst <= 1e-4, f"differs by {worst:.1e}"
    return f"differs by {worst:.0e}"
