"""ReservoirTTA: models for the styles of a stream, recalled when a style comes back.

Vray, Tomar, Gao, Thiran, Shelhamer, Bozorgtabar: ReservoirTTA: Prolonged Test-time Adaptation for
Evolving and Recurring Domains (2025), around EATA or TENT. Numbers compared with the authors'
released code (LTS5/ReservoirTTA), its style features replaced by ours: see ``styles``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from multipool.core import lookup
from multipool.engine import Context, Kept, Method, Prediction, tensor_pass
from multipool.methods.eata import Selection, fisher_pull
from multipool.methods.reservoir import styles
from multipool.methods.reservoir.clusters import Clusters, Match
from multipool.ops import Group, batch, entropy
from multipool.ops.optimise import OPTIMIZERS, step_where

LOSSES = ("eata", "tent")
_TINY = 1e-8


@dataclass(frozen=True)
class ReservoirConfig:
    """Settings of the authors' released code for CIFAR-100-C, where batches hold 200 images."""

    lr: float = 1e-3
    optimizer: str = "adam"  # adam or sgd
    loss: str = "eata"  # what each model learns by; tent: the plain entropy
    models: int = 16  # one a style, at the most
    buffer: int = 1024  # styles kept, shared evenly among the models there may be
    quantile: float = 0.999  # of the distances between source batches: beyond it a style is new
    batch_size: int = 64  # of source batches; a smaller test batch founds no model
    source_images: int = 2000  # for styles and Fisher weights, the first ones
    entropy_margin: float = 0.4  # E0 as a share of ln L: samples above are unreliable
    redundancy: float = 0.1  # d: samples at or above this cosine to the average are redundant
    fisher_weight: float = 2000.0  # beta: pull of what mattered for the source; 0: ETA

    def __post_init__(self) -> None:
        lookup(OPTIMIZERS, self.optimizer, "optimizer of reservoir")
        lookup(dict.fromkeys(LOSSES), self.loss, "loss of reservoir")
        if not 1 <= self.models <= self.buffer:
            raise ValueError(
                "reservoir's models must be at least 1 and at most buffer, got "
                f"{self.models} and {self.buffer}"
            )
        if min(self.batch_size, self.source_images) < 1 or not 0 <= self.quantile <= 1:
            raise ValueError(
                "reservoir's batch_size and source_images must be at least 1 and its quantile "
                f"from 0 to 1, got {self.batch_size}, {self.source_images} and {self.quantile}"
            )


class Reservoir(Method):
    """The style of a batch picks the model that learns; all models, so weighted, predict.

    The variances of early features tell what kind of input a batch is, its style, and online
    clustering finds styles that are new, or come back. Each style has a model: affine parameters,
    optimiser state and average prediction of its own. The one of the batch's style takes a step of
    EATA (or TENT), and the average of all models' parameters, weighted by how near they are,
    predicts.

    A new style founds a model as a copy of the one that knows most about the batch; then a batch
    takes as many forward passes as there are models, else two and a backward pass. A saved state
    needs no source data.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`ReservoirConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, source_batches, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "reservoir", source=source_batches())
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Vray, Tomar, Gao, Thiran, Shelhamer, Bozorgtabar: ReservoirTTA: Prolonged Test-time
        Adaptation for Evolving and Recurring Domains (2025), around EATA or TENT.
    """

    name = "reservoir"
    needs_norm = "batchnorm"  # whose inputs tell styles
    normalises_by = "batch"
    Config = ReservoirConfig
    needs_source = True
    one_pass = True

    def __init__(self, context: Context, config: ReservoirConfig) -> None:
        super().__init__(context, config)
        self.anchor = self.network.require_statistics(self.name)
        self.student, self.ensemble = self.anchor.copy(trainable=True), self.anchor.copy()
        self.optimizer = OPTIMIZERS[config.optimizer](self.student.affine, config.lr)
        self.selection = Selection(
            self.num_classes, config.entropy_margin, config.redundancy, self.device
        )
        self.fisher, centre, far = self._from_source()
        self.clusters = Clusters(centre, far, config.models, config.buffer)
        self._working = {
            "affine": self.student.affine,
            "average": self.selection.average,
            **{f"optimizer.{name}": tensor for name, tensor in self.optimizer.state.items()},
        }
        # (K, ...): what each model has in the place of the working tensors.
        self.models = {
            name: tensor.detach().expand(config.models, *tensor.shape).clone()
            for name, tensor in self._working.items()
        }

    def keeps(self) -> Kept:
        """Return all models, the clusters of styles, and what the source has told."""
        models = {f"models.{name}": table for name, table in self.models.items()}
        told = {
            "statistics.fisher": self.fisher,
            "statistics.style": self.clusters.source,
            "statistics.threshold": self.clusters.threshold,
        }
        return {**models, "clusters": self.clusters, **told}

    def facts(self) -> dict[str, object]:
        """Return how many models there are."""
        return {"models": len(self.clusters)}

    @torch.no_grad()
    def _from_source(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the Fisher weights, the mean style of source batches and the threshold."""
        given, config = self.source.given, self.config
        if isinstance(given, Mapping) and {"fisher", "style", "threshold"} <= set(given):
            told = [given[name].to(self.device) for name in ("style", "threshold")]
        else:
            images = self.source.images(most=config.source_images, size=config.batch_size)
            found = styles.source_styles(self.network, images, config.batch_size, self.draws)
            told = [found.mean(dim=0), styles.threshold(found, config.quantile)]
        if config.loss == "tent":
            fisher = torch.zeros_like(self.student.affine)
        else:
            fisher = self.source.fisher(
                self.student, images=config.source_images, size=config.batch_size
            )
        self.source.given = {"fisher": fisher, "style": told[0], "threshold": told[1]}
        return fisher, told[0], told[1]

    # A batch ------------------------------------------------------------------------------------

    def predict(self, images: Tensor) -> Prediction:
        """Return what :meth:`train` would, and learn nothing."""
        match = self._match(images)
        parent = self._most_informed(images) if match.new else None
        return Prediction(self._answer(images, match, parent))

    def train(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Let the model of the batch's style take one step; the others keep still."""
        with torch.no_grad():
            match = self._match(images)
            parent = self._most_informed(images) if match.new else None
            logits = self._answer(images, match, parent)
            if parent is not None:
                for table in self.models.values():
                    table[len(self.clusters)] = table[parent]
            self.clusters.learn(match, self.draws)
            self._copy(match.cluster, into_work=True)
        (loss,) = self._train_pass(images)
        self._copy(match.cluster, into_work=False)
        return loss, logits

    def _match(self, images: Tensor) -> Match:
        found = styles.style(styles.moments(self.network, images))
        return self.clusters.match(found, may_found=len(images) >= self.config.batch_size)

    def _most_informed(self, images: Tensor) -> int:
        """Return the model whose predictions of the batch carry most: mean H(p) - H(mean p)."""
        scores = []
        for affine in self.models["affine"][: len(self.clusters)]:
            self.ensemble.affine.copy_(affine)
            logits = self._ensemble_pass(images)[0]
            average = logits.softmax(dim=1).mean(dim=0)
            scores.append(entropy(logits).mean() + (average * (average + _TINY).log()).sum())
        return int(torch.stack(scores).argmin())

    def _answer(self, images: Tensor, match: Match, parent: int | None) -> Tensor:
        """Return the logits of all models' parameters, averaged by the style's weights."""
        affine = self.models["affine"][: len(self.clusters)]
        if parent is not None:
            affine = torch.cat([affine, affine[parent, None]])
        self.ensemble.affine.copy_(match.weights @ affine)
        return self._ensemble_pass(images)[0].clone()

    @torch.no_grad()
    def _copy(self, model: int, *, into_work: bool) -> None:
        for name, tensor in self._working.items():
            row = self.models[name][model]
            (tensor.copy_(row) if into_work else row.copy_(tensor))

    @tensor_pass
    def _ensemble_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        return (self.network.run(Group(images, self.ensemble, batch))[0],)

    @tensor_pass
    def _train_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        """Take one step of the host's: EATA's selected entropy and penalty, or TENT's entropy."""
        (logits,) = self.network.run(Group(images, self.student, batch))
        if self.config.loss == "tent":
            loss = entropy(logits).mean()
            self.optimizer.step(self.student.gradient(loss))
            return (loss.detach(),)
        loss, passed = self.selection.loss(logits)
        penalty, slope = fisher_pull(self.student.affine, self.anchor.affine, self.fisher)
        gradient = self.student.gradient(loss) + self.config.fisher_weight * slope
        step_where(self.optimizer, gradient, passed.any())
        return (loss.detach() + self.config.fisher_weight * penalty,)
