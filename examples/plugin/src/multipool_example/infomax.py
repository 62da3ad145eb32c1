"""Information maximisation: be sure of every image, and use all classes.

The loss is that of SHOT-IM (Liang et al., Do We Really Need to Access the
Source Data?, ICML 2020), here over the affine parameters of the normalisation
layers, one step a batch.
"""

from dataclasses import dataclass

from torch import Tensor

from multipool.engine import Context, OnePass, tensor_pass
from multipool.ops import entropy
from multipool.ops.optimise import OPTIMIZERS


@dataclass(frozen=True)
class InfoMaxConfig:
    """The options: ``--set lr=1e-4``, in Python ``options={"lr": 1e-4}``."""

    lr: float = 1e-3
    diversity: float = 1.0  # weight of the mean prediction's entropy


class InfoMax(OnePass):
    """Lowers the entropy of each prediction and raises that of their mean."""

    name = "infomax"
    Config = InfoMaxConfig

    def __init__(self, context: Context, config: InfoMaxConfig) -> None:
        super().__init__(context, config)
        source = self.network.require_source(self.name)
        self.student = source.copy(trainable=True)
        self.optimizer = OPTIMIZERS["adam"](self.student.affine, config.lr)

    @tensor_pass
    def train_pass(self, images: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """Step on images (B, C, H, W); return the loss and logits (B, L)."""
        logits = self.logits(images)
        mean = logits.softmax(dim=1).mean(dim=0)  # (L,)
        spread = -(mean * mean.clamp_min(1e-8).log()).sum()
        loss = entropy(logits).mean() - self.config.diversity * spread
        self.optimizer.step(self.student.gradient(loss))
        return loss.detach(), logits.detach()
