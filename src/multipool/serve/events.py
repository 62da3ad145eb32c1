"""What happened to streams: the last events in memory, every event as one line of JSON."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass

KEPT = 500

log = logging.getLogger("multipool.serve")


@dataclass(frozen=True)
class StreamEvent:
    """One thing that happened; ``stream`` is empty where it concerns the service as a whole."""

    kind: str  # started, loaded, evicted, damaged, unsaved, reset, pool-created, restored, ...
    stream: str = ""
    detail: str = ""
    level: str = "info"
    time: float = 0.0  # seconds since 1970
    number: int = 0  # of the event, since the service began


class Events:
    """Keeps the last events and logs them all."""

    def __init__(self, kept: int = KEPT) -> None:
        self._last: deque[StreamEvent] = deque(maxlen=kept)
        self.counts: Counter[str] = Counter()
        self._number = 0
        self._lock = threading.Lock()  # lanes tell of the streams they open

    def add(self, kind: str, stream: str = "", detail: str = "", level: str = "info") -> None:
        """Put an event down."""
        with self._lock:
            self._number += 1
            event = StreamEvent(kind, stream, detail, level, time.time(), self._number)
            self._last.append(event)
            self.counts[kind] += 1
        log.log(logging.getLevelName(level.upper()), kind, extra={"fields": asdict(event)})

    def last(self, count: int = KEPT, stream: str | None = None) -> list[StreamEvent]:
        """Return the last ``count`` events, the newest first; of one stream, if one is named."""
        with self._lock:
            kept = list(self._last)
        found = [e for e in reversed(kept) if stream is None or e.stream == stream]
        return found[:count]


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, logger, message and the fields that came with the record."""
        line = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = getattr(record, "fields", {})
        line |= {k: v for k, v in fields.items() if v not in ("", None) and k not in line}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)
