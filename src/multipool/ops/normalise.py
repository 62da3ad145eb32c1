"""How one normalisation layer turns activations into outputs: a policy per mode.

A policy is a pure function of the activations and the layer's state, except that it may move the
state's statistics in place. All of them end in the same affine map; they differ in which mean and
variance they use, whether those move, and how much gradient flows through them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class LayerState:
    """What one network knows about one normalisation layer; every tensor is ``(C,)`` float32.

    A layer that keeps no statistics has a mean and a variance of length 0, one without a shift
    such a bias.
    """

    weight: Tensor
    bias: Tensor
    mean: Tensor
    var: Tensor
    eps: float


Policy = Callable[[Tensor, LayerState], Tensor]


@dataclass(frozen=True)
class Mix:
    """What fused kernels must know of a policy that mixes stored statistics with the batch's."""

    rate: float  # share of the batch in what normalises it
    through: float  # share of the gradient that flows through the batch's statistics
    moves: bool = False  # whether the stored statistics become the mixed ones
    weights: Tensor | None = None  # (B,) of the images in the batch's, summing to 1; None: alike

    @classmethod
    def moving(cls, rate: float, through: float, rows: Tensor | None) -> Mix:
        """Return the mix of a policy that moves statistics by ``rows`` ``(B,)``, 1 or 0."""
        return cls(rate, through, moves=True, weights=None if rows is None else rows / rows.sum())


def batch_moments(x: Tensor, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return mean and biased variance per channel over batch and space, ``(C,)`` each, float32.

    ``rows`` ``(B,)``, 1 or 0, says which instances count; None: all.
    """
    if rows is not None:
        return _moments_of(x.float(), rows)
    if x.dtype in (torch.bfloat16, torch.float16) and not x.is_cuda:
        x = x.float()  # the CPU kernel would return its sums as coarse as its input
    # One fused reduction on CPU and CUDA; var_mean takes three times as long on the CPU.
    mean, var = torch.batch_norm_update_stats(x, None, None, 0.0)
    return mean, var


def _moments_of(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    share = rows / rows.sum()
    inside, means = torch.zeros_like(x), x  # (B, C)
    if x.ndim > 2:
        inside, means = torch.var_mean(x, dim=tuple(range(2, x.ndim)), correction=0)
    mean = share @ means
    return mean, share @ (inside + (means - mean).square())


def batch_norm(
    x: Tensor,
    mean: Tensor | None,
    var: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    *,
    eps: float,
    training: bool = False,
) -> Tensor:
    """Return batch normalisation by ``(C,)`` vectors that may begin anywhere in a larger one.

    cuDNN reads four floats at once and faults on a vector that does not begin at a multiple of 16
    bytes, as one does behind a bias of ten classes. Such vectors are copied first.
    """
    if _meets_cudnn(x):
        mean, var = (None if v is None else _aligned(v) for v in (mean, var))
        weight, bias = _aligned(weight), _aligned(bias)
    # What F.batch_norm calls after some questions, which take time where an image comes alone.
    cudnn = torch.backends.cudnn.enabled
    return torch.batch_norm(x, weight, bias, mean, var, training, 0.0, eps, cudnn)


def _meets_cudnn(x: Tensor) -> bool:
    # A compiler makes kernels of its own, and cannot ask for addresses.
    return x.is_cuda and not torch.compiler.is_compiling()


def _aligned(vector: Tensor) -> Tensor:
    return vector if vector.data_ptr() % 16 == 0 else vector.clone()


def frozen(x: Tensor, state: LayerState) -> Tensor:
    """Normalise with the stored statistics, which stay as they are (SRC, or eval of any mode)."""
    return batch_norm(x, state.mean, state.var, state.weight, state.bias, eps=state.eps)


def batch(x: Tensor, state: LayerState) -> Tensor:
    """Normalise with this batch's own statistics, gradients through them (BATCH).

    One value a channel has no variance, so such a layer keeps its stored statistics.
    """
    if x.numel() == x.shape[1]:
        return frozen(x, state)
    return batch_norm(x, None, None, state.weight, state.bias, eps=state.eps, training=True)


@dataclass(frozen=True)
class Robust:
    """RoTTA's robust batch normalisation (RoTTA Sec. 3.2), with the gradient of its release.

    The statistics move by ``rate`` towards this batch's (biased variance) and then normalise it.
    The gradient flows through the ``rate`` part only.
    """

    rate: float
    rows: Tensor | None = None  # (B,) 1 or 0: the others are there to fill the batch up

    def __call__(self, x: Tensor, state: LayerState) -> Tensor:
        """Return the normalised ``x`` and move ``state.mean`` and ``state.var`` in place."""
        if torch.compiler.is_compiling():
            return _robust_plain(x, state, self.rate, self.rows)
        if torch.is_grad_enabled() and (x.requires_grad or state.weight.requires_grad):
            out: Tensor = _RobustFunction.apply(  # type: ignore[no-untyped-call]
                x, state.weight, state.bias, state, self.rate, self.rows
            )
            return out
        move_statistics(x, state, self.rate, self.rows)
        return frozen(x, state)

    @functools.cached_property
    def mix(self) -> Mix:
        """What fused kernels do in its place."""
        return Mix.moving(self.rate, self.rate, self.rows)


def move_statistics(
    x: Tensor, state: LayerState, rate: float, rows: Tensor | None = None
) -> Tensor:
    """Move the statistics by ``rate`` towards those of ``x``; return the mean of ``x``.

    No gradient flows: ``x`` is detached, or gradients are off.
    """
    mean, var = batch_moments(x, rows)
    state.mean.lerp_(mean, rate)
    state.var.lerp_(var, rate)
    return mean


def _robust_plain(x: Tensor, state: LayerState, rate: float, rows: Tensor | None = None) -> Tensor:
    """Write :class:`Robust` as it is defined: a compiler fuses this with its surroundings."""
    dims = [d for d in range(x.ndim) if d != 1]
    shape = (1, -1) + (1,) * (x.ndim - 2)
    wide = x.float()
    if rows is None:
        var, mean = torch.var_mean(wide, dims, correction=0)
    else:
        mean, var = _moments_of(wide, rows)
    mean = state.mean * (1 - rate) + mean * rate
    var = state.var * (1 - rate) + var * rate
    scale = state.weight * (var + state.eps).rsqrt()
    shift = state.bias - mean * scale
    out = wide * scale.view(shape) + shift.view(shape)
    state.mean.copy_(mean.detach())
    state.var.copy_(var.detach())
    return out.to(x.dtype)


class _RobustFunction(torch.autograd.Function):
    """Normalise by (1-a) M + a m_b, (1-a) V + a v_b; backward in closed form.

    With r = 1/sqrt(v+eps), n values a channel and upstream g (methods.md 3.15, checked in tests):
    dx = w r [g - (a/n) sum g - (a/n) r^2 (x - m_b) sum g (x - m)].
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        state: LayerState,
        rate: float,
        rows: Tensor | None,
    ) -> Tensor:
        batch_mean = move_statistics(x, state, rate, rows)
        # Copies: a later pass moves the statistics again before the backward reads these.
        mean, invstd = state.mean.clone(), (state.var + state.eps).rsqrt_()
        ctx.save_for_backward(x, weight, mean, invstd, batch_mean)
        ctx.rate, ctx.rows = rate, rows
        return frozen(x, state)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, *layer = ctx.saved_tensors
        rate, rows = ctx.rate, ctx.rows
        if rows is not None:  # whose gradient is 0; n counts the others
            rate = rate * len(rows) / rows.sum()
        backward = _robust_backward_cuda if x.is_cuda else _robust_backward_cpu
        grad_x, *affine = backward(grad, x, layer, rate, ctx.needs_input_grad[0])
        if grad_x is not None and rows is not None:
            grad_x = grad_x.mul_(rows.view(-1, *[1] * (x.ndim - 1)))
        return (grad_x, *affine, None, None, None)


def _robust_backward_cuda(
    grad: Tensor, x: Tensor, layer: Sequence[Tensor], rate: float | Tensor, _: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Two kernels: the reduction about the mix, the element-wise part about the batch mean."""
    weight, mean, invstd, batch_mean = layer
    grad = grad.contiguous(memory_format=_format_of(x))
    sums = torch.batch_norm_backward_reduce(grad, x, mean, invstd, weight, True, True, True)
    sum_grad, sum_grad_x, grad_weight, grad_bias = sums
    counts = torch.full((1,), x.numel() // x.shape[1], dtype=torch.int32, device=x.device)
    grad_x = torch.batch_norm_backward_elemt(
        grad, x, batch_mean, invstd, weight, sum_grad * rate, sum_grad_x * rate, counts
    )
    return grad_x, grad_weight, grad_bias


def _robust_backward_cpu(
    grad: Tensor, x: Tensor, layer: Sequence[Tensor], rate: float | Tensor, needs_grad_x: bool
) -> tuple[Tensor | None, Tensor, Tensor]:
    """One pass for the sums, two for dx = g (w r) + x slope + shift, each over few tensors.

    Where nothing learns in front of the layer, the sums are all.
    """
    weight, mean, invstd, batch_mean = layer
    _, grad_weight, grad_bias = torch.ops.aten.native_batch_norm_backward(
        grad, x, weight, None, None, mean, invstd, True, 0.0, [False, True, True]
    )
    if not needs_grad_x:
        return None, grad_weight, grad_bias
    scale = weight * invstd
    # grad_weight = sum g (x - m) r, so slope = -(a/n) w r^2 sum g x_hat.
    share = scale * (-rate * x.shape[1] / x.numel())
    slope = share * invstd * grad_weight
    shift = torch.addcmul(share * grad_bias, slope, batch_mean, value=-1)
    shape = (-1,) + (1,) * (x.ndim - 2)
    grad_x = torch.addcmul(shift.view(shape), x, slope.view(shape))
    return grad_x.addcmul_(grad, scale.view(shape)), grad_weight, grad_bias


def _format_of(x: Tensor) -> torch.memory_format:
    """Return the memory format of ``x``: the CUDA kernels want the gradient in the same one."""
    if x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last):
        return torch.channels_last
    return torch.contiguous_format
