"""An adapter in words, for ``repr``."""

from __future__ import annotations

from multipool.engine.method import Method
from multipool.engine.setup import Setup
from multipool.memory import Memory


def describe(method: Method, setup: Setup, memory: Memory | None) -> str:
    """Name method, bank and how full that is, pools, precision, decoder, guard and device."""
    words = [f"method='{method.name}'", f"num_classes={setup.num_classes}"]
    if memory is not None:
        name = setup.memory or method.prefers or method.takes_memory
        clusters = getattr(memory, "clusters", None)
        parts = "" if clusters is None else f" in {len(clusters.sizes)} pools"
        kind = type(memory).__name__
        words.append(f"memory='{name}' ({kind} of {memory.capacity}: {len(memory)}{parts})")
    pools = method.facts().get("pools")
    if pools is not None:
        words.append(f"pools={pools}")
    precision = method.network.precision
    if precision != "float32":
        words.append(f"precision='{precision}'")
    if setup.decode != "none":
        words.append(f"decode='{setup.decode}'")
    return ", ".join([*words, f"guard={setup.guard}", f"device='{method.device}'"])
