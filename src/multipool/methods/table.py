"""All methods by name. Reading this tells you all there is."""

from __future__ import annotations

from multipool.methods.adapter import Adapter
from multipool.methods.bn import BN
from multipool.methods.petta import PeTTA
from multipool.methods.resitta import ResiTTA
from multipool.methods.rotta import RoTTA
from multipool.methods.source import Source

METHODS: dict[str, type[Adapter]] = {
    "source": Source,
    "bn": BN,
    "rotta": RoTTA,
    "petta": PeTTA,
    "resitta": ResiTTA,
}


def available() -> list[str]:
    """Return the names of all methods."""
    return list(METHODS)
