"""From a model and a few names to an adapter: the three lines that users write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from multipool.core import lookup
from multipool.memory import Memory, build
from multipool.methods.adapter import Adapter
from multipool.methods.saving import read_state
from multipool.methods.setup import Setup, configure
from multipool.methods.table import METHODS
from multipool.ops import Network


def adapt(
    model: nn.Module,
    method: str = "rotta",
    memory: str | Memory | None = None,
    num_classes: int | None = None,
    source: object | None = None,
    *,
    seed: int = 0,
    guard: bool = True,
    fallback: str = "snapshot",
    bad_input: str = "raise",
    options: Mapping[str, object] | None = None,
    memory_options: Mapping[str, object] | None = None,
    precision: str = "float32",
    compile: bool = False,  # noqa: A002  (the word users know from torch)
    reset_every: int | None = None,
) -> Adapter:
    """Wrap ``model`` so that it learns from the unlabelled images it predicts.

    Args:
        model: a classifier from float images ``(B, C, H, W)`` in [0, 1] to logits ``(B, L)``;
            it is copied, and normalises its input itself. It decides the device.
        method: a name from :func:`multipool.methods.available`.
        memory: ``"mcm"``, ``"mcm+"``, ``"single"`` (the method's own pool) or a bank; left out:
            the method's own pool. Only for methods that have a memory.
        num_classes: L; left out: the width of the model's last linear layer.
        source: source data or statistics, for the methods that need them.
        seed: of every random draw the adapter makes.
        guard: undo an update that fails or is not finite, and restore a good state when the
            predictions collapse; see ``docs/guard.md``.
        fallback: what a collapse goes back to: ``"snapshot"``, the last good state, or
            ``"source"``, the source model, which then also predicts wherever it is the surer one.
        bad_input: ``"raise"`` a ValueError for images with NaN or values outside [0, 1], or
            ``"mask"`` them: they get the source model's logits and are not learned from.
        options: hyperparameters of the method, by the names of its config.
        memory_options: options of the bank, where ``memory`` is a name.
        precision: ``"float32"`` or ``"bf16"`` (passes in bfloat16, statistics in float32).
        compile: run the passes through ``torch.compile``.
        reset_every: go back to the source model and an empty memory after every so many batches,
            as RDumb does; works around any method. Left out: never, or what the method says.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    kind = lookup(METHODS, method, "method")
    config = configure(kind.Config(), options or {}, f"method '{method}'")
    classes = num_classes if num_classes is not None else _classes_of(model)
    bank = _bank(kind, memory, classes, seed, memory_options or {})
    setup = Setup(
        num_classes=classes,
        seed=seed,
        memory=bank,
        source=source if kind.uses_source(config) else None,
        guard=guard,
        precision=precision,
        compile=compile,
        reset_every=reset_every,
        fallback=fallback,
        bad_input=bad_input,
    )
    with torch.inference_mode(mode=False):
        adapter = kind(model, config, setup)
    adapter.recipe = {
        "memory": memory if isinstance(memory, str) else ("bank" if memory is not None else None),
        "memory_options": dict(memory_options or {}),
    }
    return adapter


def load(
    path: str | Path,
    model: nn.Module,
    source: object | None = None,
    memory: Memory | None = None,
) -> Adapter:
    """Return the adapter saved at ``path``, to go on as if it had never stopped.

    Args:
        path: a file written by ``adapter.save``.
        model: the model it was made from; another one is refused.
        source: source data again, for methods that keep using it.
        memory: an empty bank like the saved one, where the adapter was made with a bank object.
    """
    state, recipe = read_state(path)
    own_bank = recipe["memory"] == "bank"
    if own_bank and memory is None:
        raise ValueError(f"{path} was saved with a bank of your own: pass memory= an empty one")
    kept = {
        k.removeprefix("statistics."): v for k, v in state.items() if k.startswith("statistics.")
    }
    adapter = adapt(
        model,
        recipe["method"],
        memory if own_bank else recipe["memory"],
        recipe["num_classes"],
        source if source is not None else (kept or None),
        seed=recipe["seed"],
        guard=recipe["guard"],
        fallback=recipe["fallback"],
        bad_input=recipe["bad_input"],
        options=recipe["options"],
        memory_options=recipe["memory_options"],
        precision=recipe["precision"],
        compile=recipe["compile"],
        reset_every=recipe["reset_every"],
    )
    if adapter.fingerprint() != recipe["model"]:
        raise ValueError(f"{path} was saved from another model: its weights differ from this one's")
    adapter.load_state_dict(state)
    return adapter


def _classes_of(model: nn.Module) -> int:
    found = Network.width_of(model)
    if found is None:
        raise ValueError("num_classes must be given: the model has no linear layer to read it from")
    return found


def _bank(
    kind: type[Adapter],
    memory: str | Memory | None,
    num_classes: int,
    seed: int,
    options: Mapping[str, object],
) -> Memory | None:
    """Return the bank that ``memory`` names, checked against what the method takes."""
    if kind.takes_memory is None:
        if memory is not None or options:
            takers = ", ".join(sorted(n for n, k in METHODS.items() if k.takes_memory))
            raise ValueError(
                f"method '{kind.name}' has no memory; leave memory out, or choose one of: {takers}"
            )
        return None
    if memory is None or memory == "single":
        memory = kind.takes_memory
    if isinstance(memory, str):
        return build(memory, num_classes, seed=seed, **options)  # type: ignore[arg-type]
    if not isinstance(memory, Memory):
        raise ValueError(
            f"memory must be a name or a bank with add and retrieve, got {type(memory).__name__}"
        )
    if options:
        raise ValueError("memory_options go with a memory's name; this one is built already")
    if memory.num_classes != num_classes:
        raise ValueError(
            f"the memory is for {memory.num_classes} classes, the model has {num_classes}"
        )
    return memory
