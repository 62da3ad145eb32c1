"""The device that a user names."""

from __future__ import annotations

import torch


def resolve(device: str) -> torch.device:
    """Return the device meant by a name; "auto" is the GPU where there is one.

    >>> resolve("cpu")
    device(type='cpu')
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError:
        raise ValueError(
            f"unknown device {device!r}; choose one of: auto, cpu, cuda, cuda:N"
        ) from None
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {device} was asked for, but torch finds no GPU; use cpu")
    return found
