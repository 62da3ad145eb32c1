"""A long stream through one method: memory use, speed, pools, predictions.

``python soak.py METHOD MEMORY ROUNDS LIMIT`` prints a line of JSON; 20 and 5010: 100,200 samples.
"""

import ctypes
import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

from multipool.bench.run.experiment import Experiment
from multipool.bench.run.loader import Loader
from multipool.bench.run.session import Session

# Share of the stream: caches and banks fill, the allocator settles, all of the data is read. Banks
# take memory as images come: those of 11 pools are full after some 40,000 of 100,000 samples.
WARM_UP = 0.5


def resident() -> float:
    """Return the memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def settled() -> float:
    """Return the memory after the C library has given back what it keeps for later, in MB.

    It keeps hundreds of MB in pieces, and how many is no news of what the process needs.
    """
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return resident()


def soak(method: str, memory_name: str, rounds: int, limit: int) -> dict[str, object]:
    """Show the stream to the method and look at the process after every batch."""
    experiment = Experiment(
        method=method, memory=memory_name, protocol="recurring", rounds=rounds, limit=limit,
        guard=True, device="cpu",
    )  # fmt: skip
    session = Session(experiment, Loader(), torch.device("cpu"))
    seen, rows, bad, pools = 0, [], 0, []
    start, busy = time.perf_counter(), time.process_time()
    memory = settled()
    for number, images in enumerate(session.remaining()):
        logits = session.adapter(images)
        bad += len(images) - int(logits.isfinite().all(dim=1).sum())
        assert logits.shape == (len(images), 100)
        session.tally.add(logits)
        seen += len(images)
        memory = settled() if number % 16 == 0 else memory
        pools.append(len(session.adapter.pools))
        rows.append((seen, memory, time.perf_counter() - start, time.process_time() - busy))
    return {
        "samples": seen, "expected": session.stream.samples, "without prediction": bad,
        **figures(np.array(rows)),
        "error": round(session.tally.error() or 0.0, 2), "counts": dict(session.adapter.counts),
        "bank": len(session.adapter.memory or ()), "pools at most": max(pools),
        "pools after a tenth": pools[len(pools) // 10], "pools at the end": pools[-1],
    }  # fmt: skip


def figures(rows: np.ndarray) -> dict[str, float]:
    """Return the slope of the memory after the warm-up, and the speed at both ends."""
    seen, memory, wall, busy = rows.T
    late = rows[seen > WARM_UP * seen[-1]]
    slope = float(np.polyfit(late[:, 0], late[:, 1], 1)[0]) * 10_000

    def speed(clock: np.ndarray, first: float, last: float) -> float:
        a, b = (int(np.searchsorted(seen, seen[-1] * share)) for share in (first, last))
        b = min(b, len(seen) - 1)
        return round(float((seen[b] - seen[a]) / (clock[b] - clock[a])), 1)

    return {
        "MB per 10,000 samples": round(slope, 4),
        "MB after warm-up": round(float(late[0, 1]), 1),
        "MB at the end": round(float(memory[-1]), 1),
        "samples/s, first fifth": speed(wall, 0, 0.2),
        "samples/s, last fifth": speed(wall, 0.8, 1),
        "samples/s of CPU, first fifth": speed(busy, 0, 0.2),
        "samples/s of CPU, last fifth": speed(busy, 0.8, 1),
    }


if __name__ == "__main__":
    print(json.dumps(soak(*sys.argv[1:3], *map(int, sys.argv[3:]))))
