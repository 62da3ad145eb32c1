"""Which precision passes compute in where nobody says: float16 where that is faster and safe.

float16 has the significand of TF32, in which such GPUs compute float32 convolutions anyway, but a
far smaller range. So it is chosen where its speed was measured, and only for a model that gives the
same answers in it, which a few synthetic images tell: no picture of the user's is needed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from multipool.core import torch_generator
from multipool.engine.method import Method
from multipool.engine.setup import AUTO, Setup
from multipool.ops import Group, Network, frozen, fused

_log = logging.getLogger("multipool")
SIDES = (32, 64, 224)  # of the synthetic images, until the model takes one
ROOM = 8  # times as large as here activations may become before float16 ends
NEAR = 0.05  # of the logits' spread: what two precisions may differ by
_TF32 = 8  # compute capability from which on convolutions use it


@dataclass(frozen=True)
class Place:
    """What the choice is made from, besides what the model itself computes."""

    device: str  # its kind: "cuda", "cpu"
    capability: int  # major number of CUDA's compute capability, 0 elsewhere
    fuses: bool  # whether passes run on fused kernels
    statistics: bool  # whether the model has BatchNorm layers
    kernels: bool  # whether there are fused kernels for float16


def choose(place: Place) -> str:
    """Return the precision that is faster here, ``"fp16"`` or ``"float32"``.

    >>> choose(Place("cuda", 9, fuses=True, statistics=True, kernels=True))
    'fp16'
    >>> choose(Place("cuda", 7, fuses=True, statistics=True, kernels=True))
    'float32'
    """
    rounds_anyway = place.device == "cuda" and place.capability >= _TF32
    gains = place.fuses and place.statistics and place.kernels
    return "fp16" if rounds_anyway and gains else "float32"


def network_for(kind: type[Method], model: nn.Module, setup: Setup) -> Network:
    """Return the frozen copy of ``model`` for a method, in the precision that the setup says."""

    def make(precision: str) -> Network:
        return Network(model, precision, setup.compile, setup.num_classes)

    if setup.precision != AUTO:
        return make(setup.precision)
    plain = make("float32")
    # Fused kernels serve passes that are recorded, and step aside for torch.compile.
    fuses = kind.fuses and setup.graphs and not setup.compile
    if choose(_place(plain, fuses)) == "float32":
        return plain
    half = make("fp16")
    reason = doubt(plain, half)
    if reason is None:
        return half
    _log.info("passes compute in float32, for in float16 %s", reason)
    return plain


def doubt(plain: Network, half: Network) -> str | None:
    """Return why the model should not run in half precision, None if nothing speaks against it.

    ``plain`` and ``half`` are one model in float32 and in half precision; both stay as they were.
    """
    plain, half = plain.twin(), half.twin()
    plain.inspected = half.inspected = True  # what they say of their outputs waits for real images
    try:
        images = _images_for(plain)
        peak, expected = _peak(plain, lambda: plain.plain(images))
        if peak > torch.finfo(half.dtype).max / ROOM:
            return f"activations of {peak:,.0f} leave little room"
        with torch.no_grad():
            found = half.plain(images)
        spread = float(expected.max() - expected.min())
        gap = float((found - expected).abs().max())  # NaN fails below
        if not gap <= NEAR * spread:
            return f"logits differ by {gap:.2g} where they spread over {spread:.2g}"
        if not _gradient(half, images).isfinite().all():
            return "gradients overflow"
    except Exception as error:  # a model of any kind, and float32 is always right
        return f"a trial failed: {error}"
    return None


def _place(network: Network, fuses: bool) -> Place:
    """Return what is so here; kernels are compiled only where all else speaks for them."""
    device = network.device()
    cuda = device.type == "cuda"
    capability = torch.cuda.get_device_capability(device)[0] if cuda else 0
    hoped = Place(device.type, capability, fuses, network.has_statistics, kernels=True)
    ready = choose(hoped) == "fp16" and fused.get_ready(device, torch.float16)
    return replace(hoped, kernels=ready)


def _images_for(network: Network) -> Tensor:
    """Return synthetic images ``(B, C, H, H)`` in [0, 1] of the first side that the model takes."""
    failure = Exception()
    for side in SIDES:
        images = network.prepare(_synthetic(network.in_channels or 3, side).to(network.device()))
        try:
            with torch.no_grad():
                network.plain(images)
        except Exception as error:
            failure = error
        else:
            return images
    raise failure


def _synthetic(channels: int, side: int) -> Tensor:
    """Return black, white, noise of all contrasts, and noise on colours ``(14, C, H, H)``."""
    generator = torch_generator(0)
    shape = (6, channels, side, side)
    noise = torch.rand(shape, generator=generator)
    contrast = torch.tensor([1.0, 0.5, 0.25, 0.1, 0.05, 0.01]).view(-1, 1, 1, 1)
    colours = torch.rand((6, channels, 1, 1), generator=generator)
    grey = 0.5 + contrast * (noise - 0.5)
    ends = torch.tensor([0.0, 1.0]).view(-1, 1, 1, 1).expand(2, *shape[1:])
    return torch.cat([ends, grey, 0.7 * colours + 0.3 * noise.flip(0)])


def _peak(network: Network, run: Callable[[], Tensor]) -> tuple[float, Tensor]:
    """Return the largest activation that any layer took or gave, and what ``run`` returns."""
    peaks: list[Tensor] = []

    def look(_: nn.Module, taken: tuple[object, ...], given: object) -> None:
        for value in (*taken, given):
            if isinstance(value, Tensor) and value.is_floating_point():
                peaks.append(value.abs().amax())

    hooks = [module.register_forward_hook(look) for module in network.body.modules()]
    try:
        with torch.no_grad():
            found = run()
    finally:
        for hook in hooks:
            hook.remove()
    return float(torch.stack(peaks).max()), found


def _gradient(network: Network, images: Tensor) -> Tensor:
    """Return a gradient of the affine parameters ``(P,)`` as methods that learn compute one."""
    with torch.enable_grad():
        branch = network.require_source("precision").copy(trainable=True)
        (logits,) = network.run(Group(images, branch, frozen))
        return branch.gradient(logits.logsumexp(dim=1).mean())
