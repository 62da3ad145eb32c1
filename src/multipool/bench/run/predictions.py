"""What a run answered for every image, as a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from multipool.core import replacing
from multipool.data import Stream

COLUMNS = ("path", "domain", "class", "probability", "decoded class")
_PARTS = ("label", "probability", "decoded")


class Predictions:
    """The answers to a stream, in its order; on their device until somebody asks."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._kept: dict[str, list[Tensor]] = {part: [] for part in _PARTS}

    def add(self, logits: Tensor, decoded: Tensor | None) -> None:
        """Keep the answers to the next batch: ``(B, L)`` logits, and what a decoder made of them.

        ``probability`` is the softmax of the logits for their own class, before any decoder.
        """
        probability, label = logits.detach().float().softmax(dim=1).max(dim=1)
        later = torch.full_like(label, -1) if decoded is None else decoded.detach().argmax(dim=1)
        for part, values in zip(_PARTS, (label, probability, later), strict=True):
            self._kept[part].append(values)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the answers so far, each a flat tensor."""
        return {
            part: torch.cat(values) if values else torch.empty(0)
            for part, values in self._kept.items()
        }

    def load_state_dict(self, state: Mapping[str, Tensor], seen: int) -> None:
        """Continue from the answers to the first ``seen`` images of the same stream."""
        if any(part not in state or len(state[part]) != seen for part in _PARTS):
            raise ValueError(
                "the run to continue was begun without --predictions; leave it out, or start again"
            )
        self._kept = {part: [state[part]] if seen else [] for part in _PARTS}

    def write(self, path: str | Path) -> None:
        """Write one line an image: its file, domain, class, probability and decoded class."""
        kept = {part: values.tolist() for part, values in self.state_dict().items()}
        dataset = self.stream.dataset
        file_of = getattr(dataset, "path_of", None) or (lambda domain, row: f"{domain}/{row}")
        with (
            replacing(path) as part,
            part.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
        ):
            rows = csv.writer(file)
            rows.writerow(COLUMNS)
            places = zip(self.stream.domain_ids.tolist(), self.stream.rows.tolist(), strict=True)
            answers = zip(*(kept[name] for name in _PARTS), strict=True)
            for (domain_id, row), (label, probability, decoded) in zip(
                places, answers, strict=False
            ):
                domain = self.stream.domains[domain_id]
                names = (self._name(int(label)), self._name(int(decoded)))
                rows.writerow(
                    [file_of(domain, row), domain, names[0], f"{probability:.4f}", names[1]]
                )

    def _name(self, label: int) -> str:
        """Return a class's name, or its number where it has none; nothing where none was given."""
        names = self.stream.dataset.classes
        if label < 0:
            return ""
        return str(label) if names is None else names[label]
