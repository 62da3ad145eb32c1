"""All methods by name. Reading this tells you all that the package brings."""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass

from multipool.core import Table, unknown
from multipool.engine import Method
from multipool.engine.method import NEEDS, STATISTICS
from multipool.methods.adacontrast import AdaContrast
from multipool.methods.bn import BN
from multipool.methods.cmf import CMF
from multipool.methods.cotta import CoTTA
from multipool.methods.deyo import DeYO
from multipool.methods.eata import EATA
from multipool.methods.ecotta import EcoTTA
from multipool.methods.lame import LAME
from multipool.methods.mecta import MECTA
from multipool.methods.membn import MemBN
from multipool.methods.multipool import MultiPool
from multipool.methods.neo import NEO
from multipool.methods.note import NOTE
from multipool.methods.petta import PeTTA
from multipool.methods.pl import PL
from multipool.methods.rdumb import RDumb
from multipool.methods.reservoir import Reservoir
from multipool.methods.resitta import ResiTTA
from multipool.methods.rmt import RMT
from multipool.methods.roid import ROID
from multipool.methods.rotta import RoTTA
from multipool.methods.sar import SAR
from multipool.methods.sotta import SoTTA
from multipool.methods.source import Source
from multipool.methods.tent import TENT
from multipool.methods.tribe import TRIBE
from multipool.methods.unmix_tns import UnMixTNS

BUILT_IN: dict[str, type[Method]] = {
    "multipool": MultiPool,
    "source": Source,
    "bn": BN,
    "pl": PL,
    "tent": TENT,
    "lame": LAME,
    "cotta": CoTTA,
    "note": NOTE,
    "rdumb": RDumb,
    "roid": ROID,
    "tribe": TRIBE,
    "neo": NEO,
    "eata": EATA,
    "rmt": RMT,
    "mecta": MECTA,
    "rotta": RoTTA,
    "petta": PeTTA,
    "resitta": ResiTTA,
    "unmix-tns": UnMixTNS,
    "sar": SAR,
    "deyo": DeYO,
    "cmf": CMF,
    "sotta": SoTTA,
    "reservoir": Reservoir,
    "adacontrast": AdaContrast,
    "ecotta": EcoTTA,
    "membn": MemBN,
}


def as_method(found: object) -> type[Method]:
    """Return ``found`` if it is a class that can be a method, else say what it lacks."""
    if not isinstance(found, type) or not issubclass(found, Method):
        raise ValueError(
            f"a method must be a class over multipool.engine.Method, got {_described(found)}"
        )
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing or inspect.isabstract(found):
        raise ValueError(f"method class {found.__name__} must define {', '.join(missing)}")
    if not isinstance(getattr(found, "name", None), str):
        raise ValueError(f"method class {found.__name__} must have a name, a class attribute")
    config = getattr(found, "Config", None)
    if not isinstance(config, type) or not is_dataclass(config):
        raise ValueError(
            f"method class {found.__name__} must have a Config, a frozen dataclass of its options"
        )
    for word, known in (("needs_norm", NEEDS), ("normalises_by", STATISTICS)):
        if getattr(found, word) not in known:
            raise unknown(f"{word} of method class {found.__name__}", getattr(found, word), known)
    return found


def _added(name: str, found: object) -> type[Method]:
    """Return a method that an entry point names; files find it again by that name."""
    kind = as_method(found)
    if kind.name != name:
        raise ValueError(f"its class calls itself '{kind.name}', not '{name}'; make both the same")
    return kind


def _described(found: object) -> str:
    return f"class {found.__name__}" if isinstance(found, type) else type(found).__name__


METHODS: Table[type[Method]] = Table("method", "multipool.methods", BUILT_IN, _added)


def available() -> list[str]:
    """Return the names of all methods, those of installed packages last."""
    return list(METHODS)


def usual_memory(method: str) -> str:
    """Return the memory that a method has unless told otherwise; "" where it has none.

    ``single`` is its own pool, also of a method that is not known here, as in older results.

    >>> usual_memory("rotta"), usual_memory("multipool"), usual_memory("bn")
    ('single', 'mcm+', '')
    """
    kind = METHODS.get(method)
    if kind is not None and kind.takes_memory is None:
        return ""
    return "single" if kind is None or kind.prefers is None else kind.prefers
