"""UnMix-TNS: each image normalised by itself mixed into K components of the stream's statistics.

Tomar et al., Un-Mixing Test-Time Normalization Statistics: Combatting Label Temporal Correlation,
ICLR 2024. The layers alone, without a method that learns on top. Numbers compared with the authors'
released code (devavratTomar/unmixtns).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.engine import Context, Kept, Method, Prediction, tensor_pass
from multipool.ops import Branch, Group, LayerState, frozen
from multipool.ops.moments import instance_moments, normalise, positions

Moments = tuple[Tensor, Tensor]  # means and variances


@dataclass(frozen=True)
class UnMixTNSConfig:
    """Defaults of the authors' released code for single and continual domains on CIFAR."""

    components: int = 16  # K; 128 where domains are mixed within a batch
    temperature: float = 0.07  # of the softmax over cosines to the components
    spread: float = 0.5  # alpha: share of the source variance between the first components
    rate: float = 0.1  # lambda: share of the images in each update, from a batch of the size below
    reference_batch: int = 64  # a batch of another size counts as its share of this one

    def __post_init__(self) -> None:
        if self.components < 1 or self.reference_batch < 1:
            raise ValueError("unmix-tns's components and reference_batch must be at least 1")
        if not (0 < self.rate < 1 and 0 <= self.spread < 1 and self.temperature > 0):
            raise ValueError(
                "unmix-tns takes a rate above 0 and below 1, a spread from 0 to below 1 and a "
                f"temperature above 0, got {self.rate}, {self.spread} and {self.temperature}"
            )


class UnMixTNS(Method):
    """Replaces the statistics of every layer by K of them that drift apart with the stream.

    An image is normalised by the average over K components, after each has taken a share of the
    image's own moments: the softmax of the cosine between their means. The components then move a
    little towards the images that resemble them, so that a run of one class moves few of them and
    the average stays that of all classes. One forward pass a batch, no gradient.

    Args:
        context: what the engine gives every method: network, random numbers, bank, source data.
        config: the options, a :class:`UnMixTNSConfig`.

    Example:
        >>> import multipool
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = multipool.adapt(tiny_net(), "unmix-tns")
        >>> adapter(random_images(8)).shape  # (B, C, H, W) to (B, L)
        torch.Size([8, 5])

    References:
        Tomar et al., Un-Mixing Test-Time Normalization Statistics: Combatting Label
        Temporal Correlation, ICLR 2024.
    """

    name = "unmix-tns"
    needs_norm = "batchnorm"
    normalises_by = "kept"
    Config = UnMixTNSConfig
    one_pass = True
    self_training = False  # the statistics do not depend on what was predicted

    def __init__(self, context: Context, config: UnMixTNSConfig) -> None:
        super().__init__(context, config)
        self.branch = self.network.require_statistics(self.name)
        count = config.components
        noise = self.draws.standard_normal((count, len(self.branch.statistics) // 2))
        drawn = torch.from_numpy(noise).float().to(self.device)
        self.norm = UnMixing(self.branch, first_components(self.branch, drawn, config), config)

    def keeps(self) -> Kept:
        """Return the components' means and variances."""
        return {"means": self.norm.means, "variances": self.norm.variances}

    def predict(self, images: Tensor) -> Prediction:
        """Return the logits and move no component."""
        return Prediction(self._look_pass(images)[0])

    def train(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits under the components as they were, which then move."""
        moved, logits = self._move_pass(images)
        return moved, logits

    @tensor_pass
    @torch.no_grad()
    def _look_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        return (self.network.run(Group(images, self.branch, self.norm.peek))[0],)

    @tensor_pass
    @torch.no_grad()
    def _move_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        """Return how far the means moved, and the logits."""
        before = self.norm.means.clone()
        (logits,) = self.network.run(Group(images, self.branch, self.norm))
        return (self.norm.means - before).norm(), logits


def first_components(branch: Branch, noise: Tensor, config: UnMixTNSConfig) -> Moments:
    """Return the K means and variances to begin with, ``(K, sum of channels)`` each.

    The means scatter about the source mean with ``spread`` of its variance, by standard normal
    ``noise``, and the variances keep the rest; together they have about the source's moments.
    """
    mean = torch.cat([state.mean for state in branch.layers])
    var = torch.cat([state.var for state in branch.layers])
    count = config.components
    if count == 1:
        return mean[None].clone(), var[None].clone()
    scatter = math.sqrt(config.spread * count / (count - 1)) * var.sqrt() * noise
    return mean + scatter, (1 - config.spread) * var.repeat(count, 1)


def assign(images: Tensor, components: Tensor, temperature: float) -> Tensor:
    """Return p ``(B, K)``: the softmax of the cosines of instance and component means."""
    cosine = F.normalize(images, dim=1) @ F.normalize(components, dim=1).T
    return (cosine / temperature).softmax(dim=1)


def mix(own: Moments, components: Moments, p: Tensor) -> Moments:
    """Return each image's moments ``(B, C)``: those of the K components it is mixed into.

    Component k takes a share p of the image: m_k' = (1-p) m_k + p m and v_k' likewise; all K count
    as one population: mean m_k', variance mean v_k' + var m_k'. What the mixing itself adds to a
    component, p (1-p) (m - m_k)^2, is left out, as in the paper (in the release: commented out).
    """
    share = p[:, :, None]  # (B, K, 1)
    means = torch.lerp(components[0][None], own[0][:, None], share)  # (B, K, C)
    variances = torch.lerp(components[1][None], own[1][:, None], share)
    return means.mean(dim=1), variances.mean(dim=1) + means.var(dim=1, correction=0)


class UnMixing:
    """The policy of all layers of one branch; one-dimensional layers keep the source's statistics.

    ``means`` and ``variances`` are ``(K, sum of channels)``, changed in place.
    """

    def __init__(self, branch: Branch, start: Moments, config: UnMixTNSConfig) -> None:
        self.means, self.variances = start
        self.config = config
        widths = [len(state.mean) for state in branch.layers]
        parts = zip(self.means.split(widths, 1), self.variances.split(widths, 1), strict=True)
        self._of = {id(state): part for state, part in zip(branch.layers, parts, strict=True)}

    def __call__(self, x: Tensor, state: LayerState) -> Tensor:
        """Return the normalised ``x``; then move m_k by rate * mean of p (m - m_k)."""
        if positions(x) == 1:
            return frozen(x, state)
        own, components, p = self._assigned(x, state)
        out = normalise(x, *mix(own, components, p), state)
        rate = 1 - (1 - self.config.rate) ** (len(x) / self.config.reference_batch)
        pull = p.sum(dim=0)[:, None]  # (K, 1)
        for values, seen in zip(components, own, strict=True):
            values.add_(p.T @ seen - pull * values, alpha=rate / len(x))
        return out

    def peek(self, x: Tensor, state: LayerState) -> Tensor:
        """Return what a call would, and move nothing."""
        if positions(x) == 1:
            return frozen(x, state)
        return normalise(x, *mix(*self._assigned(x, state)), state)

    def _assigned(self, x: Tensor, state: LayerState) -> tuple[Moments, Moments, Tensor]:
        """Return the moments of the images, those of the components, and who belongs where."""
        own, components = instance_moments(x, correction=0), self._of[id(state)]
        return own, components, assign(own[0], components[0], self.config.temperature)
