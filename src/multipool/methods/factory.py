"""From a model and a few names to an adapter: the three lines that users write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from multipool.core import lookup
from multipool.engine import Adapter, Method, Setup, configure
from multipool.engine.saving import read_state
from multipool.memory import Memory, build
from multipool.methods.sharing import check_shared
from multipool.methods.table import METHODS
from multipool.ops import Network


def adapt(
    model: nn.Module,
    method: str = "multipool",
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
    decode: str | None = None,
) -> Adapter:
    """Wrap ``model`` so that it learns from the unlabelled images it predicts.

    Args:
        model: a classifier from float images ``(B, C, H, W)`` in [0, 1] to logits ``(B, L)``;
            it is copied, and normalises its input itself. It decides the device. What
            :func:`multipool.share` returns is not copied: adapters of it share the frozen weights.
        method: a name from :func:`multipool.methods.available`.
        memory: ``"mcm"``, ``"mcm+"``, ``"single"`` (the method's own pool) or a bank; left out:
            the method's own pool, in ``multipool`` ``"mcm+"``. Only for methods that have one.
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
        decode: ``"sequence"`` reads the logits in the order of the stream and returns log
            posteriors, ``"none"`` returns the method's logits as they are. Left out:
            ``"sequence"`` for ``multipool``, ``"none"`` for published methods; see
            ``docs/decoder.md``.
    """
    _check_model(model)
    kind = lookup(METHODS, method, "method")
    setup = Setup(
        num_classes=num_classes if num_classes is not None else _classes_of(model),
        seed=seed,
        memory="bank" if isinstance(memory, Memory) else memory,
        memory_options=dict(memory_options or {}),
        guard=guard,
        fallback=fallback,
        bad_input=bad_input,
        precision=precision,
        compile=compile,
        reset_every=reset_every,
        decode=kind.decodes if decode is None else decode,
    )
    bank = memory if isinstance(memory, Memory) else None
    return _make(model, method, options or {}, setup, bank, source)


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
    _check_model(model)
    state, recipe = read_state(path)
    own_bank = recipe["memory"] == "bank"
    if own_bank and memory is None:
        raise ValueError(f"{path} was saved with a bank of your own: pass memory= an empty one")
    kept = {
        k.removeprefix("statistics."): v for k, v in state.items() if k.startswith("statistics.")
    }
    given = source if source is not None else (kept or None)
    setup = Setup.from_saved(recipe)
    bank = memory if own_bank else None
    adapter = _make(model, recipe["method"], recipe["options"], setup, bank, given)
    if adapter.fingerprint() != recipe["model"]:
        raise ValueError(f"{path} was saved from another model: its weights differ from this one's")
    adapter.load_state_dict(state)
    adapter.notes = dict(recipe.get("notes", {}))
    return adapter


def _make(
    model: nn.Module,
    method: str,
    options: Mapping[str, object],
    setup: Setup,
    bank: Memory | None,
    source: object,
) -> Adapter:
    """Return the adapter of a setup; ``bank`` is the user's own, if it names one."""
    kind = lookup(METHODS, method, "method")
    config = configure(kind.Config(), options, f"method '{method}'")
    chosen = _bank(kind, setup, bank)
    if isinstance(model, Network):
        check_shared(model, setup)
    with torch.inference_mode(mode=False):
        return Adapter(
            kind, model, config, setup, chosen, source if kind.uses_source(config) else None
        )


def _check_model(model: object) -> None:
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(model).__name__}")


def _classes_of(model: nn.Module) -> int:
    shared = model.num_classes if isinstance(model, Network) else None
    found = Network.width_of(model) if shared is None else shared
    if found is None:
        raise ValueError("num_classes must be given: the model has no linear layer to read it from")
    return found


def _bank(kind: type[Method], setup: Setup, own: Memory | None) -> Memory | None:
    """Return the bank that the setup names, checked against what the method takes."""
    memory, options = setup.memory, setup.memory_options
    if kind.takes_memory is None:
        if memory is not None or options:
            takers = ", ".join(sorted(n for n, k in METHODS.items() if k.takes_memory))
            raise ValueError(
                f"method '{kind.name}' has no memory; leave memory out, or choose one of: {takers}"
            )
        return None
    if own is None:
        if memory is not None and not isinstance(memory, str):
            raise ValueError(
                "memory must be a name or a bank with add and retrieve, "
                f"got {type(memory).__name__}"
            )
        own_pool = memory in (None, "single")
        name = kind.takes_memory if own_pool else str(memory)
        if memory is None and kind.prefers is not None:
            name = kind.prefers
        return build(name, setup.num_classes, seed=setup.seed, **options)  # type: ignore[arg-type]
    if options:
        raise ValueError("memory_options go with a memory's name; this one is built already")
    if own.num_classes != setup.num_classes:
        raise ValueError(
            f"the memory is for {own.num_classes} classes, the model has {setup.num_classes}"
        )
    return own
