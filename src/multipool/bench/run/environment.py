"""What a result was made with: versions of the software, and the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path

import torch

from multipool.memory.switch import available

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

PACKAGES = ("torch", "numpy", "scipy", "safetensors")


def versions() -> dict[str, str]:
    """Return the versions that could change a result, by package."""
    found = {"python": platform.python_version(), "multipool": _version("multipool")}
    found.update({name: _version(name) for name in PACKAGES})
    return found


def host(device: torch.device) -> dict[str, object]:
    """Return the machine and how much memory the process has taken at most, in MiB."""
    facts: dict[str, object] = {
        "system": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": str(device),
        "memory_decisions": "compiled" if available() else "numpy",
    }
    if resource is not None:
        facts["peak_memory_mib"] = round(_peak_bytes() / 2**20, 1)
    if device.type == "cuda":
        facts["gpu"] = torch.cuda.get_device_name(device)
        facts["gpu_peak_memory_mib"] = round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
    return facts


def machine(device: torch.device) -> dict[str, object]:
    """Return what decides how sums are rounded: processor, device and number of threads."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {"processor": _processor(), "device": gpu, "threads": torch.get_num_threads()}


def wait(device: torch.device) -> None:
    """Wait for what a GPU has been asked for, so that a clock tells the truth."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    """Return the processor's model where the system tells it, else its architecture."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, model = line.partition(":")
            if name.strip() == "model name":
                return model.strip()
    return platform.processor() or platform.machine()


def _peak_bytes() -> int:
    """Return the largest resident size of this process; Linux counts KiB, macOS bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
