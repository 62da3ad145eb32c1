"""Kill ``multipool run`` again and again, resume it each time, and compare what it measured.

``python kills.py FOLDER KILLS SEED LIMIT`` prints one line of JSON. Each run is a process of its
own, forked after the imports so that fifty of them do not take an hour, and killed by SIGKILL at a
seeded moment: while it loads, or after a number of checkpoints and a little more.
"""

import contextlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from multipool.bench.run import checkpoint
from multipool.bench.run.result import VARYING
from multipool.cli.main import main
from multipool.data.shapes_c import drawn

FILE = checkpoint.FILE


def arguments(out: Path, limit: int) -> list[str]:
    return [
        "run", "--dataset", "shapes-c", "--domains", "fog,contrast", "--method", "rotta",
        "--memory", "mcm", "--limit", str(limit), "--batch-size", "8", "--device", "cpu",
        "--set", "update-every=16", "--checkpoint-every", "1", "--quiet", "--resume",
        "--out", str(out),
    ]  # fmt: skip


def start(out: Path, limit: int) -> int:
    """Return the number of a process that runs the command."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
                main(arguments(out, limit))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        finally:
            os._exit(code)
    return child


def finish(child: int) -> None:
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"the run ended with {status}"


def kill(child: int, out: Path, draw: random.Random) -> str:
    """Kill the process at a drawn moment; return "killed", or "finished" if it was faster."""
    written, seen, wanted = _inode(out), 0, draw.choice((0, 1, 1, 2, 3))
    due = time.perf_counter() + draw.uniform(0, 0.6) if wanted == 0 else None
    while True:
        if os.waitpid(child, os.WNOHANG)[0]:
            return "finished"
        if due is None and _inode(out) != written:
            written, seen = _inode(out), seen + 1
            if seen == wanted:  # a batch and a checkpoint take some 50 ms
                due = time.perf_counter() + draw.uniform(0, 0.15)
        if due is not None and time.perf_counter() >= due:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "killed"


def _inode(out: Path) -> int:
    try:
        return (out / FILE).stat().st_ino
    except FileNotFoundError:
        return 0


def measured(out: Path) -> dict[str, object]:
    content = json.loads((out / "result.json").read_text())
    return {key: value for key, value in content.items() if key not in VARYING}


def chain(out: Path, kills: int, limit: int, draw: random.Random) -> tuple[int, list[int]]:
    """Kill and resume until the run is done; return how often, and the batches kept each time."""
    done, kept = 0, []
    settings = None
    while done < kills:
        child = start(out, limit)
        if kill(child, out, draw) == "finished":
            break
        done += 1
        if (out / FILE).exists():  # whole, whenever the writer was killed
            content = checkpoint.read_tensors(out / FILE)[1]
            settings = settings or content["settings"]
            assert content["settings"] == settings
            assert checkpoint.read(out, json.loads(settings)) is not None
            kept.append(int(content["batches"]))
    else:
        finish(start(out, limit))
    assert kept == sorted(kept), f"a checkpoint went back: {kept}"
    return done, kept


def experiment(folder: Path, kills: int, seed: int, limit: int) -> dict[str, object]:
    draw = random.Random(seed)
    drawn("test")  # once for all processes
    finish(start(folder / "whole", limit))
    whole, total, chains, depths = measured(folder / "whole"), 0, 0, []
    while total < kills:
        out = folder / f"chain-{chains}"
        done, kept = chain(out, kills - total, limit, draw)
        total, chains, depths = total + done, chains + 1, depths + kept
        assert measured(out) == whole, f"{out} measured something else"
        left = sorted(path.name for path in out.iterdir())
        assert left == ["result.json"], f"{out} holds {left}"
    return {
        "kills": total, "runs": chains, "samples": whole["samples"], "error": whole["error"],
        "killed at": sorted(set(depths)),
    }  # fmt: skip


if __name__ == "__main__":
    place, kills, seed, limit = sys.argv[1:]
    print(json.dumps(experiment(Path(place), int(kills), int(seed), int(limit))))
