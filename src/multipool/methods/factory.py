"""From a model and a few names to an adapter: the three lines that users write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import nn

from multipool.core import lookup, unknown
from multipool.engine import Adapter, Method, Setup, configure
from multipool.engine.modes import own_modes
from multipool.engine.precision import network_for
from multipool.engine.saving import read_state
from multipool.engine.setup import plain_options
from multipool.memory import MEMORIES, Memory, build
from multipool.memory.checks import whole
from multipool.memory.presets import as_preset
from multipool.methods.fits import check_fits, notice_library
from multipool.methods.sharing import check_shared
from multipool.methods.table import METHODS, as_method
from multipool.ops import Network
from multipool.ops.head import classes_of


def adapt(
    model: nn.Module,
    method: str | type[Method] = "multipool",
    memory: str | Memory | Callable[..., Memory] | None = None,
    num_classes: int | None = None,
    source: object | None = None,
    *,
    seed: int = 0,
    guard: bool = True,
    fallback: str = "snapshot",
    bad_input: str = "raise",
    options: Mapping[str, object] | None = None,
    memory_options: Mapping[str, object] | None = None,
    precision: str = "auto",
    compile: bool = False,  # noqa: A002  (the word users know from torch)
    reset_every: int | None = None,
    decode: str | None = None,
) -> Adapter:
    """Wrap ``model`` so that it learns from the unlabelled images it predicts.

    Args:
        model: a classifier from float images ``(B, C, H, W)`` in [0, 1] to logits ``(B, L)``;
            it is copied, and normalises its input itself. It decides the device. What
            :func:`multipool.share` returns is not copied: adapters of it share the frozen weights.
        method: a name from :func:`multipool.methods.available`, or a class over
            :class:`multipool.engine.Method`.
        memory: ``"mcm"``, ``"mcm+"``, ``"single"`` (the method's own pool), a bank, a class of
            banks or a function that makes them; left out: the method's own pool, in ``multipool``
            ``"mcm+"``. Only for methods that have one.
        num_classes: L; left out: the width of the model's last linear layer, or, without one, the
            ``num_classes`` or ``config.num_labels`` that it says of itself.
        source: source data or statistics, for the methods that need them.
        seed: of every random draw the adapter makes.
        guard: undo an update that fails or is not finite, and restore a good state when the
            predictions collapse; see ``docs/notebook/guard.md``.
        fallback: what a collapse goes back to: ``"snapshot"``, the last good state, or
            ``"source"``, the source model, which then also predicts wherever it is the surer one.
        bad_input: ``"raise"`` a ValueError for images with NaN or values outside [0, 1], or
            ``"mask"`` them: they get the source model's logits and are not learned from.
        options: hyperparameters of the method, by the names of its config.
        memory_options: options of the bank, where ``memory`` is a name or a class.
        precision: what passes compute in: ``"float32"``, ``"bf16"``, ``"fp16"``, or ``"auto"``:
            float16 where that was measured to be faster and as good (``multipool``, ``rotta``,
            ``petta`` and ``resitta`` on BatchNorm models, on GPUs with TF32) and a trial with
            synthetic images finds the model's answers the same, else float32. Statistics, losses
            and parameters are always float32. ``adapter.network.precision`` says which it is.
        compile: run the passes through ``torch.compile``.
        reset_every: go back to the source model and an empty memory after every so many batches,
            as RDumb does; works around any method. Left out: never, or what the method says.
        decode: ``"sequence"`` reads the logits in the order of the stream and returns log
            posteriors, ``"none"`` returns the method's logits as they are. Left out:
            ``"sequence"`` for ``multipool``, ``"none"`` for published methods; see
            ``docs/notebook/decoder.md``.

    Returns:
        An :class:`~multipool.engine.Adapter`: called with images it returns logits ``(B, L)`` and
            learns.

    Raises:
        ValueError: in one sentence, for anything that does not fit together.

    Example:
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = adapt(tiny_net(), "rotta", memory="mcm+")
        >>> adapter(random_images(8)).shape
        torch.Size([8, 5])
        >>> len(adapter.memory)
        8
    """
    _check_model(model)
    notice_library(model)
    kind = _kind(method)
    given, banks = (
        plain_options(options, "options"),
        plain_options(memory_options, "memory_options"),
    )
    classes = num_classes if num_classes is not None else _classes_of(model)
    classes, seed = whole("num_classes", classes, 2), whole("seed", seed, 0)
    bank = _own_bank(memory, classes, seed, banks)
    setup = Setup(
        num_classes=classes,
        seed=seed,
        memory=None if memory is None else memory if isinstance(memory, str) else "bank",
        memory_options=banks,
        guard=guard,
        fallback=fallback,
        bad_input=bad_input,
        precision=precision,
        compile=compile,
        reset_every=None if reset_every is None else whole("reset_every", reset_every, 1),
        decode=kind.decodes if decode is None else decode,
    )
    return _make(model, kind, given, setup, bank, source)


def load(
    path: str | Path,
    model: nn.Module,
    source: object | None = None,
    memory: Memory | Callable[..., Memory] | None = None,
    method: type[Method] | None = None,
) -> Adapter:
    """Return the adapter saved at ``path``, to go on as if it had never stopped.

    Args:
        path: a file written by ``adapter.save``.
        model: the model it was made from; another one is refused.
        source: source data again, for methods that keep using it.
        memory: an empty bank like the saved one, or its class, where the adapter was made with
            a bank or a class of banks.
        method: the method's class, where the adapter was made with a class of no known name.

    Example:
        >>> import tempfile
        >>> from multipool.testing import random_images, tiny_net
        >>> adapter = adapt(tiny_net(), "tent")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     adapter.save(f"{folder}/state.safetensors")
        ...     again = load(f"{folder}/state.safetensors", tiny_net())
        >>> bool((again(random_images(8)) == adapter(random_images(8))).all())
        True
    """
    _check_model(model)
    state, recipe = read_state(path)
    own_bank = recipe["memory"] == "bank"
    if own_bank and (memory is None or isinstance(memory, str)):
        raise ValueError(
            f"{path} was saved with a bank of your own: pass memory= an empty one, or its class"
        )
    kept = {
        k.removeprefix("statistics."): v for k, v in state.items() if k.startswith("statistics.")
    }
    given = source if source is not None else (kept or None)
    setup = Setup.from_saved(recipe)
    bank = None
    if own_bank:
        bank = _own_bank(memory, setup.num_classes, setup.seed, setup.memory_options)
    kind = lookup(METHODS, recipe["method"], "method") if method is None else _kind(method)
    if kind.name != recipe["method"]:
        raise ValueError(
            f"{path} was saved with method '{recipe['method']}', got class {kind.__name__} of "
            f"method '{kind.name}'"
        )
    adapter = _make(model, kind, recipe["options"], setup, bank, given)
    if adapter.fingerprint() != recipe["model"]:
        raise ValueError(f"{path} was saved from another model: its weights differ from this one's")
    adapter.load_state_dict(state)
    adapter.notes = dict(recipe.get("notes", {}))
    return adapter


def _make(
    model: nn.Module,
    kind: type[Method],
    options: Mapping[str, object],
    setup: Setup,
    bank: Memory | None,
    source: object,
) -> Adapter:
    """Return the adapter of a setup; ``bank`` is the user's own, if it names one."""
    config = configure(kind.Config(), options, f"method '{kind.name}'")
    chosen = _bank(kind, setup, bank)
    given = source if kind.uses_source(config) else None
    with own_modes(_device_of(model)):
        if isinstance(model, Network):
            check_shared(model, setup)
        else:
            model = network_for(kind, model, setup)
        check_fits(kind, model)
        return Adapter(kind, model, config, setup, chosen, given)


def _device_of(model: nn.Module) -> torch.device:
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def _check_model(model: object) -> None:
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(model).__name__}")


def _kind(method: str | type[Method]) -> type[Method]:
    """Return the class of a method given by name or as a class."""
    if not isinstance(method, type):
        return lookup(METHODS, method, "method")
    kind = as_method(method)
    if kind.name in METHODS and METHODS.get(kind.name) is not kind:
        raise ValueError(
            f"method class {kind.__name__} calls itself '{kind.name}', which is another method's "
            "name; give it a name of its own"
        )
    return kind


def _own_bank(
    memory: object, num_classes: int, seed: int, options: Mapping[str, object]
) -> Memory | None:
    """Return the bank that the caller gave, or gave a class for; None where a name was given."""
    if memory is None or isinstance(memory, str):
        return None
    if isinstance(memory, type) or (callable(memory) and not isinstance(memory, Memory)):
        made = as_preset(memory)(num_classes, seed, **options)  # type: ignore[arg-type]
        if isinstance(made, Memory):
            return made
        raise ValueError(
            f"memory must make a bank with add and retrieve, got {type(made).__name__}"
        )
    if not isinstance(memory, Memory):
        raise ValueError(
            "memory must be a name, a bank with add and retrieve or a class of banks, "
            f"got {type(memory).__name__}"
        )
    if options:
        raise ValueError("memory_options go with a memory's name or class; this one is built")
    return memory


def _classes_of(model: nn.Module) -> int:
    shared = model.num_classes if isinstance(model, Network) else None
    return classes_of(model) if shared is None else shared


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
        own_pool = memory in (None, "single")
        name = kind.takes_memory if own_pool else str(memory)
        if memory is None and kind.prefers is not None:
            name = kind.prefers
        if name not in MEMORIES:
            raise unknown("memory", name, ["single", *MEMORIES])
        return build(name, setup.num_classes, seed=setup.seed, **options)  # type: ignore[arg-type]
    if own.num_classes != setup.num_classes:
        raise ValueError(
            f"the memory is for {own.num_classes} classes, the model has {setup.num_classes}"
        )
    return own
