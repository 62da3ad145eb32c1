"""Which modules are normalisation layers, told by what they are and, where needed, what they do.

Two sorts. A layer *with statistics* normalises each channel by a stored mean and variance:
``BatchNorm1d/2d/3d``, ``SyncBatchNorm``, and any module with ``running_mean`` and ``running_var``
whose output on a probe is that of such a layer (frozen ones, ones with their activation inside).
A layer *of its own* normalises by what it is given: ``LayerNorm``, ``GroupNorm``,
``InstanceNorm``, ``RMSNorm``, and any module that owns one or two parameters, a number a channel
each, and whose output on a probe stays the same when the probe is multiplied by 4. A BatchNorm
without running statistics is one of these, too: it normalises by the batch that it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from multipool.ops.normalise import LayerState

BY_BATCH = "BatchNorm without statistics"  # the kind of a layer that knows its own batch alone
_FACTOR = 4.0  # what a probe is multiplied by
_LOUD = 100.0  # standard deviation of a probe: no layer's epsilon matters beside it
_OWN = {
    nn.LayerNorm: "LayerNorm",
    nn.GroupNorm: "GroupNorm",
    _InstanceNorm: "InstanceNorm",
    nn.RMSNorm: "RMSNorm",
}
_PLAIN = (_BatchNorm.forward, nn.SyncBatchNorm.forward)


@dataclass(frozen=True)
class WithStatistics:
    """A layer that normalises by stored statistics, and what else its module does afterwards."""

    state: LayerState
    after: Sequence[nn.Module]


@dataclass(frozen=True)
class OfItsOwn:
    """A layer that keeps no statistics: the names of its scale and, where it has one, its shift."""

    kind: str
    names: Sequence[str]


def examine(module: nn.Module) -> WithStatistics | OfItsOwn | None:
    """Return what normalisation layer ``module`` itself is; None: none that can be steered."""
    if _has_statistics(module):
        return _with_statistics(module)
    names = _affine_names(module)
    if not names:
        return None
    kind = next((word for known, word in _OWN.items() if isinstance(module, known)), None)
    if isinstance(module, _BatchNorm):
        kind = BY_BATCH
    if kind is None and _normalises(module, names):
        kind = "RMSNorm" if len(names) == 1 else "LayerNorm"
    return None if kind is None else OfItsOwn(kind, names)


# Layers with statistics -------------------------------------------------------------------------


def _has_statistics(module: nn.Module) -> bool:
    if isinstance(module, _InstanceNorm):
        return False  # each image by itself, whatever it keeps
    moments = [getattr(module, name, None) for name in ("running_mean", "running_var")]
    return all(isinstance(m, Tensor) and m.ndim == 1 for m in moments)


def _with_statistics(module: nn.Module) -> WithStatistics | None:
    """Return the layer; None where its module does something that we do not know."""
    mean, var = module.running_mean, module.running_var
    assert isinstance(mean, Tensor)  # it has statistics
    assert isinstance(var, Tensor)
    mean, var = mean.detach(), var.detach()
    weight, bias = (getattr(module, name, None) for name in ("weight", "bias"))
    weight = weight.detach() if isinstance(weight, Tensor) else torch.ones_like(mean)
    bias = bias.detach() if isinstance(bias, Tensor) else torch.zeros_like(mean)
    state = LayerState(weight, bias, mean, var, float(getattr(module, "eps", 1e-5)))
    if isinstance(module, _BatchNorm) and type(module).forward in _PLAIN:
        return WithStatistics(state, ())
    found = WithStatistics(state, tuple(module.children()))
    return found if _does_what_we_think(module, found) else None


@torch.no_grad()
def _does_what_we_think(module: nn.Module, layer: WithStatistics) -> bool:
    """Tell whether a module of another class is a normalisation and then its children, in turn."""
    state = layer.state
    for shape in ((2, -1, 3, 5), (2, -1), (2, -1, 3), (2, -1, 2, 3, 2)):
        probe = _probe([len(state.mean) if n < 0 else n for n in shape], state.mean)
        try:
            found = module(probe)
        except Exception:  # noqa: S112  (not a shape that this module takes)
            continue
        wanted = F.batch_norm(probe, state.mean, state.var, state.weight, state.bias, eps=state.eps)
        for child in layer.after:
            wanted = child(wanted)
        return _alike(found, wanted)
    return False


# Layers of their own ----------------------------------------------------------------------------


def _affine_names(module: nn.Module) -> list[str]:
    """Return the names of one or two parameters of equal size, if they are all there is."""
    own = {name: p for name, p in module.named_parameters(recurse=False) if p.is_floating_point()}
    if any(True for child in module.children() for _ in child.parameters()):
        return []
    known = isinstance(module, tuple(_OWN))
    if len(own) not in (1, 2) or len({p.numel() for p in own.values()}) != 1:
        return []
    # A LayerNorm's own parameters may span several axes; of others we ask for a number a channel.
    one_axis = all(p.numel() == max(p.shape, default=0) for p in own.values())
    return list(own) if known or one_axis else []


@torch.no_grad()
def _normalises(module: nn.Module, names: Sequence[str]) -> bool:
    """Tell whether the output stays the same when the input is multiplied, with a scale of 1."""
    own = module._parameters
    before = {name: own[name] for name in names}
    first = before[names[0]]
    assert first is not None  # it was listed
    size = first.numel()
    try:
        own.update({n: nn.Parameter(torch.ones_like(first), False) for n in names[:1]})
        own.update({n: nn.Parameter(torch.zeros_like(first), False) for n in names[1:]})
        for shape in ((2, size), (2, 3, size), (2, 3, 5, size), (2, size, 3, 5)):
            probe = _probe(shape, first)
            try:
                found, louder = module(probe), module(probe * _FACTOR)
            except Exception:  # noqa: S112  (not a shape that this module takes)
                continue
            if isinstance(found, Tensor) and found.shape == probe.shape:
                varied = float(found.max() - found.min()) > 1e-2
                return varied and _alike(found, louder)
    finally:
        own.update(before)
    return False


def _probe(shape: Sequence[int], like: Tensor) -> Tensor:
    """Return the same uneven numbers every time; no generator is asked."""
    count = 1
    for n in shape:
        count *= n
    wave = torch.sin(torch.arange(1, count + 1, dtype=torch.float64).square())
    return (wave * _LOUD).view(*shape).to(like)


def _alike(found: object, wanted: Tensor) -> bool:
    return (
        isinstance(found, Tensor)
        and found.shape == wanted.shape
        and torch.allclose(found.float(), wanted.float(), rtol=1e-2, atol=1e-3)
    )
