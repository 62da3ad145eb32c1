"""All methods by name. Reading this tells you all there is."""

from __future__ import annotations

from multipool.engine import Method
from multipool.methods.bn import BN
from multipool.methods.cotta import CoTTA
from multipool.methods.eata import EATA
from multipool.methods.lame import LAME
from multipool.methods.mecta import MECTA
from multipool.methods.multipool import MultiPool
from multipool.methods.neo import NEO
from multipool.methods.note import NOTE
from multipool.methods.petta import PeTTA
from multipool.methods.pl import PL
from multipool.methods.rdumb import RDumb
from multipool.methods.resitta import ResiTTA
from multipool.methods.rmt import RMT
from multipool.methods.roid import ROID
from multipool.methods.rotta import RoTTA
from multipool.methods.source import Source
from multipool.methods.tent import TENT
from multipool.methods.tribe import TRIBE
from multipool.methods.unmix_tns import UnMixTNS

METHODS: dict[str, type[Method]] = {
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
}


def available() -> list[str]:
    """Return the names of all methods."""
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
