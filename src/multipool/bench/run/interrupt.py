"""Let Ctrl-C end a loop between two batches, so that what was measured is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether somebody asked for the end."""

    def __init__(self) -> None:
        self.asked = False


@contextmanager
def listening() -> Iterator[Stop]:
    """Turn the first Ctrl-C into ``Stop.asked``; the second one interrupts at once.

    Only the main thread can listen for signals; elsewhere nothing is asked for.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.getsignal(signal.SIGINT) or signal.default_int_handler

    def ask(number: int, frame: FrameType | None) -> None:
        stop.asked = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
