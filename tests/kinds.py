"""Tiny networks on 8x8 images, one for each kind of normalisation that models come with."""

import torch
from torch import nn


class ChannelFirst(nn.Module):
    """LayerNorm over the channels of (B, C, H, W), written as models write it themselves."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(torch.ones(channels)),
            nn.Parameter(torch.zeros(channels)),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(1, keepdim=True)
        var = (x - mean).square().mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(var + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class OwnRMS(nn.Module):
    """RMSNorm over the last axis with a parameter of another name, as language models have it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6))


class ChannelsLast(nn.Module):
    """A layer over the last axis, put where (B, C, H, W) passes."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class NormAct(nn.BatchNorm2d):
    """BatchNorm with its activation inside, as some libraries have it."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.drop, self.act = nn.Identity(), nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.drop(super().forward(x)))


class Frozen(nn.Module):
    """BatchNorm whose parameters are buffers, as detection libraries have it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        for name, value in (("weight", 1.0), ("bias", 0.0)):
            self.register_buffer(name, torch.full((channels,), value))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.eps = 1e-5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale[:, None, None] + shift[:, None, None]


NORMS = {
    "batchnorm": nn.BatchNorm2d,
    "layernorm": lambda c: ChannelsLast(nn.LayerNorm(c)),
    "groupnorm": lambda c: nn.GroupNorm(2, c),
    "instancenorm": lambda c: nn.InstanceNorm2d(c, affine=True),
    "rmsnorm": lambda c: ChannelsLast(nn.RMSNorm(c, eps=1e-6)),
    "channel-first": ChannelFirst,
    "own-rms": lambda c: ChannelsLast(OwnRMS(c)),
    "norm-act": NormAct,
    "frozen-batchnorm": Frozen,
    "none": lambda c: nn.Identity(),
}
WITHOUT_STATISTICS = [
    *("layernorm", "groupnorm", "instancenorm", "rmsnorm", "channel-first", "own-rms")
]


class KindNet(nn.Module):
    """Three convolutions, each normalised and rectified, then a linear layer."""

    def __init__(self, first: str, second: str, num_classes: int = 5) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 6, 3, padding=1, bias=False), NORMS[first](6)
        self.conv2, self.norm2 = nn.Conv2d(6, 8, 3, padding=1, bias=False), NORMS[second](8)
        self.conv3, self.norm3 = nn.Conv2d(8, 8, 3, padding=1, bias=False), NORMS[first](8)
        self.fc = nn.Linear(8, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm1(self.conv1(x)))
        x = torch.relu(self.norm2(self.conv2(x)))
        x = torch.relu(self.norm3(self.conv3(x)))
        return self.fc(x.mean(dim=(2, 3)))


def make_kind_net(kind: str, second: str | None = None, seed: int = 0) -> KindNet:
    """Return a network of one kind, or of two, with random weights, in eval mode."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = KindNet(kind, second or kind)
        for module in net.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
            tensors = {**module._parameters, **module._buffers}
            small = {k: t for k, t in tensors.items() if t is not None and t.ndim == 1}
            for name, tensor in small.items() if not isinstance(module, nn.Linear) else ():
                low, high = (
                    (0.5, 1.5) if name in ("weight", "scale", "running_var") else (-0.3, 0.3)
                )
                nn.init.uniform_(tensor, low, high)
        nn.init.normal_(net.fc.weight)
        # Logits of mean 0 and spread 2 for every kind: all classes come up, some of them surely.
        with torch.no_grad():
            colours = torch.rand(200, 3, 1, 1) * 0.6 + torch.rand(200, 3, 8, 8) * 0.4
            logits = net.eval()(colours)
            scale = 2 / logits.std(dim=0)
            net.fc.bias.sub_(logits.mean(dim=0)).mul_(scale)
            net.fc.weight.mul_(scale[:, None])
    return net
