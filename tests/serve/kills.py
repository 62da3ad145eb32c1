"""A service that is killed again and again under load, and what it forgets.

    python tests/serve/kills.py --kills 50 --save-every 2

After each kill the service starts again and every stream says where it goes on: at its last save.
Its answers must be those of an adapter that has seen exactly the requests up to that save, and
then those after it, bit for bit. What was answered after the last save is all that it may forget.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

if __package__:
    from .process import Process
else:
    from process import Process

import multipool
from multipool import models
from multipool.bench.speed.camera import MODEL, Camera, Scenes

IMAGES = 2
_MARKED = 32  # steps after which a comparison notes where it is


@dataclass
class Stream:
    """What a client has seen of one stream."""

    number: int
    learned: list[int] = field(default_factory=list)  # steps whose images it now remembers
    times: list[float] = field(default_factory=list)  # when each of them was answered
    answers: dict[int, tuple[list[int], np.ndarray]] = field(default_factory=dict)
    step: int = 0


@dataclass
class Outcome:
    """What came of it."""

    kills: int = 0
    answers: int = 0
    wrong: int = 0
    forgotten: list[int] = field(default_factory=list)  # answered batches, a stream and kill
    oldest: list[float] = field(default_factory=list)  # seconds before the kill, of what was lost


async def _camera(
    stream: Stream, process: Process, scenes: Scenes, log: list[float], out: Outcome
) -> None:
    """Ask until the service dies."""
    camera = Camera(process.port, f"camera-{stream.number}")
    first = True
    try:
        while True:
            images = scenes.request(stream.number, stream.step, IMAGES)
            logits, told = await camera.ask(images)
            remembered = told["batch"] - 1  # batches before this one
            if remembered < len(stream.learned):  # it was killed, and goes on from its last save
                lost = stream.learned[remembered:]
                out.forgotten.append(len(lost))
                # Lost at the first kill after it was answered, not at the last one.
                answered = stream.times[remembered]
                out.oldest.append(min(kill for kill in log if kill >= answered) - answered)
                del stream.learned[remembered:]
                del stream.times[remembered:]
            if first and remembered == len(stream.learned) + 1:
                # Learned and saved, and killed before it was answered: now it comes again.
                stream.learned.append(stream.step)
                stream.times.append(time.monotonic())
            if remembered != len(stream.learned):
                out.wrong += 1
            first = False
            stream.answers[stream.step] = (list(stream.learned), logits.copy())
            stream.learned.append(stream.step)
            stream.times.append(time.monotonic())
            stream.step += 1
            out.answers += 1
    except (OSError, asyncio.IncompleteReadError):
        return
    finally:
        camera.close()


def kill_often(
    folder: Path, kills: int, streams: int = 4, save_every: float = 2.0, seed: int = 0
) -> Outcome:
    """Kill a service under load ``kills`` times; compare every answer with an adapter's alone."""
    scenes, out, chance = Scenes(100), Outcome(), random.Random(seed)
    known = [Stream(n) for n in range(streams)]
    process = Process(folder / "state", "--save-every", str(save_every), "--resident", "3")
    log: list[float] = []

    async def run_until_killed(seconds: float) -> None:
        before = out.answers
        cameras = [asyncio.create_task(_camera(s, process, scenes, log, out)) for s in known]
        await asyncio.sleep(seconds)
        while out.answers < before + 2 * len(known):  # a busy machine: let it get somewhere
            await asyncio.sleep(0.02)
        process.kill()
        log.append(time.monotonic())
        await asyncio.gather(*cameras)

    for _ in range(kills):
        process.start()
        asyncio.run(run_until_killed(chance.uniform(0.3, 2 * save_every)))
        out.kills += 1
    process.start()
    asyncio.run(_last_words(known, process, scenes, log, out))
    if process.stop() != 0 or process.events("damaged"):
        out.wrong += 1
    out.wrong += sum(_compare(stream, scenes) for stream in known)
    return out


async def _last_words(
    known: list[Stream], process: Process, scenes: Scenes, log: list[float], out: Outcome
) -> None:
    """Let every stream answer for a moment after the last kill, too."""
    tasks = [asyncio.create_task(_camera(s, process, scenes, log, out)) for s in known]
    before = out.answers
    while out.answers < before + 3 * len(known):
        await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _compare(stream: Stream, scenes: Scenes) -> int:
    """Return how many answers are not those of an adapter that remembers the same."""
    torch.set_num_threads(1)
    adapter, wrong = multipool.adapt(multipool.share(models.load(MODEL))), 0
    shown: list[int] = []
    marks = [(shown, adapter.state_dict())]  # what it had been shown, and what it then was
    for step, (learned, logits) in sorted(stream.answers.items()):
        if shown != learned:  # a kill lies between: go back, and show what it remembers
            marks = [mark for mark in marks if learned[: len(mark[0])] == mark[0]]
            adapter.load_state_dict(marks[-1][1])
            shown = marks[-1][0]
        for number in [*learned[len(shown) :], step]:
            images = torch.from_numpy(scenes.request(stream.number, number, IMAGES))
            answered, shown = adapter(images).numpy(), [*shown, number]
            if len(shown) % _MARKED == 0:
                marks.append((shown, adapter.state_dict()))
        wrong += not np.array_equal(answered, logits)
    return wrong


def main() -> None:
    """Kill a service again and again; print what it forgot, as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--save-every", type=float, default=2.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = kill_often(Path(folder), given.kills, given.streams, given.save_every)
    lost = sum(out.forgotten)
    figures = {
        "kills": out.kills,
        "streams": given.streams,
        "save_every": given.save_every,
        "answers": out.answers,
        "wrong": out.wrong,
        "forgotten_batches": lost,
        "forgotten_at_a_kill_mean": round(lost / max(1, out.kills * given.streams), 2),
        "forgotten_at_a_kill_most": max(out.forgotten, default=0),
        "oldest_forgotten_seconds": round(max(out.oldest, default=0.0), 2),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
