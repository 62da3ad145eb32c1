"""What clients are told about the model that is served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from multipool.serve.protocol import INPUT
from multipool.serve.refusal import Refusal, shown
from multipool.serve.tensors import INPUT_TYPES


@dataclass(frozen=True)
class ModelCard:
    """The model's name, the size ``(C, H, W)`` of its images, and the names of its classes."""

    name: str
    size: tuple[int, int, int]
    classes: tuple[str, ...]
    method: str = "multipool"

    def check(self, name: str, version: str | None = None) -> None:
        """Refuse a model or version that is not served here."""
        if name != self.name or version not in (None, "", "1"):
            asked = name if version is None else f"{name}, version {version}"
            raise Refusal(
                404, f"this service has the model '{self.name}', version 1, got {shown(asked)}"
            )

    def metadata(self) -> dict[str, Any]:
        """Return the protocol's description of the model."""
        return {
            "name": self.name,
            "versions": ["1"],
            "platform": "multipool",
            "inputs": [{"name": INPUT, "datatype": "FP32", "shape": [-1, *self.size]}],
            "outputs": [
                {"name": "logits", "datatype": "FP32", "shape": [-1, len(self.classes)]},
                {"name": "labels", "datatype": "INT64", "shape": [-1]},
            ],
            "parameters": {"method": self.method, "input_datatypes": list(INPUT_TYPES)},
        }
