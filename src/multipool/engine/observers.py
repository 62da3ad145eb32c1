"""What is counted, who wants to hear of updates, and what there is to tell them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from multipool.core import brief
from multipool.engine.guard import Guard
from multipool.engine.state import State

Facts = dict[str, Any]


class Observers:
    """Counts, collects the facts of a step, and tells them once it is over."""

    def __init__(self, state: State, guard: Guard | None, *, masking: bool) -> None:
        self._state, self._guard = state, guard
        self.masked = 0 if masking else None  # images so far
        self._listeners: list[Callable[[Facts], None]] = []
        self._news: list[Facts] = []

    def counts(self) -> dict[str, int]:
        """Return how many updates were made and undone, and how often it was restored."""
        recovery = self._state.recovery
        found = {
            "updates": self._state.numbers["updates"],
            "skipped": 0 if self._guard is None else self._guard.skipped(),
            "restored": 0 if recovery is None else recovery.restored,
        }
        return found if self.masked is None else {**found, "masked": self.masked}

    def add(self, listener: Callable[[Facts], None]) -> Callable[[], None]:
        """Tell ``listener`` from now on; return a function that ends it, however often called."""
        if not callable(listener):
            raise ValueError(f"observe takes a function of the facts, got {brief(listener)}")
        self._listeners.append(listener)
        once = [listener]
        return lambda: self._listeners.remove(once.pop()) if once else None

    def note(self, loss: Tensor | None, event: str | None = None) -> None:
        """Put down the facts of this moment, if there is anybody to tell."""
        if not self._listeners:
            return
        memory = self._state.memory
        facts: Facts = {"seen": self._state.numbers["seen"], **self.counts()}
        facts["loss"] = None if loss is None else float(loss)
        facts["memory"] = None if memory is None else len(memory)
        facts |= dict(getattr(memory, "events", {}))
        clusters = getattr(memory, "clusters", None)
        if clusters is not None:
            facts["sizes"] = [int(s) for s in clusters.sizes]
        facts |= self._state.facts()
        if event is not None:
            facts["event"] = event
        self._news.append(facts)

    def note_masked(self, images: int) -> None:
        """Count masked images and put that down."""
        self.masked = (self.masked or 0) + images
        self.note(None, "masked")

    def deliver(self) -> None:
        """Tell the listeners, after the step: what they do wrong is not the update's failure."""
        news, self._news = self._news, []
        for facts in news:
            for listener in list(self._listeners):
                listener(facts)
