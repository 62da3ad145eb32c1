"""AdaContrast: pseudo-labels refined by neighbours, and contrast with keys of other classes.

Chen, Wang, Darrell, Ebrahimi: Contrastive Test-Time Adaptation, CVPR 2022. Online, as run by
mariodoebler/test-time-adaptation, with which numbers were compared. That code predicts a batch
after it has learned from it; here, as everywhere, the prediction comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.engine import Context, Kept, Method, Prediction, Update, tensor_pass
from multipool.ops import Group, LayerState, Policy, batch, frozen
from multipool.ops.flat import gradients
from multipool.ops.normalise import batch_moments
from multipool.ops.optimise import FlatSGD
from multipool.ops.strong import flipped, strong_view
from multipool.ops.weights import Weights

_TINY = 1e-8
_NORM_RATE = 0.1  # torch's momentum: share of the batch in each statistics update


@dataclass(frozen=True)
class AdaContrastConfig:
    """Settings of mariodoebler/test-time-adaptation, the same on every dataset."""

    lr: float = 2e-4  # of SGD with Nesterov's step
    weight_decay: float = 1e-4  # of all weights
    teacher_rate: float = 1e-3  # share of the student in each update of the momentum network
    temperature: float = 0.07  # of the contrast
    queue: int = 16_384  # keys to contrast with, and features to find neighbours among
    neighbours: int = 10  # whose mean prediction is the pseudo-label
    refine_after: int = 1024  # images seen before neighbours are asked
    class_weight: float = 1.0  # alpha: of learning the pseudo-labels
    contrast_weight: float = 1.0  # beta: of the contrast
    diversity_weight: float = 1.0  # eta: of diverse predictions

    def __post_init__(self) -> None:
        if not 1 <= self.neighbours <= min(self.queue, max(self.refine_after, 1)):
            raise ValueError(
                "adacontrast's neighbours must be at least 1 and at most queue and refine_after, "
                f"got {self.neighbours}, {self.queue} and {self.refine_after}"
            )


class AdaContrast(Method):
    """All weights learn from a strong view what the neighbours of the weak one say.

    The pseudo-label of an image is what its ten nearest neighbours in a bank of features say on
    average. All weights learn it from a strong view of the image, together with a contrast between
    that view's feature and keys of other classes, and a term that keeps predictions diverse. A
    batch costs five forward passes and a backward pass through all weights; the bank holds
    features of the last 16,384 images, not the images.

    A momentum network makes the keys and the features of the bank, under each batch's own
    statistics; the student predicts with running statistics that its training passes move.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`AdaContrastConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "adacontrast")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Chen, Wang, Darrell, Ebrahimi: Contrastive Test-Time Adaptation, CVPR 2022.
    """

    name = "adacontrast"
    normalises_by = "kept"
    reads_features = True
    Config = AdaContrastConfig

    def __init__(self, context: Context, config: AdaContrastConfig) -> None:
        super().__init__(context, config)
        self.student = Weights(self.network, method=self.name, trainable=True)
        self.teacher = Weights(self.network, method=self.name)
        self.optimizer = FlatSGD(self.student.values, config.lr)
        width, size = self.network.feature_width(), config.queue
        # Both rings take a batch at a time, so one number says where either goes on.
        drawn = torch.from_numpy(self.draws.standard_normal((size, width))).float()
        labels = torch.from_numpy(self.draws.integers(self.num_classes, size=size))
        self.rings = {
            "keys": F.normalize(drawn.to(self.device), dim=1),
            "labels": labels.to(self.device),
            "features": torch.zeros(size, width, dtype=torch.float32, device=self.device),
            "probabilities": torch.zeros(
                size, self.num_classes, dtype=torch.float32, device=self.device
            ),
        }
        self.seen = torch.zeros((), dtype=torch.int64, device=self.device)

    def keeps(self) -> Kept:
        """Return both networks' weights, the student's statistics, the optimiser and the rings."""
        kept: dict[str, Tensor | FlatSGD] = {
            "student.values": self.student.values,
            "teacher.values": self.teacher.values,
            "optimizer": self.optimizer,
            "seen": self.seen,
        }
        if self.student.branch is not None and self.student.branch.has_statistics:
            kept["student.statistics"] = self.student.branch.statistics
        return {**kept, **{f"rings.{name}": ring for name, ring in self.rings.items()}}

    def predict(self, images: Tensor) -> Prediction:
        """Return the student's logits under its running statistics."""
        return Prediction(self._predict_pass(images)[0])

    def learn(self, images: Tensor, prediction: Prediction) -> Iterator[Update]:
        """Learn from a weak and two strong views of the batch."""
        yield partial(self._update, images)

    def _update(self, images: Tensor) -> Tensor:
        with torch.no_grad():
            views = [flipped(images, self.draws)]
            views += [strong_view(images, self.draws) for _ in range(2)]
        return self._train_pass(*(self.network.prepare(view) for view in views))[0]

    @tensor_pass
    def _predict_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        return (run(self.student, images, frozen)[0],)

    @tensor_pass
    def _train_pass(self, weak: Tensor, query: Tensor, key: Tensor) -> tuple[Tensor, ...]:
        """Take one step on L_cls + L_ctr + L_div, then renew the bank."""
        with torch.no_grad():
            labels = self._labels(*run(self.student, weak, tracked))
        logits, features = run(self.student, query, tracked)
        with torch.no_grad():
            self.teacher.values.lerp_(self.student.values, self.config.teacher_rate)
            keys = F.normalize(run(self.teacher, key, batch)[1], dim=1)
            places = (self.seen + torch.arange(len(keys), device=self.device)) % self.config.queue
            old_keys = self.rings["keys"].clone()
            self._store(places, keys=keys, labels=labels)
        config = self.config
        average = logits.softmax(dim=1).mean(dim=0)
        loss = config.class_weight * F.cross_entropy(logits, labels)
        # The mask reads the new labels, where the keys are still the old ones: as in public code.
        loss = loss + config.contrast_weight * contrast(
            F.normalize(features, dim=1),
            keys,
            old_keys,
            labels[:, None] != self.rings["labels"],
            config.temperature,
        )
        loss = loss + config.diversity_weight * (average * (average + _TINY).log()).sum()
        (gradient,) = gradients(loss, self.student.flat)
        with torch.no_grad():
            gradient = gradient.add(self.student.values, alpha=config.weight_decay)
            self.optimizer.step(gradient)
            logits, features = run(self.teacher, weak, batch)
            self._store(places, features=features, probabilities=logits.softmax(dim=1))
            self.seen.add_(len(weak))
        return (loss.detach(),)

    def _labels(self, logits: Tensor, features: Tensor) -> Tensor:
        """Return pseudo-labels ``(B,)``: of the neighbours once there are enough of them."""
        filled = torch.arange(self.config.queue, device=self.device) < self.seen
        cosine = F.normalize(features, dim=1) @ F.normalize(self.rings["features"], dim=1).T
        near = cosine.masked_fill(~filled, -torch.inf).topk(self.config.neighbours, dim=1).indices
        refined = self.rings["probabilities"][near].mean(dim=1)
        enough = self.seen >= self.config.refine_after
        return torch.where(enough, refined.argmax(dim=1), logits.argmax(dim=1))

    def _store(self, places: Tensor, **rows: Tensor) -> None:
        """Write a batch into rings; of a batch longer than they are, the end."""
        for name, values in rows.items():
            ring = self.rings[name]
            ring.index_copy_(0, places[-len(ring) :], values[-len(ring) :].to(ring.dtype))


def run(weights: Weights, images: Tensor, policy: Policy) -> tuple[Tensor, Tensor]:
    """Return logits ``(B, L)`` and features ``(B, D)`` of a network under a policy."""
    weights.flat.refresh()
    layers = weights.network.origin if weights.branch is None else weights.branch
    (logits,) = weights.network.run(Group(images, layers, policy))
    return logits, weights.network.features()


def tracked(x: Tensor, state: LayerState) -> Tensor:
    """Normalise by the batch's statistics, gradients through them; the stored ones follow."""
    count = x.numel() // x.shape[1]
    if count > 1:
        with torch.no_grad():
            mean, var = batch_moments(x.detach())
            state.mean.lerp_(mean, _NORM_RATE)
            state.var.lerp_(var * (count / (count - 1)), _NORM_RATE)
    return batch(x, state)


def contrast(
    queries: Tensor, keys: Tensor, others: Tensor, negative: Tensor, temperature: float
) -> Tensor:
    """Return the mean InfoNCE loss of queries ``(B, D)``, each with one key of its own.

    ``negative`` ``(B, Q)`` says which of ``others`` ``(Q, D)`` count: keys of another class.
    """
    own = (queries * keys).sum(dim=1, keepdim=True)  # (B, 1)
    rest = (queries @ others.T).masked_fill(~negative, -torch.inf)
    return -(torch.cat([own, rest], dim=1) / temperature).log_softmax(dim=1)[:, 0].mean()
