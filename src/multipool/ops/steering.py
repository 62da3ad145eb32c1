"""The layers that stand where a model's normalisation layers stood, and do what a pass says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from multipool.ops import fused, fused_learning
from multipool.ops.normalise import LayerState, Policy
from multipool.ops.norms import OfItsOwn, WithStatistics, examine

_log = logging.getLogger("multipool")


class Layers(Protocol):
    """What a pass knows about each normalisation layer; a :class:`Branch` is one."""

    @property
    def layers(self) -> Sequence[LayerState]:
        """One state a layer, in the order of the network."""


@dataclass(frozen=True)
class NoLayers:
    """A model without normalisation layers, as a pass sees it."""

    layers: Sequence[LayerState] = ()


class Steering:
    """Which branch and policy treat which rows in the pass under way; shared by all layers."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.plan: list[tuple[Layers, Policy, int]] = []
        self.dtype = dtype  # of the activations

    def __getstate__(self) -> dict[str, object]:
        # Without the plan of a pass that is over: it names other networks' branches.
        return {"plan": [], "dtype": self.dtype}


class Norm(nn.Module):
    """Stands where a BatchNorm layer stood."""

    def __init__(self, index: int, steering: Steering) -> None:
        super().__init__()
        self.index = index
        self._steering = [steering]  # in a list: not a submodule, and shared

    def forward(self, x: Tensor, relu: bool = False, shortcut: Tensor | None = None) -> Tensor:
        """Normalise each group's rows of ``x`` with its own branch and policy."""
        plan = self._steering[0].plan
        images = sum(rows for _, _, rows in plan)
        if len(x) > images and len(x) % images == 0:
            return self._of_tokens(x, images, relu, shortcut)
        if len(plan) == 1:
            branch, policy, _ = plan[0]
            state = branch.layers[self.index]
            if x.is_cuda and (whole := _fused(policy, x, state, relu, shortcut)) is not None:
                return whole
            out = policy(x, state)
        else:
            parts = zip(plan, x.split([rows for _, _, rows in plan]), strict=True)
            out = torch.cat([p(part, b.layers[self.index]) for (b, p, _), part in parts])
        out = out if shortcut is None else out + shortcut
        # On the CPU in place, in half the time: the values are new and no backward reads them.
        if not relu:
            return out
        return torch.relu(out) if out.is_cuda else torch.relu_(out)

    def _of_tokens(self, x: Tensor, images: int, relu: bool, shortcut: Tensor | None) -> Tensor:
        """Normalise ``(B T, C, ...)``, T rows of each of B images, as if ``(B, C, T, ...)``.

        LeViT has its tokens so; policies that ask which image a row is of find it in its place.
        """
        parts = x.unflatten(0, (images, -1)).transpose(1, 2).contiguous()
        out = self.forward(parts).transpose(1, 2).reshape(x.shape)
        out = out if shortcut is None else out + shortcut
        return torch.relu(out) if relu else out


def _fused(
    policy: Policy, x: Tensor, state: LayerState, relu: bool, shortcut: Tensor | None
) -> Tensor | None:
    """Return all that a layer does from fused kernels, or None where they cannot do it."""
    if torch.is_grad_enabled():
        given = (x, state.weight, state.bias, shortcut)
        if any(t is not None and t.requires_grad for t in given):
            return fused_learning.normalised(policy, x, state, relu=relu, shortcut=shortcut)
    found = fused.moments(policy, x, state)
    if found is None:
        return None
    return fused.normalised(x, *found, state, relu=relu, shortcut=shortcut)


class OwnNorm(nn.Module):
    """Stands where a layer without statistics stood: that layer, with the parameters of a branch.

    No policy changes what it does. All groups of a pass have one branch (:class:`Network` sees to
    that), so it need not know where a group ends. The module around it may ask for ``weight``,
    ``bias`` and whatever else the layer has, as torch's own transformer layers do.
    """

    def __init__(self, index: int, steering: Steering, layer: nn.Module, facts: OfItsOwn) -> None:
        super().__init__()
        self.index, self.names = index, tuple(facts.names)
        self.shapes = [getattr(layer, name).shape for name in self.names]
        self._steering = [steering]
        for name in self.names:  # they live in branches: here they would be trained twice
            layer._parameters[name] = None
        self.layer = layer

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Return the branch's parameters by the layer's names, and whatever else it has."""
        if name == "layer" or "layer" not in self.__dict__.get("_modules", {}):
            return super().__getattr__(name)
        if name in self.names:
            return self._affine(self._steering[0].dtype)[self.names.index(name)]
        return getattr(self.layer, name)

    def forward(self, x: Tensor, *more: Any, **named: Any) -> Tensor:  # noqa: ANN401
        """Return what the layer makes of ``x`` with the branch's parameters."""
        layer = self.layer
        affine = self._affine(x.dtype)
        rows = isinstance(layer, (nn.LayerNorm, nn.RMSNorm))  # lays x out as it wants it
        if not rows and not x.is_cuda and x.ndim >= 4 and torch.is_grad_enabled():
            # Torch's CPU backward of GroupNorm crashes on channels last if only w and b learn.
            x = x.contiguous()
        function = _FUNCTIONS.get(type(layer))
        if function is not None and not more and not named:
            return function(layer, x, affine[0], affine[1] if len(affine) > 1 else None)
        return self._call(affine, x, *more, **named)

    def _affine(self, dtype: torch.dtype) -> list[Tensor]:
        state = self._steering[0].plan[0][0].layers[self.index]
        pairs = zip((state.weight, state.bias), self.shapes, strict=False)
        return [values.view(shape).to(dtype) for values, shape in pairs]

    def _call(self, affine: Sequence[Tensor], x: Tensor, *more: Any, **named: Any) -> Tensor:  # noqa: ANN401
        """Run the layer's own forward with these parameters in place."""
        own: dict[str, Any] = self.layer._parameters  # takes any tensor
        own.update(zip(self.names, affine, strict=True))
        try:
            return self.layer(x, *more, **named)
        finally:
            own.update(dict.fromkeys(self.names))


# Of classes whose forward we know the function itself: quicker, and a compiler can follow it.
_FUNCTIONS: dict[type[nn.Module], Callable[[Any, Tensor, Tensor, Tensor | None], Tensor]] = {
    nn.LayerNorm: lambda m, x, w, b: F.layer_norm(x, m.normalized_shape, w, b, m.eps),
    nn.RMSNorm: lambda m, x, w, b: F.rms_norm(x, m.normalized_shape, w, m.eps),
    nn.GroupNorm: lambda m, x, w, b: F.group_norm(x, m.num_groups, w, b, m.eps),
}


def compiled(body: nn.Module) -> Any:  # noqa: ANN401
    """Return ``torch.compile(body)`` that leaves alone what a compiler cannot follow.

    Said here and not where it is defined: to name the compiler is to import it, for a second.
    """
    if not hasattr(OwnNorm._call, "_torchdynamo_disable"):
        OwnNorm._call = torch.compiler.disable(OwnNorm._call)  # type: ignore[method-assign]
    return torch.compile(body)


def activated(layer: nn.Module, x: Tensor, shortcut: Tensor | None = None) -> Tensor:
    """Return ``relu(layer(x) + shortcut)``, of a steered layer with fewer passes over memory."""
    if isinstance(layer, Norm):
        return layer.forward(x, True, shortcut)  # nothing hooks on to a layer of ours
    out: Tensor = layer(x)
    return F.relu(out if shortcut is None else out + shortcut)


def replace_norms(
    body: nn.Module, steering: Steering
) -> tuple[nn.Module, list[LayerState], list[str]]:
    """Swap every normalisation layer for a steered one; return body, source states and kinds."""
    states: list[LayerState] = []
    kinds: list[str] = []
    done: dict[nn.Module, nn.Module] = {}  # a layer used in two places stays one layer

    def swap(module: nn.Module) -> nn.Module:
        if module in done:
            return done[module]
        done[module] = module
        if isinstance(module, torch.jit.ScriptModule):
            _log.warning(
                "the layers of a TorchScript model cannot be reached, so none is adapted: pass the "
                "torch.nn.Module that it was made from"
            )
            return module
        found = examine(module)
        if found is None:
            if isinstance(module, _BatchNorm) and module.running_mean is not None:
                _log.warning(
                    "a %s does more than a BatchNorm layer and stays as it is, not adapted",
                    type(module).__name__,
                )
            for name, child in module.named_children():
                setattr(module, name, swap(child))
        elif isinstance(found, WithStatistics):
            if module._forward_hooks or module._forward_pre_hooks:
                _log.warning(
                    "a %s has hooks, which an adapter never calls, since it normalises in its "
                    "place: put them on the layer before or after it",
                    type(module).__name__,
                )
            norm: nn.Module = Norm(len(states), steering)
            states.append(found.state)
            kinds.append("BatchNorm")
            done[module] = nn.Sequential(norm, *found.after) if found.after else norm
        else:
            states.append(_state_of(module, found))
            kinds.append(found.kind)
            done[module] = OwnNorm(len(states) - 1, steering, module, found)
        return done[module]

    return swap(body), states, kinds


def _state_of(module: nn.Module, facts: OfItsOwn) -> LayerState:
    """Return the layer's parameters, each as one row; it has no statistics, perhaps no shift."""
    affine = [getattr(module, name).detach().float().reshape(-1) for name in facts.names]
    nothing = affine[0].new_zeros(0)
    bias = affine[1] if len(affine) > 1 else nothing
    return LayerState(affine[0], bias, nothing, nothing, 0.0)
