"""RMT: a mean teacher with a symmetric loss, prototypes to hold on to, and source replay.

Doebler, Marsden, Yang: Robust Mean Teacher for Continual and Gradual Test-Time Adaptation, CVPR
2023. Numbers compared with the authors' release (mariodoebler/test-time-adaptation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.core import lookup
from multipool.engine import Context, Kept, Method, Prediction, tensor_pass
from multipool.ops import View, class_means, symmetric_cross_entropy
from multipool.ops.flat import Flat, gradients
from multipool.ops.optimise import OPTIMIZERS, FlatOptimizer
from multipool.ops.weights import Weights


@dataclass(frozen=True)
class RMTConfig:
    """Published settings for CIFAR-100-C; the release's batches of 200 are 64 under PTTA."""

    lr: float = 1e-3
    optimizer: str = "adam"  # adam or sgd
    self_weight: float = 1.0  # of the symmetric cross-entropy to the teacher
    contrast_weight: float = 1.0  # of the contrast with prototypes of the source classes
    source_weight: float = 1.0  # of the cross-entropy on replayed source images; 0: no replay
    teacher_rate: float = 1e-3  # share of the student in each teacher update
    projection: int = 128  # width of the projector; 0: none
    temperature: float = 0.1  # of the contrast
    warmup_images: int = 50_000  # of source data before the stream, at most one pass
    source_images: int = 50_000  # kept on the host for replay and prototypes
    source_batch: int = 64  # source images in each step

    def __post_init__(self) -> None:
        lookup(OPTIMIZERS, self.optimizer, "optimizer of rmt")
        if min(self.source_images, self.source_batch) < 1:
            raise ValueError("rmt's source_images and source_batch must be at least 1")


class RMT(Method):
    """Student and teacher predict together; all weights learn, from the stream and the source.

    Student and teacher answer together. The student learns with all weights from the teacher by
    a symmetric loss, from prototypes of the source's classes, and from labelled source images
    that are replayed.

    Making one takes a while: it reads the source data, and warms up on it. So does loading one,
    which needs the same ``source`` again.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`RMTConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, source_batches, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "rmt", source=source_batches())
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Doebler, Marsden, Yang: Robust Mean Teacher for Continual and Gradual Test-Time
        Adaptation, CVPR 2023.
    """

    name = "rmt"
    normalises_by = "batch"
    reads_features = True
    Config = RMTConfig
    needs_source = True
    one_pass = True
    view = View()

    def __init__(self, context: Context, config: RMTConfig) -> None:
        super().__init__(context, config)
        self.replay = self.source.replay(most=config.source_images, size=config.source_batch)
        self.student = Weights(self.network, method=self.name, trainable=True)
        self.teacher = Weights(self.network, method=self.name)
        self.optimizer = self._new_optimizer(self.student.values)
        self.prototypes = self._class_means()  # (L, D)
        self.projector = self._new_projector() if config.projection else None
        if self.projector is not None:
            # Of its own: the warm-up moves only the student, and Adam counts its steps.
            self.projector_optimizer = self._new_optimizer(self.projector.values)
        self.numbers["replayed"] = 0
        self._warm_up()

    def keeps(self) -> Kept:
        """Return both networks' weights, the prototypes, the projector, and the optimisers."""
        kept: Kept = {
            "student.values": self.student.values,
            "teacher.values": self.teacher.values,
            "optimizer": self.optimizer,
            "prototypes": self.prototypes,
        }
        if self.projector is None:
            return kept
        projector = {"projector.values": self.projector.values}
        return {**kept, **projector, "projector": self.projector_optimizer}

    # Before the stream --------------------------------------------------------------------------

    def _new_optimizer(self, values: Tensor) -> FlatOptimizer:
        return OPTIMIZERS[self.config.optimizer](values, self.config.lr)

    def _next_batch(self) -> tuple[Tensor, Tensor]:
        images, labels = self.replay.batch(self.numbers["replayed"])
        self.numbers["replayed"] += 1
        return self.network.prepare(images.to(self.device)), labels.to(self.device)

    @torch.no_grad()
    def _class_means(self) -> Tensor:
        """Return the mean feature of each class under batch statistics, ``(L, D)``; else zeros."""
        classes = self.num_classes
        total, counts = torch.zeros(2, dtype=torch.float32, device=self.device)
        for images, labels in self.replay.once():
            self.student.run(self.network.prepare(images.to(self.device)))
            features = self.student.network.features().double()
            means, found = class_means(features, labels.to(self.device), classes)
            total, counts = total + means * found[:, None], counts + found
        return (total / counts.clamp_min(1)[:, None]).float()

    def _new_projector(self) -> Flat:
        """Return two linear layers, drawn as torch draws them."""
        width = self.config.projection
        leaves = []
        for fan_in in (self.prototypes.shape[1], width):
            bound = 1 / math.sqrt(fan_in)
            for shape in ((width, fan_in), (width,)):
                drawn = torch.from_numpy(self.draws.uniform(-bound, bound, shape))
                leaves.append(drawn.float().to(self.device))
        return Flat(leaves, trainable=True)

    def _warm_up(self) -> None:
        """Let student and teacher agree on source images, the learning rate rising to its own."""
        images = min(self.config.warmup_images, len(self.replay.labels))
        steps = images // self.replay.size
        with torch.enable_grad():
            for index in range(steps):
                share = torch.tensor((index + 1) / steps, dtype=torch.float32, device=self.device)
                self._warm_pass(self._next_batch()[0], share)

    @tensor_pass
    def _warm_pass(self, images: Tensor, share: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad():
            (target,) = self.teacher.run(images)
        (logits,) = self.student.run(images)
        loss = symmetric_cross_entropy(logits, target).mean()
        before = self.student.values.clone()
        self.optimizer.step(*gradients(loss, self.student.flat))
        # Both optimisers' steps are linear in the learning rate: a share of one is the other.
        self.student.values.copy_(before.lerp(self.student.values, share))
        self.teacher.values.lerp_(self.student.values, self.config.teacher_rate)
        return (loss.detach(),)

    # During the stream --------------------------------------------------------------------------

    def predict(self, images: Tensor) -> Prediction:
        """Return the sum of both networks' logits."""
        return Prediction(self.student.run(images)[0] + self.teacher.run(images)[0])

    def train(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Take one step on the batch, a view of it and a batch of source images."""
        view = self.augmented(images)
        source = self._next_batch() if self.config.source_weight else ()
        loss, logits = self._train_pass(images, view, *source)
        return loss, logits

    @tensor_pass
    def _train_pass(self, images: Tensor, view: Tensor, *source: Tensor) -> tuple[Tensor, ...]:
        """Take one step; return the loss and the prediction made before it, ``(B, L)``."""
        with torch.no_grad():
            (target,) = self.teacher.run(images)
        (logits,) = self.student.run(images)
        features = self.student.network.features()
        (augmented,) = self.student.run(view)
        views = (features, self.student.network.features())
        both = symmetric_cross_entropy(logits, target) + symmetric_cross_entropy(augmented, target)
        loss = self.config.self_weight * both.mean() / 2
        loss = loss + self.config.contrast_weight * self._contrast(*views)
        if source:
            (replayed,) = self.student.run(source[0])
            loss = loss + self.config.source_weight * F.cross_entropy(replayed, source[1])
        self._descend(loss)
        self.teacher.values.lerp_(self.student.values, self.config.teacher_rate)
        return loss.detach(), logits.detach() + target

    def _contrast(self, features: Tensor, augmented: Tensor) -> Tensor:
        """Return the loss that holds a sample, its view and the nearest prototype together."""
        near = nearest_by_cosine(features.detach(), self.prototypes)
        vectors = torch.stack([near, features, augmented])  # (3, B, D)
        if self.projector is not None:
            inner, inner_bias, outer, outer_bias = self.projector.leaves
            vectors = F.linear(F.linear(vectors, inner, inner_bias).relu(), outer, outer_bias)
        return contrastive_loss(vectors, self.config.temperature)

    def _descend(self, loss: Tensor) -> None:
        if self.projector is None:
            self.optimizer.step(*gradients(loss, self.student.flat))
            return
        own, projected = gradients(loss, self.student.flat, self.projector)
        self.optimizer.step(own)
        self.projector_optimizer.step(projected)


def contrastive_loss(vectors: Tensor, temperature: float) -> Tensor:
    """Return the mean loss over all anchors of ``(V, B, D)`` vectors: V views of B samples.

    Every vector is an anchor; its positives are the other views of its own sample, its
    denominator is all other V B - 1 vectors. Vectors are compared by their cosine.
    """
    views, count, _ = vectors.shape
    flat = F.normalize(vectors.flatten(0, 1), dim=1)  # (V B, D), sample i of view v at v B + i
    similar = flat @ flat.T / temperature
    itself = torch.eye(len(flat), dtype=torch.bool, device=flat.device)
    log_p = similar.masked_fill(itself, -torch.inf).log_softmax(dim=1)
    sample = torch.arange(count, device=flat.device).repeat(views)
    positive = (sample[:, None] == sample) & ~itself
    return -torch.where(positive, log_p, 0.0).sum() / (len(flat) * (views - 1))


def nearest_by_cosine(features: Tensor, prototypes: Tensor) -> Tensor:
    """Return for each feature ``(B, D)`` the prototype with the largest cosine, ``(B, D)``.

    A prototype of zeros stands for a class without one and is never chosen.
    """
    cosine = F.normalize(features, dim=1) @ F.normalize(prototypes, dim=1).T  # (B, L)
    absent = prototypes.abs().amax(dim=1) == 0
    return prototypes[cosine.masked_fill(absent, -torch.inf).argmax(dim=1)]
