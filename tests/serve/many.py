"""What a stream costs, and a thousand of them in one process.

    python tests/serve/many.py --streams 1000 --method multipool

Prints bytes of memory a stream (fresh, and after ``--images`` images) and of its file.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import tempfile
import time
from pathlib import Path

import psutil
import torch

import multipool
from multipool import models
from multipool.data.shapes import draw
from multipool.serve.make import AdapterMaker, Recipe
from multipool.serve.server import local_service
from multipool.serve.settings import Serving


def measure(
    method: str, streams: int, images: int, resident: int, folder: Path
) -> dict[str, float]:
    """Give every stream its images, twice around; return what that took."""
    return asyncio.run(_measure(method, streams, images, resident, folder))


async def _measure(
    method: str, streams: int, images: int, resident: int, folder: Path
) -> dict[str, float]:
    torch.set_num_threads(1)
    network = multipool.share(models.load("shapes-wrn10-1"))
    shown = draw("test", images, seed=1).images
    serving = Serving(state_dir=folder, resident=resident, save_every=3600.0)
    service = local_service(AdapterMaker(network, Recipe(method)), serving, threads=1)
    await service.start()
    try:
        await service.infer("warm-up", shown[:2])
        before, began = _resident_bytes(), time.monotonic()
        sizes = []
        for part in shown.chunk(2):
            for number in range(streams):
                await service.infer(f"camera-{number}", part)
            sizes.append(_resident_bytes() - before)
        seconds = time.monotonic() - began
    finally:
        await service.close()
    files = [path.stat().st_size for path in (folder / "streams").iterdir()]
    held = min(streams, resident)
    return {
        "streams": streams,
        "in_memory": held,
        "kib_of_memory_a_stream_half_way": round(sizes[0] / held / 1024, 1),
        "kib_of_memory_a_stream": round(sizes[-1] / held / 1024, 1),
        "kib_of_file_a_stream": round(sum(files) / len(files) / 1024, 1),
        "seconds": round(seconds, 1),
        "files": len(files) - 1,
    }


def _resident_bytes() -> int:
    gc.collect()
    return psutil.Process().memory_info().rss


def main() -> None:
    """Measure and print as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--resident", type=int, default=1000)
    parser.add_argument("--method", default="multipool")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(given.method, given.streams, given.images, given.resident, Path(folder))
    print(json.dumps({"method": given.method, **found}, indent=2))


if __name__ == "__main__":
    main()
