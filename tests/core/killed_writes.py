"""Kill writers at every byte and between all steps; ``python killed_writes.py FOLDER`` counts.

The system itself kills at a byte: a process whose limit on the size of files is n dies of SIGXFSZ
as soon as it writes more. Processes are forked, so that a thousand of them take a moment.
"""

import json
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

from multipool.core import discard_parts, read_json, read_tensors, write_json, write_tensors

OLD, NEW = {"value": 1, "rest": list(range(20))}, {"value": 2, "rest": list(range(40))}


def write_old_or_new(path: Path, content: dict[str, object]) -> None:
    if path.suffix == ".json":
        write_json(path, content)
    else:
        write_tensors(path, {"rest": torch.tensor(content["rest"])}, {"v": str(content["value"])})


def read_value(path: Path) -> int:
    if path.suffix == ".json":
        content = read_json(path)
        assert content in (OLD, NEW)
        return content["value"]
    tensors, metadata = read_tensors(path)
    content = OLD if metadata["v"] == "1" else NEW
    assert tensors["rest"].tolist() == content["rest"]
    return content["value"]


def dies(path: Path, prepare: Callable[[], None]) -> bool:
    """Write the new content in a process that is prepared to be killed; return whether it was."""
    child = os.fork()
    if child == 0:
        prepare()
        write_old_or_new(path, NEW)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) < 0


def at_byte(size: int) -> Callable[[], None]:
    def prepare() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return prepare


def at_step(owner: object, name: str, after: bool) -> Callable[[], None]:
    def prepare() -> None:
        real = getattr(owner, name)

        def deadly(*given: object, **named: object) -> object:
            result = real(*given, **named) if after else None
            os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(owner, name, deadly)

    return prepare


def attempt(path: Path, prepare: Callable[[], None], found: Counter[str]) -> None:
    """Kill one writer, and look at what it left."""
    write_old_or_new(path, OLD)
    killed = dies(path, prepare)
    value = read_value(path)
    assert killed or value == 2, "a writer ended well without writing"
    found["killed, the old file" if value == 1 else "killed, the new file"] += killed
    discard_parts(path)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def run(folder: Path) -> dict[str, int]:
    found: Counter[str] = Counter()
    for name in ("a.json", "a.safetensors"):
        path = folder / name.partition(".")[2] / name
        write_old_or_new(path, NEW)
        for size in range(path.stat().st_size):
            attempt(path, at_byte(size), found)
        steps = (os, "fsync"), (os, "close"), (Path, "chmod"), (Path, "replace"), (Path, "unlink")
        for owner, step in steps:
            for after in (False, True):
                attempt(path, at_step(owner, step, after), found)
    return dict(found)


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]))))
