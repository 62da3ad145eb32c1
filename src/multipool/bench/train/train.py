"""Train a source model: SGD or AdamW, a cosine schedule, and a loop that can be resumed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from multipool.bench.train.augment import augmix, crop_and_flip, jitter, randaugment
from multipool.bench.train.mix import Mixed, mix
from multipool.bench.train.optimizers import OPTIMIZERS, restore, store
from multipool.bench.train.step import Step
from multipool.core import (
    ImageSet,
    as_float,
    lookup,
    read_tensors,
    torch_generator,
    unknown,
    write_tensors,
)
from multipool.data.stream import RESIDENT_LIMIT
from multipool.ops.host import sent

PRECISIONS = ("auto", "float32", "bf16")


@dataclass(frozen=True)
class TrainConfig:
    """Usual settings for small images (wide residual networks)."""

    epochs: int = 30
    batch_size: int = 128
    lr: float = 0.1  # at the start; the cosine takes it to zero
    momentum: float = 0.9
    weight_decay: float = 5e-4
    crop: int = 4  # pixels an image is shifted by at most
    flip: bool = True
    augmix: bool = False
    jitter: bool = False
    seed: int = 0
    optimizer: str = "sgd"
    warmup: float = 0.0  # share of the training in which the learning rate rises
    smoothing: float = 0.0  # of the labels
    randaugment: bool = False
    mix: float = 0.0  # share of the batches that mixup or CutMix treats
    precision: str = "auto"  # of the forward pass: "float32", "bf16"; auto: bf16 on a GPU

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "lr"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("weight_decay", "crop", "seed"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if not 0 < self.momentum < 1:
            raise ValueError(f"momentum must lie between 0 and 1, got {self.momentum}")
        for name in ("warmup", "smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be from 0 to below 1, got {getattr(self, name)}")
        if not 0 <= self.mix <= 1:
            raise ValueError(f"mix must be a share from 0 to 1, got {self.mix}")
        lookup(OPTIMIZERS, self.optimizer, "optimizer")
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)

    def is_short(self, device: torch.device) -> bool:
        """Return whether the forward pass runs in bfloat16 on ``device``."""
        return self.precision == "bf16" or (self.precision == "auto" and device.type == "cuda")

    def rate(self, done: float) -> float:
        """Return the learning rate after a share ``done`` of the training.

        >>> config = TrainConfig(lr=1.0, warmup=0.1)
        >>> [round(config.rate(done), 2) for done in (0.0, 0.05, 0.1, 0.55, 1.0)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
        """
        if done < self.warmup:
            return self.lr * done / self.warmup
        return self.lr * 0.5 * (1 + math.cos(math.pi * (done - self.warmup) / (1 - self.warmup)))


@dataclass(frozen=True)
class TrainProgress:
    """Where the training stands after a step; counts start at 1."""

    epoch: int
    step: int
    steps: int  # in an epoch
    loss: Tensor  # 0-d, on the training device: reading it waits for the step to finish


def train(
    model: nn.Module,
    images: ImageSet,
    config: TrainConfig = TrainConfig(),
    *,
    device: torch.device | str = "cpu",
    checkpoint: str | Path | None = None,
    resume: bool = False,
    report: Callable[[TrainProgress], None] | None = None,
) -> nn.Module:
    """Train ``model`` in place on ``images`` and return it, in evaluation mode, on ``device``.

    With a ``checkpoint`` the state is written there after each epoch; ``resume`` continues from
    it (or starts, if there is none), on the CPU bit for bit as if there had been no break. On a
    GPU the images are kept there, if they fit.
    """
    device = torch.device(device)
    images = _near(images, device)
    layout = _layout(device, config)
    model.to(device=device, memory_format=layout).train()  # type: ignore[call-overload]
    make = OPTIMIZERS[config.optimizer]
    optimizer = make(model, config.lr, config.weight_decay, config.momentum)
    started = 0
    if resume and checkpoint is not None and Path(checkpoint).is_file():
        started = _restore(Path(checkpoint), model, optimizer, config, len(images))
    step = Step(model, optimizer, config.smoothing, device, config.is_short(device))
    for epoch in range(started, config.epochs):
        _epoch(step, optimizer, images, config, epoch, device, report)
        if checkpoint is not None:
            _store(Path(checkpoint), model, optimizer, config, len(images), epoch + 1)
    return model.eval()


@torch.no_grad()
def error_percent(model: nn.Module, images: ImageSet, batch_size: int = 500) -> float:
    """Return the percentage of wrong predictions of a model in evaluation mode."""
    model.eval()
    device = next(model.parameters()).device
    wrong = sum(
        int((model(as_float(batch.to(device))).argmax(dim=1).cpu() != labels).sum())
        for batch, labels in zip(
            images.images.split(batch_size), images.labels.split(batch_size), strict=True
        )
    )
    return 100.0 * wrong / len(images)


@torch.no_grad()
def round_to_half(model: nn.Module) -> nn.Module:
    """Round all weights in place to what half precision holds, so that a half file is exact.

    Tensors with numbers that are too large for it are left alone, here as in the file.
    """
    for tensor in model.state_dict().values():
        if tensor.is_floating_point() and (short := tensor.half()).isfinite().all():
            tensor.copy_(short)
    return model


def _layout(device: torch.device, config: TrainConfig) -> torch.memory_format:
    """Return how activations lie in memory: channels last is faster but for GroupNorm in bf16."""
    on_cpu_short = device.type == "cpu" and config.is_short(device)
    return torch.contiguous_format if on_cpu_short else torch.channels_last


def _near(images: ImageSet, device: torch.device) -> ImageSet:
    """Return the images on ``device``, or as they are if they would take too much of it."""
    if images.images.numel() > RESIDENT_LIMIT:
        return images
    return ImageSet(images.images.to(device), images.labels.to(device), images.domain)


def _epoch(
    learn: Step,
    optimizer: torch.optim.Optimizer,
    images: ImageSet,
    config: TrainConfig,
    epoch: int,
    device: torch.device,
    report: Callable[[TrainProgress], None] | None,
) -> None:
    """Pass over the images once, in an order that seed and epoch decide."""
    # A generator of its own for each epoch: a resumed run has nothing to restore.
    generator = torch_generator(config.seed * 100_003 + epoch)
    steps = max(1, len(images) // config.batch_size)  # a last, smaller batch would skew the norms
    order = sent(torch.randperm(len(images), generator=generator), images.images.device)
    for step in range(steps):
        done = (epoch * steps + step) / (config.epochs * steps)
        for group in optimizer.param_groups:
            group["lr"] = config.rate(done)
        batch = images.take(order[step * config.batch_size : (step + 1) * config.batch_size])
        inputs = _augment(sent(batch.images, device), generator, config)
        inputs = inputs.contiguous(memory_format=_layout(device, config))
        mixed = mix(inputs, generator, config.mix) if config.mix > 0 else Mixed(inputs)
        loss = learn(mixed, sent(batch.labels, device))
        if report is not None:
            report(TrainProgress(epoch + 1, step + 1, steps, loss.clone()))


def _augment(images: Tensor, generator: torch.Generator, config: TrainConfig) -> Tensor:
    """Return a batch for training: float ``(B, 3, H, W)`` in [0, 1]."""
    images = as_float(crop_and_flip(images, generator, config.crop, config.flip))
    if config.augmix:
        images = augmix(images, generator)
    if config.randaugment:
        images = randaugment(images, generator)
    if config.jitter:
        images = jitter(images, generator)
    return images


def _describe(config: TrainConfig, count: int) -> str:
    """Return what a checkpoint must agree on to be continued."""
    return json.dumps({**asdict(config), "images": count}, sort_keys=True)


def _store(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    config: TrainConfig,
    count: int,
    epochs_done: int,
) -> None:
    """Write weights, statistics and the optimiser's state, atomically."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= store(optimizer, model)
    write_tensors(path, tensors, {"run": _describe(config, count), "epochs": str(epochs_done)})


def _restore(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, config: TrainConfig, count: int
) -> int:
    """Put model and optimiser into the stored state and return the number of epochs done."""
    tensors, metadata = read_tensors(path)
    if metadata.get("run") != _describe(config, count):
        raise ValueError(
            f"the checkpoint {path} belongs to a run with other settings; "
            "use the same ones or start without resuming"
        )
    try:
        values = {name: tensors[f"model.{name}"] for name in model.state_dict()}
        model.load_state_dict(values)
        restore(optimizer, model, tensors)
        return int(metadata["epochs"])
    except (KeyError, ValueError, RuntimeError):
        raise ValueError(f"the checkpoint {path} does not fit {type(model).__name__}") from None
