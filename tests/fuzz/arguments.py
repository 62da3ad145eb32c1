"""Arguments of every kind, good and bad, drawn by a seeded generator."""

import random
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

CLASSES, SHAPE, FEATURES = 6, (3, 8, 8), 4
Draw = random.Random


def pixels(draw: Draw, count: int) -> Tensor:
    """Return images of 8-bit values; a colour each, sometimes all the same or constant."""
    torch_draw = torch.Generator().manual_seed(draw.randrange(2**31))
    colour = torch.randint(0, 156, (count, SHAPE[0], 1, 1), generator=torch_draw)
    grain = torch.randint(0, 100, (count, *SHAPE), generator=torch_draw)
    kind = draw.random()
    if kind < 0.1:
        grain = grain * 0
    if kind < 0.05:
        colour = colour[:1].expand_as(colour)
    return (colour + grain).float() / 255


GOOD_IMAGES: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda x: x,
    lambda x: (x * 255).round().byte(),
    lambda x: x.permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2),
    lambda x: x.to(memory_format=torch.channels_last),
    lambda x: torch.cat((x, x), dim=3)[..., ::2].contiguous()[..., : SHAPE[2]],
    lambda x: x.repeat_interleave(2, dim=0)[::2],
    lambda x: x.clone().requires_grad_(),
    lambda x: torch.zeros_like(x),
    lambda x: torch.ones_like(x),
    lambda x: x[:1].expand(len(x), -1, -1, -1),
)


def spoiled(x: Tensor, value: float) -> Tensor:
    x = x.clone()
    x.view(-1)[x.numel() // 2] = value
    return x


BAD_IMAGES: tuple[Callable[[Tensor], object], ...] = (
    lambda x: None,
    lambda x: 3,
    lambda x: "images",
    lambda x: x.tolist(),
    lambda x: x.numpy(),
    lambda x: [x],
    lambda x: (x, x),
    lambda x: x[0],
    lambda x: x[None],
    lambda x: x[:0],
    lambda x: x[:, :, :0],
    lambda x: x[:, :0],
    lambda x: x.flatten(),
    lambda x: x.long(),
    lambda x: x > 0.5,
    lambda x: x.to(torch.complex64),
    lambda x: x * 255 + 2,
    lambda x: x - 1.5,
    lambda x: spoiled(x, float("nan")),
    lambda x: spoiled(x, float("inf")),
    lambda x: spoiled(x, -float("inf")),
    lambda x: spoiled(x, 1.0001),
    lambda x: spoiled(x, -1e-6),
    lambda x: x.to("meta"),
    lambda x: x.to_sparse(),
    lambda x: torch.tensor(0.5),
    lambda x: torch.empty(0),
)
OTHER_SHAPES: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda x: x[:, :2],
    lambda x: x[:, :, :7],
    lambda x: torch.cat((x, x), dim=1),
)


def column(draw: Draw, count: int, kind: str) -> tuple[object, bool]:
    """Return uncertainty or labels for ``count`` samples, and whether they are good."""
    torch_draw = torch.Generator().manual_seed(draw.randrange(2**31))
    if kind == "labels":
        good = torch.randint(-1, CLASSES, (count,), generator=torch_draw)
        sound = (None, good, good.int(), good.abs().byte(), good.to(torch.int16))
        wrong = (good.float(), good + CLASSES + 1, good - 8, good[:-1], good[None], good > 0)
        wrong += (good * 0 + 2**62, good.tolist(), 3, "a", good.to("meta"), good.to(torch.cfloat))
    else:
        good = torch.rand(count, generator=torch_draw) * 2
        sound = (None, good, good.double(), good.half(), good * 0, good - 1, good.long())
        sound += (good.clone().requires_grad_(),)
        wrong = (spoiled(good, float("nan")), spoiled(good, float("inf")), good[:-1], good[None])
        wrong += (good.tolist(), 0.5, "a", good > 1, good.to(torch.complex64), good.to("meta"))
        wrong += (torch.cat((good, good)), good.numpy())
    well = draw.random() < 0.8
    return draw.choice(sound if well else wrong), well


NUMBERS_GOOD = (None, 0, 1, 3, 17, 64, 1000, 10**9, 2**62, np.int64(5))
NUMBERS_BAD = (-1, 1.5, "3", True, float("nan"), float("inf"), [1], torch.tensor(3), -(10**30))


def damaged_state(state: dict[str, Tensor], draw: Draw) -> object:
    """Return something that is nearly a state."""
    state = {key: value.clone() for key, value in state.items()}
    key = draw.choice(sorted(state))
    value = state[key]
    kind = draw.randrange(14)
    if kind == 0:
        return draw.choice((None, [], 5, "state", {}, {"images": 1}, [("a", 1)]))
    if kind == 1:
        del state[key]
    elif kind == 2:
        state[draw.choice(("extra", "images.2", "", key + "x"))] = torch.zeros(2)
    elif kind == 3:
        state[key] = draw.choice((None, 3, "x", value.tolist(), value.numpy()))
    elif kind == 4:
        state[key] = value.to(draw.choice((torch.float16, torch.int32, torch.bool)))
    elif kind == 5:
        state[key] = value[None]
    elif kind == 6 and value.ndim and len(value):
        state[key] = value[:-1]
    elif kind == 7 and value.ndim:
        state[key] = torch.cat((value, value))
    elif kind == 8 and value.is_floating_point() and value.numel():
        state[key] = spoiled(value, draw.choice((float("nan"), float("inf"), -1e30, 1e30)))
    elif kind == 9 and not value.is_floating_point() and value.numel():
        state[key] = spoiled(value, draw.choice((0, 1, 100)))
    elif kind == 10 and value.ndim and len(value) > 1:
        state[key] = value.flip(0)
    elif kind == 11:
        state[key] = torch.zeros_like(value)
    elif kind == 12:
        state[key] = value.to("meta")
    else:
        other = draw.choice(sorted(state))
        state[key], state[other] = state[other], state[key]
    return state


def is_sentence(error: Exception | None) -> bool:
    """Return whether an error is one of ours: of a kind that users expect, and one line."""
    said = str(error)
    ours = type(error) in (ValueError, FileNotFoundError)
    return ours and bool(said) and "\n" not in said and len(said) < 1000
