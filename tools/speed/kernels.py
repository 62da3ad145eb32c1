"""Where a GPU's time goes: kernels of a method's warm batches by kind, from torch's profiler.

The stream is that of `multipool bench methods --look 50`: warmed up over 78 batches of 64 in two
lights, then 20 of the second are timed, and the same 20 profiled. It draws the stream by itself, so
that older checkouts can be measured, with their `src` in front:

    PYTHONPATH=OTHER/src python tools/speed/kernels.py WEIGHTS --methods rotta,petta --json FILE
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from multipool import methods, models

WARM, TIMED, SIZE, LOOK = 78, 20, 64, 50
OURS = {  # whole names of our own kernels
    "fused normalisation": ("normalise", "sum_parts", "move", "settle"),
    "fused normalisation, backward": ("backward_sums", "backward_x", "finish"),
    "view": ("colours", "warp"),
}
# Parts of other kernels' names, the first that fits; what fits nowhere is elementwise.
OTHERS = {
    "convolutions": ("conv", "gemm", "xmma", "cutlass", "cudnn", "sm80", "sm90", "dgrad", "wgrad"),
    "copies": ("memcpy", "memset", "copy"),
    "reductions": ("reduce", "softmax", "welford", "batch_norm"),
}


def stream(seed: int, device: str) -> list[Tensor]:
    """Return batches ``(64, 3, 32, 32)`` of grain, every 50 of them in a light of their own."""
    draws = torch.Generator().manual_seed(seed)
    grain = torch.randint(0, 100, (1000, 3, 32, 32), generator=draws)
    images = (torch.randint(0, 16, (1000, 3, 1, 1), generator=draws) + grain).to(device) / 255
    found = []
    for index in range(WARM + TIMED):
        if index % LOOK == 0:
            light = 0.5 * torch.rand(3, 1, 1, generator=draws)
        rows = torch.randint(1000, (SIZE,), generator=draws)
        shown = 0.5 * images[rows.to(device)] + light.to(device)
        found.append((255 * shown).round().to(torch.uint8))
    return found


def kind_of(name: str) -> str:
    """Return what a kernel does, by its name.

    >>> kind_of("normalise"), kind_of("sm90_xmma_fprop"), kind_of("softmax_warp_forward")
    ('fused normalisation', 'convolutions', 'reductions')
    """
    small = name.lower()
    found = [kind for kind, names in OURS.items() if small in names]
    found += [kind for kind, words in OTHERS.items() if any(word in small for word in words)]
    return [*found, "elementwise"][0]


def timed(adapter: object, batches: list[Tensor]) -> float:
    """Return the milliseconds of the median batch, the device waited for."""
    took = []
    for batch in batches:
        torch.cuda.synchronize()
        began = time.perf_counter()
        adapter(batch)  # type: ignore[operator]
        torch.cuda.synchronize()
        took.append(1000 * (time.perf_counter() - began))
    return statistics.median(took)


def kernels(adapter: object, batches: list[Tensor]) -> dict[str, tuple[float, int]]:
    """Return milliseconds and launches of a batch by kind, means over the batches."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for batch in batches:
            adapter(batch)  # type: ignore[operator]
        torch.cuda.synchronize()
    found: dict[str, list[float]] = defaultdict(list)
    for event in seen.events():
        if event.device_type == DeviceType.CUDA:
            found[kind_of(event.name)].append(event.time_range.elapsed_us() / 1000)
    count = len(batches)
    return {kind: (sum(took) / count, round(len(took) / count)) for kind, took in found.items()}


def main() -> None:
    """Print a table for each method; with ``--json`` also append it to a file, a line a method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights")
    parser.add_argument("--methods", default="source,multipool,rotta,petta,resitta")
    parser.add_argument("--label", default="")
    parser.add_argument("--precision", default=None, help="left out: the checkout's default")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    device = "cuda"
    model, batches = models.load(given.weights).to(device), stream(0, device)
    how = {} if given.precision is None else {"precision": given.precision}
    for name in given.methods.split(","):
        labelled = [(batches[0].cpu(), torch.zeros(SIZE, dtype=torch.long))]
        adapter = methods.adapt(model, name, source=labelled, **how)
        for batch in batches[:WARM]:
            adapter(batch)
        took, by_kind = timed(adapter, batches[WARM:]), kernels(adapter, batches[WARM:])
        total = sum(spent for spent, _ in by_kind.values())
        launches = sum(many for _, many in by_kind.values())
        print(f"{given.label} {name}: {took:.2f} ms a batch, kernels {total:.2f} ms in {launches}")
        for kind, (spent, many) in sorted(by_kind.items(), key=lambda item: -item[1][0]):
            print(f"  {spent:7.2f} ms {many:5d}  {kind}")
        if given.json is not None:
            row = {"label": given.label, "method": name, "ms": took, "kernels": by_kind}
            with given.json.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
