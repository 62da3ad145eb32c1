"""What multipool computes on the device: passes over images with the statistics of pools."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from multipool.engine import Context, Method, Prediction, Update, tensor_pass
from multipool.methods.multipool.centre import Centre
from multipool.methods.multipool.config import MultiPoolConfig
from multipool.methods.multipool.learning import Learning
from multipool.methods.multipool.rules import projection
from multipool.methods.multipool.shares import lateness
from multipool.methods.multipool.statistics import EachImage, moving, with_statistics
from multipool.ops import Group, frozen
from multipool.ops.moments import instance_moments
from multipool.ops.until import NotRunError

_LAYERNORM = 6  # times as long a step as models with other norms take without harm
_OF_TOKENS = 4.0  # times as soon a pool is trusted in front of LayerNorm as elsewhere


class PoolPasses(Method, ABC):
    """The statistics of all pools as one table, and the passes that read and move them.

    What a pass is told besides images comes as one vector of float32 ``numbers``, so that it goes
    to the device in one copy.
    """

    config: MultiPoolConfig
    Config = MultiPoolConfig

    def __init__(self, context: Context, config: MultiPoolConfig) -> None:
        super().__init__(context, config)
        source = self.network.source
        self.learning: Learning | None = None
        # Whether BatchNorm is the model's only norm, or others stand beside it or in its place.
        self.only_batchnorm = set(self.network.kinds) == {"BatchNorm"}
        lr = self._rate_of_learning(config)
        if source is not None and lr > 0:
            self.learning = Learning(source, self.num_classes, lr)
        self.branch = source if self.network.has_statistics else None
        self.centre = self._new_centre() if self.branch is None else None
        if self.branch is None:  # no statistics to keep
            return
        # BatchNorm put in front of LayerNorm stands once for each; where it is a part of a network
        # for itself, there are more.
        kinds = self.network.kinds
        of_tokens = kinds.count("LayerNorm") >= kinds.count("BatchNorm")
        self.prior = config.prior / (_OF_TOKENS if of_tokens else 1.0)
        self.home = self.branch.statistics.clone()  # (S,)
        self.live = self.home.clone()  # the statistics of the pass under way
        # Its affine parameters, with the source's statistics.
        self.student = self.branch if self.learning is None else self.learning.student
        self.living = with_statistics(self.student, self.live)
        self.own = self.home.repeat(config.most, 1)  # (P, S)
        late = lateness(len(self.branch.layers))
        sizes = torch.tensor(self.branch.moment_sizes).view(-1, 2).sum(dim=1)
        self.late = late.to(self.home)  # (2, N) of each layer, to answer and to ask
        self.lateness = late.repeat_interleave(sizes, dim=1).to(self.home)  # (2, S)
        known = [i for i, layer in enumerate(self.branch.layers) if len(layer.mean) > 0]
        chosen = known[round(config.depth * (len(known) - 1))]
        self._describe_by(chosen, min(2 * len(self.branch.layers[chosen].mean), config.width))

    def _describe_by(self, layer: int, width: int) -> None:
        """Let images be described by ``width`` numbers about what a layer is given."""
        assert self.branch is not None
        state = self.branch.layers[layer]
        self.layer, self.scale = layer, state.var + state.eps  # (C,)
        self.spread = self.scale.sqrt()
        made = torch.from_numpy(projection(2 * len(state.mean), width)).to(self.home)
        self.projection = F.pad(made, (0, width - made.shape[1]))  # (2C, D)

    def _rate_of_learning(self, config: MultiPoolConfig) -> float:
        """Return the learning rate for this kind of model; 0: nothing is learned."""
        if self.only_batchnorm:
            return config.lr
        longer = _LAYERNORM if set(self.network.kinds) == {"LayerNorm"} else 1
        return longer * config.lr_without

    def _new_centre(self) -> Centre | None:
        """Return the centre of a model that ends with a linear layer; else None."""
        if self.config.centre == 1:
            return None
        try:
            origin = torch.zeros(
                1, self.network.feature_width(), dtype=torch.float32, device=self.device
            )
        except ValueError:
            return None
        bias = self.network.classify(origin)[0].detach()
        return Centre(bias, self.config.centre) if len(bias) == self.num_classes else None

    def recentre(self, prediction: Prediction) -> Iterator[Update]:
        """Keep the centre that a batch makes."""
        if self.centre is not None and prediction.features is not None:
            yield partial(self.centre.take, self.centre.moved(prediction.features))

    @tensor_pass
    def plain_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        """Predict with a model that keeps no statistics."""
        if self.learning is None:
            return (self.network.plain(images),)
        return tuple(self.network.run(Group(images, self.learning.student, frozen)))

    @tensor_pass
    def learn_pass(self, images: Tensor, view: Tensor, length: Tensor) -> tuple[Tensor, ...]:
        """Take one step on images and their ``view``; ``length`` of it, 0 to 1."""
        assert self.learning is not None
        return (self.learning.step(self.network, images, view, length),)

    def describe(self, images: Tensor) -> Tensor:
        """Describe images ``(B, D)`` by the chosen layer, or by the nearest that the model runs.

        Which it runs depends on nothing but the model, so nobody need remember it.
        """
        try:
            described = self.describe_pass(images)[0]
        except NotRunError:
            run = self.network.layers_run(images[:1])
            if not run:
                raise
            nearest = min(run, key=lambda index: abs(index - self.layer))
            self._describe_by(nearest, self.projection.shape[1])
            described = self.describe_pass(images)[0]
        if len(described) != len(images):
            raise ValueError(
                f"the model gives a normalisation layer {len(described)} rows for {len(images)} "
                "images, so it splits batches itself and no row can be told whose it is; take that "
                "out of its forward"
            )
        return described

    @tensor_pass
    def describe_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        """Describe images by mean and log-deviation of early channels, in the source's units."""
        assert self.branch is not None
        state = self.branch.layers[self.layer]
        x = self.network.before_norm(images, self.layer)
        mean, var = instance_moments(x, 0)  # (B, C)
        spread = 0.5 * ((var + state.eps) / self.scale).log()
        described = torch.cat([(mean - state.mean) / self.spread, spread], dim=1)
        return ((described @ self.projection).double(),)

    @tensor_pass
    def features_pass(self, images: Tensor) -> tuple[Tensor, ...]:
        """Return the source model's features ``(B, D)``, for banks that describe images by them."""
        self.network.plain(images)
        return (self.network.features(),)

    @tensor_pass
    def still_pass(self, images: Tensor, own: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
        """Predict with the statistics ``own`` ``(S,)`` of one pool, or ask what it shows.

        ``numbers``: its shares, early and late, and 1 to ask, 0 to answer.
        """
        if self.beside_host:
            profile = self.lateness.index_select(0, numbers[2:].long())[0]
            torch.lerp(self.home, own, numbers[0].lerp(numbers[1], profile), out=self.live)
        else:  # the same in fewer steps, for images that come alone
            early, late, asks = numbers.tolist()
            if early == late:
                torch.lerp(self.home, own, early, out=self.live)
            else:
                shares = numbers[0].lerp(numbers[1], self.lateness[int(asks)])
                torch.lerp(self.home, own, shares, out=self.live)
        return tuple(self.network.run(Group(images, self.living, frozen)))

    @tensor_pass
    def pools_pass(self, images: Tensor, pools: Tensor, shares: Tensor) -> tuple[Tensor, ...]:
        """Predict a batch of several ``pools`` ``(B,)``, each image with its own statistics.

        ``shares`` ``(P, 2)`` of the pools, early and late.
        """
        weights = torch.lerp(shares[:, :1], shares[:, 1:], self.lateness[0])
        mixed = torch.lerp(self.home, self.own, weights)  # (P, S)
        layers = with_statistics(self.student, mixed.index_select(0, pools))
        return tuple(self.network.run(Group(images, layers, EachImage())))

    @tensor_pass
    def young_pass(
        self, images: Tensor, weights: Tensor, own: Tensor, numbers: Tensor
    ) -> tuple[Tensor, ...]:
        """Predict with statistics that these images have moved; return these ``(S,)`` as well.

        ``weights`` ``(B,)`` of the images; ``numbers``: the shares, early and late, of the pool's
        statistics ``own`` ``(S,)``, the weight of the images in them, and 1 to ask which classes
        they show, 0 to answer. What the pool keeps stays as it is.
        """
        late = self.late.index_select(0, numbers[3:].long())[0]
        shares, moved = numbers[0].lerp(numbers[1], late), own.clone()
        layers, policy = moving(self.student, moved, shares, numbers[2], weights)
        return (*self.network.run(Group(images, layers, policy)), moved)

    @tensor_pass
    def move_pass(
        self, images: Tensor, numbers: Tensor, weights: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Move the statistics of one pool; return how far, in all.

        ``numbers``: the pool, its shares, early and late, and the weight of the images in its
        statistics; ``weights`` ``(B,)`` of the images, None: all alike.
        """
        pool = numbers[:1].long()
        before = self.own.index_select(0, pool)[0]
        own = before.clone()
        shares = numbers[1].lerp(numbers[2], self.late[0])
        layers, policy = moving(self.student, own, shares, numbers[3], weights)
        self.network.run(Group(images, layers, policy))
        self.own.index_copy_(0, pool, own[None])
        return ((own - before).square().mean(),)
