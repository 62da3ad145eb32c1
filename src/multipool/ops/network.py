"""A classifier whose normalisation layers are steered per pass, group by group.

Several forwards that share the frozen weights and differ only in input and in normalisation state
become one forward of the concatenated batch (methods.md 5.2): convolutions see all images at once,
each normalisation layer treats each group with its own branch and policy, in group order.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from multipool.ops.branch import Branch
from multipool.ops.host import keep_freed
from multipool.ops.normalise import LayerState, Policy, frozen


class Layers(Protocol):
    """What a pass knows about each normalisation layer; a :class:`Branch` is one."""

    @property
    def layers(self) -> Sequence[LayerState]:
        """One state a layer, in the order of the network."""


@dataclass(frozen=True)
class Group:
    """Images ``(M, C, H, W)`` and how their network normalises."""

    images: Tensor
    branch: Layers
    policy: Policy


class _Steering:
    """Which branch and policy treat which rows in the pass under way; shared by all layers."""

    def __init__(self) -> None:
        self.plan: list[tuple[Layers, Policy, int]] = []

    def __getstate__(self) -> dict[str, object]:
        return {"plan": []}  # of a pass that is over; it names other networks' branches


class _ReachedError(Exception):
    """Ends a pass at a layer; never leaves :meth:`Network.before_norm`."""

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.x = x


class Norm(nn.Module):
    """Stands where a BatchNorm layer stood and does what the pass says."""

    def __init__(self, index: int, steering: _Steering) -> None:
        super().__init__()
        self.index = index
        self._steering = [steering]  # in a list: not a submodule, and shared

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each group's rows of ``x`` with its own branch and policy."""
        plan = self._steering[0].plan
        if len(plan) == 1:
            branch, policy, _ = plan[0]
            return policy(x, branch.layers[self.index])
        parts = x.split([rows for _, _, rows in plan])
        return torch.cat(
            [p(part, b.layers[self.index]) for (b, p, _), part in zip(plan, parts, strict=True)]
        )


def activated(layer: nn.Module, x: Tensor) -> Tensor:
    """Return ``relu(layer(x))``; of a steered layer on the CPU in place, in half the time.

    Its values are new and no backward reads them: only what is cut off is needed.
    """
    out: Tensor = layer(x)
    return F.relu(out, inplace=isinstance(layer, Norm) and not out.is_cuda)


class Network(nn.Module):
    """A frozen float32 copy of a classifier with steerable normalisation.

    ``source`` is the branch of the model as it came. A model without BatchNorm has none; it still
    predicts through :meth:`run` with no branch.
    """

    def __init__(
        self,
        model: nn.Module,
        precision: str = "float32",
        compile_body: bool = False,
        num_classes: int | None = None,
    ) -> None:
        super().__init__()
        self.num_classes, self.precision = num_classes, precision
        # A pass leaves traces here: adapters over one network take turns.
        self.lock = threading.RLock()
        self.known_as: str | None = None  # checksum of the fingerprint, once somebody has asked
        self._steering = _Steering()
        body = copy.deepcopy(model).float().eval().requires_grad_(False)
        self.body, states = _replace_batchnorm(body, self._steering)
        self.source = Branch(states) if states else None
        self._head = _last_linear(self.body)
        self._dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        # Channels last: convolutions and statistics are faster so, on the CPU too.
        self.body.to(self._dtype)
        self.body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._seen: list[Tensor] = []
        self._from_head: Tensor | None = None
        if self._head is not None:
            self._head.float()  # logits decide the argmax: eight bits are too few
            self._head.register_forward_pre_hook(_float_input)
            self._head.register_forward_hook(self._keep_features)
        self._compile = compile_body
        self._call = torch.compile(self.body) if compile_body else self.body
        if self.device().type == "cpu":
            keep_freed()

    def __getstate__(self) -> dict[str, object]:
        """Copy and pickle without what the last pass left, and without compiled code."""
        modules = {name: part for name, part in self._modules.items() if name != "_call"}
        kept = {name: value for name, value in self.__dict__.items() if name != "lock"}
        return {**kept, "_modules": modules, "_seen": [], "_from_head": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what was copied."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.lock = threading.RLock()
        self._call = torch.compile(self.body) if self._compile else self.body

    @property
    def compiled(self) -> bool:
        """Whether passes run through ``torch.compile``."""
        return self._compile

    def twin(self) -> Network:
        """Return a network over the very same frozen weights, which may run at the same time."""
        shared = [*self.body.parameters(), *self.body.buffers()]
        return copy.deepcopy(self, {id(tensor): tensor for tensor in shared})

    @staticmethod
    def width_of(model: nn.Module) -> int | None:
        """Return the width of a model's last linear layer, or None if it has none."""
        head = _last_linear(model)
        return head.out_features if head is not None else None

    def fingerprint(self) -> dict[str, Tensor]:
        """Return the tensors that tell this model from any other: its frozen weights and norms."""
        tensors = {f"body.{k}": v.float() for k, v in self.body.state_dict().items()}
        if self.source is not None:
            tensors |= {"affine": self.source.affine, "statistics": self.source.statistics}
        return tensors

    def device(self) -> torch.device:
        """Return where the model lives."""
        tensors = [*self.body.parameters(), *self.body.buffers()]
        return tensors[0].device if tensors else torch.device("cpu")

    def require_source(self, method: str) -> Branch:
        """Return the source branch, or say that ``method`` cannot work without BatchNorm."""
        if self.source is None:
            raise ValueError(
                f"method '{method}' adapts BatchNorm layers and this model has none; "
                "choose a method that works without (source, lame, neo)"
            )
        return self.source

    def prepare(self, images: Tensor) -> Tensor:
        """Return float images laid out as the passes want them.

        On the CPU that is channel by channel: the view, the memory and a model's own scaling of
        three channels are up to four times as fast so, and its first convolution turns them.
        """
        on_cpu = images.device.type == "cpu"
        layout = torch.contiguous_format if on_cpu else torch.channels_last
        return images.float().contiguous(memory_format=layout)

    def run(self, *groups: Group) -> list[Tensor]:
        """Return the logits of each group, ``(M, L)`` each, from one forward pass."""
        sizes = [len(g.images) for g in groups]
        self._steering.plan = [(g.branch, g.policy, len(g.images)) for g in groups]
        images = groups[0].images if len(groups) == 1 else torch.cat([g.images for g in groups])
        logits = self._forward(images)
        return [logits] if len(groups) == 1 else list(logits.split(sizes))

    def plain(self, images: Tensor) -> Tensor:
        """Return the source model's logits ``(B, L)``; works for models without BatchNorm too."""
        if self.source is not None:
            from_source = (self.source, frozen, len(images))
            self._steering.plan = [from_source]
        return self._forward(images)

    def before_norm(self, images: Tensor, index: int) -> Tensor:
        """Return what normalisation layer ``index`` of the source model is given ``(B, C, ...)``.

        What comes after the layer is not computed.
        """
        source = self.require_source("before_norm")
        target = source.layers[index]

        def until(x: Tensor, state: LayerState) -> Tensor:
            if state is target:
                raise _ReachedError(x)
            return frozen(x, state)

        self._steering.plan = [(source, until, len(images))]
        try:
            self.body(images.to(self._dtype))
        except _ReachedError as reached:
            return reached.x
        except RuntimeError:
            self._check_channels(images)
            raise
        raise ValueError(f"the model has normalisation layer {index} but never runs it")

    def features(self) -> Tensor:
        """Return the penultimate features ``(M, D)`` of the last pass: the last layer's input."""
        if not self._seen:
            raise ValueError(
                "this method reads the features before the last linear layer, but the model's "
                "output does not come from a linear layer; end the model with torch.nn.Linear"
            )
        return self._seen[0]

    def classify(self, features: Tensor) -> Tensor:
        """Return the logits that the last linear layer gives for ``features``."""
        if self._head is None:
            self.features()
        assert self._head is not None  # features() has raised
        return torch.nn.functional.linear(features, self._head.weight, self._head.bias)

    def _forward(self, images: Tensor) -> Tensor:
        self._seen.clear()
        try:
            logits: Tensor = self._call(images.to(self._dtype)).float()
        except RuntimeError:
            self._check_channels(images)
            raise
        if self.num_classes is not None and logits.shape[1:] != (self.num_classes,):
            raise ValueError(
                f"the model gives {'x'.join(map(str, logits.shape[1:]))} logits an image, "
                f"num_classes is {self.num_classes}; they must agree"
            )
        if self._seen and logits is not self._from_head:
            self._seen.clear()  # something comes after the linear layer: its input says nothing
        self._from_head = None
        return logits

    def _check_channels(self, images: Tensor) -> None:
        """Say so if the model failed because of the number of channels."""
        first = next((m for m in self.body.modules() if isinstance(m, nn.Conv2d)), None)
        if first is not None and first.in_channels != images.shape[1]:
            raise ValueError(
                f"the model takes images of {first.in_channels} channels, got {images.shape[1]}"
            ) from None

    def _keep_features(self, _: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        self._seen[:] = [inputs[0]]
        self._from_head = output


def _float_input(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (inputs[0].float(), *inputs[1:])


def _replace_batchnorm(body: nn.Module, steering: _Steering) -> tuple[nn.Module, list[LayerState]]:
    """Swap every BatchNorm layer for :class:`Norm`; return the body and the source states."""
    states: list[LayerState] = []
    done: dict[nn.Module, nn.Module] = {}  # a layer used in two places stays one layer

    def swap(module: nn.Module) -> nn.Module:
        if module not in done:
            done[module] = module
            if isinstance(module, _BatchNorm):
                states.append(_state_of(module))
                done[module] = Norm(len(states) - 1, steering)
            for name, child in module.named_children():
                setattr(module, name, swap(child))
        return done[module]

    return swap(body), states


def _state_of(layer: _BatchNorm) -> LayerState:
    """Return the layer's affine parameters and running statistics as float32."""
    if layer.running_mean is None or layer.running_var is None:
        raise ValueError(
            "a BatchNorm layer keeps no running statistics (track_running_stats=False), so there "
            "is no source normalisation to start from; train the model with them"
        )
    mean, var = layer.running_mean.detach(), layer.running_var.detach()
    weight = layer.weight.detach() if layer.weight is not None else torch.ones_like(mean)
    bias = layer.bias.detach() if layer.bias is not None else torch.zeros_like(mean)
    return LayerState(weight, bias, mean, var, layer.eps)


def _last_linear(body: nn.Module) -> nn.Linear | None:
    """Return the last linear layer in order of registration, where classifiers keep their head."""
    layers = [m for m in body.modules() if isinstance(m, nn.Linear)]
    return layers[-1] if layers else None
