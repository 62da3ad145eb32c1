"""Milliseconds a batch that `multipool` keeps the host busy: its passes are played back.

A first run records what every pass over the network returns; in the turns that are timed nothing is
computed there, so what is left is the host's: checking, routing, decoding, banks, the guard. As on
a GPU the pool of the last images answers before they are sorted, and another thread searches for a
second domain (not for images one by one). With `--waits` what a pass returns comes as late as from
an H200 with ResNeXt-29. Another checkout is measured with its `src` in front:

    OMP_NUM_THREADS=1 PYTHONPATH=OTHER/src python tools/speed/host.py --stream domains --size 64
"""

from __future__ import annotations

import argparse
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

import numpy as np
import torch
from torch import Tensor, nn

import multipool
from multipool.engine.graphs import Graphed

CLASSES, SIDE = 100, 32
WAITS = {  # seconds; others predict
    **{"describe_pass": 0.9e-3, "move_pass": 1.9e-3, "_settle": 0.0},
    **{"doubtful_pass": 0.1e-3, "joined_pass": 0.1e-3},
}
PREDICTS = 1.5e-3
Outputs = tuple[Tensor, ...]


class Small(nn.Module):
    """Five convolutions of 64 channels with batch norm: wide enough for 96 numbers an image."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 4, stride=4, bias=False)
        self.convolutions = nn.ModuleList(nn.Conv2d(64, 64, 1, bias=False) for _ in range(4))
        self.norms = nn.ModuleList(nn.BatchNorm2d(64) for _ in range(5))
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``(B, L)`` of images ``(B, 3, 32, 32)``."""
        x = torch.relu(self.norms[0](self.stem(x)))
        for convolution, norm in zip(self.convolutions, self.norms[1:], strict=True):
            x = torch.relu(norm(convolution(x)))
        return self.head(x.mean(dim=(2, 3)))


def small_model(generator: torch.Generator) -> nn.Module:
    """Return the network with random weights, sharp logits and the statistics of noise."""
    torch.manual_seed(0)
    model = Small()
    with torch.no_grad():
        model.head.weight.mul_(20)
        for _ in range(10):
            model.train()(torch.rand(64, 3, SIDE, SIDE, generator=generator))
    return model.eval()


def batches(kind: str, size: int, count: int, generator: torch.Generator) -> list[Tensor]:
    """Return uint8 batches: three domains in turn, 3,200 images each, or a colour for each image.

    Of ``domains`` the classes come in random order, of ``runs`` they last 20 images.
    """
    prototypes = torch.rand(CLASSES, 3, SIDE, SIDE, generator=generator)
    gains = 0.3 + torch.rand(3, 1, 3, 1, 1, generator=generator)
    shifts = torch.rand(3, 1, 3, 1, 1, generator=generator) - 0.5
    found, label = [], 0
    for t in range(count):
        if kind == "colours":
            colour = torch.randint(0, 156, (size, 3, 1, 1), generator=generator)
            grain = torch.randint(0, 100, (size, 3, SIDE, SIDE), generator=generator)
            found.append((colour + grain).to(torch.uint8))
            continue
        labels = torch.randint(0, CLASSES, (size,), generator=generator)
        if kind == "runs":
            for i, ends in enumerate((torch.rand(size, generator=generator) < 0.05).tolist()):
                label = int(labels[i]) if ends else label
                labels[i] = label
        domain = t * size // 3200 % 3
        noise = 0.2 * torch.randn(size, 3, SIDE, SIDE, generator=generator)
        images = (prototypes[labels] + noise) * gains[domain] + shifts[domain]
        found.append((images.clamp(0, 1) * 255).round().to(torch.uint8))
    return found


class Tape:
    """Stands in for every pass: records what it returns, or plays that back."""

    def __init__(self, waits: bool = False) -> None:
        self.kept: list[Outputs] = []
        self.place = -1  # of the next one that is played back; -1: recording
        self.busy = 0.0  # when the last pass is over
        self._run, self._waits = Graphed.__call__, waits

    def __call__(self, graphed: Graphed, *inputs: Tensor) -> Outputs:
        """Return what a pass returns, or once did."""
        if self.place >= 0:
            self.place += 1
            if self._waits and (function := graphed._method()) is not None:
                takes = WAITS.get(function.__name__, PREDICTS)
                self.busy = max(self.busy, time.perf_counter()) + takes
            return self.kept[self.place - 1]
        outputs = self._run(graphed, *inputs)
        self.kept.append(tuple(output.detach().clone() for output in outputs))
        return outputs

    def over(self, moment: float) -> None:
        """Wait until a moment."""
        time.sleep(max(0.0, moment - time.perf_counter()))

    def arriving(self, values: Tensor) -> Late:
        """Stand in for a copy to the host: it comes when the passes so far are over."""
        return Late(values.detach(), self.busy, self)


@dataclass(frozen=True)
class Late:
    """Values that are not there before a moment."""

    values: Tensor
    moment: float
    tape: Tape

    def wait(self) -> Tensor:
        """Return the values, once they are there."""
        self.tape.over(self.moment)
        return self.values


def waiting() -> list[ModuleType]:
    """Return the modules that wait for copies to the host; older code has fewer."""
    found = []
    for name in ("method", "answers", "answering", "one_pool", "second_look"):
        with suppress(ImportError):
            found.append(import_module(f"multipool.methods.multipool.{name}"))
    return [module for module in found if hasattr(module, "Arriving")]


def turn(model: nn.Module, given: list[Tensor], tape: Tape) -> np.ndarray:
    """Return milliseconds of every batch ``(N, 2)``: by the clock, and the thread's own."""
    adapter = multipool.adapt(model, "multipool", num_classes=CLASSES, seed=1)
    adapter.method.beside_host = len(given[0]) > 1
    taken = []
    for images in given:
        start = time.perf_counter(), time.thread_time()
        adapter(images)
        tape.over(tape.busy)
        taken.append((time.perf_counter() - start[0], time.thread_time() - start[1]))
    return 1000 * np.array(taken)


def main() -> None:
    """Measure, and print one line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stream", choices=("domains", "colours", "runs"), default="domains")
    parser.add_argument("--size", type=int, default=64, help="images a batch")
    parser.add_argument("--batches", type=int, default=200, help="the last fifth is timed")
    parser.add_argument("--turns", type=int, default=4, help="of each batch the least counts")
    parser.add_argument("--waits", action="store_true", help="as long as a GPU's passes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    model = small_model(generator)
    given = batches(options.stream, options.size, options.batches, generator)
    tape = Tape(options.waits)
    for module in waiting():
        module.Arriving = tape.arriving  # type: ignore[attr-defined]
    Graphed.__call__ = lambda graphed, *inputs: tape(graphed, *inputs)  # type: ignore[method-assign]
    turn(model, given, tape)
    found = []
    for _ in range(options.turns):
        tape.place = 0
        found.append(turn(model, given, tape))
    least = np.min(found, axis=0)[-(len(given) // 5) :]
    clock, own = (f"{np.median(part):.2f} {part.mean():.2f}" for part in least.T)
    print(f"{options.stream} {options.size}: ms a batch, median mean: {clock}, processor: {own}")


if __name__ == "__main__":
    main()
