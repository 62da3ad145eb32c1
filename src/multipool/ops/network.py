"""A classifier whose normalisation layers are steered per pass, group by group.

Several forwards that share the frozen weights and differ only in input and in normalisation state
become one forward of the concatenated batch (methods.md 5.2): convolutions see all images at once,
each normalisation layer treats each group with its own branch and policy, in group order.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from multipool.ops.branch import Branch
from multipool.ops.copies import frozen_copy, lay_channels_last
from multipool.ops.flat import DTYPES
from multipool.ops.head import float_input, last_linear
from multipool.ops.host import keep_freed
from multipool.ops.normalise import Policy, frozen
from multipool.ops.norms import BY_BATCH
from multipool.ops.outputs import logits_of, looks_like_probabilities, refused
from multipool.ops.steering import Layers, NoLayers, Steering, compiled, replace_norms
from multipool.ops.until import NotRunError, Passed, ReachedError, Until
from multipool.ops.untouched import Untouched

_log = logging.getLogger("multipool")


@dataclass(frozen=True)
class Group:
    """Images ``(M, C, H, W)`` and how their network normalises."""

    images: Tensor
    branch: Layers
    policy: Policy


class Network(nn.Module):
    """A frozen float32 copy of a classifier with steerable normalisation.

    ``source`` is the branch of the model as it came: the affine parameters of all normalisation
    layers, and the statistics of those that keep any (BatchNorm). A model without such layers has
    none; it still predicts through :meth:`plain`. ``kinds`` names the kind of each layer.

    What a model returns is read by :func:`logits_of`; logits are float32 whatever it computes in.
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
        self.known_as: dict[bool, str] = {}  # checksums of the fingerprint, rounded or not
        self.dtype = DTYPES[precision]  # of the activations
        self._steering = Steering(self.dtype)
        self.body, states, self.kinds = replace_norms(frozen_copy(model), self._steering)
        self.source = Branch(states, dtype=self.dtype) if states else None
        self._head = last_linear(self.body, num_classes)
        convolution = next((m for m in self.body.modules() if isinstance(m, nn.Conv2d)), None)
        # What the first layer takes; None: the model has no convolution to read it from.
        self.in_channels = None if convolution is None else convolution.in_channels
        self.body.to(self.dtype)
        if "GroupNorm" not in self.kinds or self.device().type != "cpu":
            # Convolutions and statistics are faster so, on the CPU too; GroupNorm there is not.
            lay_channels_last(self.body)
        self._seen: list[Tensor] = []
        self._from_head: Tensor | None = None
        self.inspected = False  # whether its outputs have been looked at, which is done once
        if self._head is not None:
            self._head.float()  # logits decide the argmax: eight bits are too few
            self._head.register_forward_pre_hook(float_input)
            self._head.register_forward_hook(self._keep_features)
        self._untouched = Untouched(self.body)
        self._compile = compile_body
        self._call = compiled(self.body) if compile_body else self.body
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
        self._call = compiled(self.body) if self._compile else self.body

    @property
    def compiled(self) -> bool:
        """Whether passes run through ``torch.compile``."""
        return self._compile

    def twin(self) -> Network:
        """Return a network over the very same frozen weights, which may run at the same time."""
        shared = [*self.body.parameters(), *self.body.buffers()]
        return copy.deepcopy(self, {id(tensor): tensor for tensor in shared})

    def fingerprint(self, *, rounded: bool = False) -> dict[str, Tensor]:
        """Return the tensors that tell this model from any other: its frozen weights and norms.

        ``rounded`` to float16, weights are the same in that precision and in float32.
        """
        tensors = {
            f"body.{k}": (v.half() if rounded and v.is_floating_point() else v).float()
            for k, v in self.body.state_dict().items()
            if isinstance(v, Tensor)  # quantised layers keep other things there, too
        }
        if self.source is not None:
            tensors |= {"affine": self.source.affine, "statistics": self.source.statistics}
        return tensors

    def device(self) -> torch.device:
        """Return where the model lives."""
        tensors = [*self.body.parameters(), *self.body.buffers()]
        return tensors[0].device if tensors else torch.device("cpu")

    @property
    def has_statistics(self) -> bool:
        """Whether any normalisation layer keeps statistics, as BatchNorm does."""
        return self.source is not None and self.source.has_statistics

    @property
    def origin(self) -> Layers:
        """What is known of the layers of the model as it came; nothing where there are none."""
        return NoLayers() if self.source is None else self.source

    def require_source(self, method: str) -> Branch:
        """Return the source branch, or say that ``method`` has no affine parameters to adapt.

        It holds the weights and biases of the normalisation layers, of whatever kind, as one
        vector: ``network.require_source(name).copy(trainable=True)`` is what a method trains.
        """
        if self.source is None:
            raise ValueError(
                f"method '{method}' adapts the weights of normalisation layers and this model has "
                "none; choose a method that works without (source, lame, neo)"
            )
        return self.source

    def require_statistics(self, method: str) -> Branch:
        """Return the source branch, or say that ``method`` cannot work without BatchNorm."""
        source = self.source
        if source is None or not source.has_statistics:
            raise ValueError(
                f"method '{method}' adapts the statistics of BatchNorm layers and this model has "
                "none; choose a method that works without (source, lame, neo)"
            )
        return source

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
        if len(groups) > 1 and self._goes_apart(groups):
            return [self.run(group)[0] for group in groups]
        sizes = [len(g.images) for g in groups]
        self._steering.plan = [(g.branch, g.policy, len(g.images)) for g in groups]
        images = groups[0].images if len(groups) == 1 else torch.cat([g.images for g in groups])
        logits = self._forward(images)
        return [logits] if len(groups) == 1 else list(logits.split(sizes))

    def plain(self, images: Tensor) -> Tensor:
        """Return the source model's logits ``(B, L)``, of any model."""
        self._steering.plan = [(self.origin, frozen, len(images))]
        return self._forward(images)

    def before_norm(self, images: Tensor, index: int) -> Tensor:
        """Return what normalisation layer ``index`` of the source model is given ``(B, C, ...)``.

        The layer keeps statistics. What comes after it is not computed.
        """
        source = self.require_statistics("before_norm")
        self._steering.plan = [(source, Until(source.layers[index]), len(images))]
        try:
            self._run(self.body, images)
        except ReachedError as reached:
            return reached.x
        except RuntimeError as error:
            self._check_shape(images, error)
            raise
        raise NotRunError(f"the model has normalisation layer {index} but never runs it")

    @torch.no_grad()
    def layers_run(self, images: Tensor) -> list[int]:
        """Return which layers with statistics the source model runs, in the order of the network.

        Not all of them: a model may have layers for other domains, or for training alone.
        """
        passed = Passed()
        self._steering.plan = [(self.origin, passed, len(images))]
        self._run(self.body, images)
        return [i for i, state in enumerate(self.origin.layers) if id(state) in passed.states]

    def features(self) -> Tensor:
        """Return the penultimate features ``(M, D)`` of the last pass: the last layer's input."""
        if not self._seen:
            raise ValueError(
                "this method reads the features before the last linear layer, but the model's "
                "output does not come from a linear layer; end the model with torch.nn.Linear"
            )
        return self._seen[0]

    def feature_width(self) -> int:
        """Return D, the length of :meth:`features`, without a pass."""
        if self._head is None:
            self.features()
        assert self._head is not None  # features() has raised
        return self._head.in_features

    def classify(self, features: Tensor) -> Tensor:
        """Return the logits that the last linear layer gives for ``features``."""
        if self._head is None:
            self.features()
        assert self._head is not None  # features() has raised
        return torch.nn.functional.linear(features, self._head.weight, self._head.bias)

    def _goes_apart(self, groups: Sequence[Group]) -> bool:
        """Tell whether each group needs a pass of its own: only BatchNorm layers tell them apart.

        Of other layers each branch has its own pass; where one normalises by its batch, each group.
        """
        others = set(self.kinds) - {"BatchNorm"}
        return BY_BATCH in others or (bool(others) and len({id(g.branch) for g in groups}) > 1)

    @torch.no_grad()
    def try_out(self, images: Tensor) -> None:
        """Raise ``ValueError`` unless the model takes images like these; changes nothing."""
        self._steering.plan = [(self.origin, frozen, len(images))]
        try:
            logits_of(self._run(self.body, images), len(images), self.num_classes)
        except (ValueError, torch.OutOfMemoryError, MemoryError):  # no word about the images
            raise
        except Exception as error:
            raise refused(images, self.in_channels, error) from error

    def _run(self, call: Callable[[Tensor], object], images: Tensor) -> object:
        with self._untouched:
            return call(self._untouched.own(images.to(self.dtype)))

    def _forward(self, images: Tensor) -> Tensor:
        self._seen.clear()
        try:
            output = self._run(self._call, images)
        except RuntimeError as error:
            self._check_shape(images, error)
            raise
        logits = logits_of(output, len(images), self.num_classes)
        if self._seen and logits is not self._from_head:
            self._seen.clear()  # something comes after the linear layer: its input says nothing
        self._from_head = None
        logits = logits.float()
        self._inspect(logits)
        return logits

    def _inspect(self, logits: Tensor) -> None:
        """Say so once if the outputs are probabilities already."""
        recording = logits.is_cuda and torch.cuda.is_current_stream_capturing()
        if self.inspected or recording:
            return
        self.inspected = True
        if looks_like_probabilities(logits):
            _log.warning(
                "the model returns probabilities (every row is positive and sums to 1), which "
                "would be softmaxed a second time: return the logits before its softmax, or their "
                "logarithm"
            )

    def _check_shape(self, images: Tensor, error: RuntimeError) -> None:
        """Say so if the model failed because of the images that it was given."""
        # A model that has run before does not fail because of its images' size alone.
        new = not self.inspected and not isinstance(error, torch.OutOfMemoryError)
        if new or self.in_channels not in (None, images.shape[1]):
            raise refused(images, self.in_channels, error) from error

    def _keep_features(self, _: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        self._seen[:] = [inputs[0]]
        self._from_head = output
