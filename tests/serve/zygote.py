"""A process that has imported everything and forks a service whenever it is asked to.

To import torch takes seconds; tests that kill a service fifty times should not wait for that.
It reads lines of JSON: ``{"log": FILE, "args": [...]}`` starts ``multipool ARGS`` and answers its
process number, ``{"wait": PID}`` answers its exit status once it has ended.
"""

from __future__ import annotations

import json
import os
import sys

import multipool.cli.serve  # noqa: F401  (what the children need is here already)
from multipool.cli.main import main


def serve(log: str, args: list[str]) -> None:
    """Be the service from now on."""
    file = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.dup2(file, 1)
    os.dup2(file, 2)
    main(args)


def answer(request: dict) -> int:
    """Start a service or wait for one."""
    if "wait" in request:
        return os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
    number = os.fork()
    if number == 0:
        serve(request["log"], request["args"])
    return number


if __name__ == "__main__":
    for line in sys.stdin:
        print(answer(json.loads(line)), flush=True)
