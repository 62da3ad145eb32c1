"""A small vision transformer (Dosovitskiy et al., ICLR 2021) for 32 px images.

Four convolutions make the patches (Xiao et al., NeurIPS 2021): without them a transformer needs
far more images than CIFAR has. All its normalisation layers are LayerNorm.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from multipool.models.normalise import Normalise


class VisionTransformer(nn.Module):
    """Patches of 4 x 4 pixels, learned positions, pre-norm blocks, and the mean of all tokens."""

    def __init__(
        self,
        num_classes: int,
        width: int = 256,
        depth: int = 7,
        heads: int = 4,
        expansion: int = 2,
        side: int = 32,
    ) -> None:
        super().__init__()
        self.side = side
        self.normalise = Normalise()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width // 4, 3, padding=1),
            nn.GELU(),
            nn.Conv2d(width // 4, width // 2, 3, stride=2, padding=1),
            nn.GELU(),
            nn.Conv2d(width // 2, width // 2, 3, padding=1),
            nn.GELU(),
            nn.Conv2d(width // 2, width, 3, stride=2, padding=1),
        )
        self.positions = nn.Parameter(torch.empty(1, (side // 4) ** 2, width))
        self.blocks = nn.Sequential(*(_Block(width, heads, expansion) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits ``(B, L)`` of images ``(B, 3, side, side)`` in [0, 1]."""
        if images.shape[-2:] != (self.side, self.side):
            height, width = images.shape[-2:]
            raise ValueError(
                f"this transformer takes images of {self.side} x {self.side} pixels, "
                f"got {height} x {width}; scale them first"
            )
        x = self.stem(self.normalise(images))
        x = x.flatten(2).transpose(1, 2) + self.positions  # (B, tokens, width)
        x = self.norm(self.blocks(x))
        return self.fc(x.mean(dim=1))  # (B, width) features

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Start as the stem alone: its output of order one, and every block adds nothing yet.

        Blocks that add their noise from the first step on drown what the stem says: with the scales
        that the other architectures start from, the tokens of an image begin nearly equal.
        """
        for layer in self.stem:
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
        nn.init.normal_(self.positions, std=0.1, generator=generator)
        for block in self.modules():
            if isinstance(block, _Block):
                nn.init.zeros_(block.proj.weight)
                nn.init.zeros_(block.fc2.weight)


class _Block(nn.Module):
    """Attention and a two-layer network, each after its own LayerNorm, around shortcuts."""

    def __init__(self, width: int, heads: int, expansion: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, expansion * width)
        self.fc2 = nn.Linear(expansion * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return tokens ``(B, tokens, width)`` after one round of mixing."""
        x = x + self.proj(self._attend(self.qkv(self.norm1(x))))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))

    def _attend(self, qkv: Tensor) -> Tensor:
        """Return ``(B, tokens, width)`` attended values of ``(B, tokens, 3 * width)``."""
        parts = qkv.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # (3, B, heads, t, d)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        return mixed.transpose(1, 2).flatten(2)
