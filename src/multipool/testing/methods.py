"""What every method promises, whoever wrote it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from multipool.engine import Adapter, Method
from multipool.memory import Memory
from multipool.methods import adapt, load
from multipool.testing.contract import difference, expect, refuses, run_checks
from multipool.testing.subjects import CLASSES, random_images, source_batches, tiny_net


@dataclass(frozen=True)
class MethodCase:
    """A method, the memory it is to use and its options; makes one adapter like the other."""

    method: str | type[Method]
    memory: str | Callable[..., Memory] | None = None
    options: Mapping[str, object] = field(default_factory=dict)

    def make(self, guard: bool = True) -> Adapter:
        """Return a new adapter over the tiny network."""
        return adapt(
            tiny_net(),
            self.method,
            self.memory,
            source=source_batches(),
            seed=1,
            guard=guard,
            options=self.options,
        )

    def load(self, path: Path) -> Adapter:
        """Return the adapter that was saved at ``path``."""
        kind = self.method if isinstance(self.method, type) else None
        bank = None if isinstance(self.memory, str) else self.memory
        return load(path, tiny_net(), source=source_batches(), memory=bank, method=kind)


def check_method(
    method: str | type[Method],
    *,
    memory: str | Callable[..., Memory] | None = None,
    options: Mapping[str, object] | None = None,
) -> None:
    """Put a method through all contract tests, on a tiny network; a few seconds on a CPU.

    Args:
        method: a class over :class:`multipool.engine.Method`, or a name.
        memory: the memory to use, as in :func:`multipool.adapt`; left out: the method's own.
        options: hyperparameters by the names of its config.

    Raises:
        ContractError: one sentence that says which promise is broken and what to do about it.

    Example:
        >>> from multipool.methods.tent import TENT
        >>> check_method(TENT)
    """
    case = MethodCase(method, memory, dict(options or {}))
    name = getattr(method, "__name__", str(method))
    run_checks(name, {words: partial(check, case) for words, check in METHOD_CHECKS.items()})


def _needs_no_guard(case: MethodCase) -> None:
    adapter = case.make(guard=False)  # which would hide an error behind the source model's answer
    for t in range(3):
        logits = adapter(random_images(64, seed=t))
        expect(bool(logits.isfinite().all()), f"the logits of batch {t + 1} are not finite")


def _goes_on_after_loading(case: MethodCase) -> None:
    adapter = case.make()
    for t in range(3):
        adapter(random_images(50, seed=t))  # 150 samples: in the middle between two updates
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        adapter.save(path)
        again = case.load(path)
    for t in range(3, 7):
        x = random_images(50, seed=t)
        expect(
            torch.equal(adapter(x), again(x)),
            f"batch {t - 2} after loading is answered differently; keeps() must name every tensor "
            "that learning changes, and random numbers come from draws and noise",
        )
    name = difference(adapter.state_dict(), again.state_dict())
    expect(name is None, f"'{name}' differs after loading")


def _starts_anew(case: MethodCase) -> None:
    adapter, batches = case.make(), [random_images(64, seed=t) for t in range(3)]
    first = [adapter(x) for x in batches]
    adapter.reset()
    for number, (expected, x) in enumerate(zip(first, batches, strict=True), start=1):
        expect(
            torch.equal(expected, adapter(x)),
            f"batch {number} after reset() is answered differently than at the beginning; keeps() "
            "must name every tensor that learning changes",
        )


def _repeats_itself(case: MethodCase) -> None:
    one, other = case.make(), case.make()
    for t in range(3):
        x = random_images(64, seed=t)
        expect(
            torch.equal(one(x), other(x)),
            "two adapters of one seed answer differently; draw from draws and noise only",
        )


def _only_looks(case: MethodCase) -> None:
    adapter = case.make()
    adapter(random_images(64, seed=0))
    x, before = random_images(40, seed=1), adapter.state_dict()
    expect(adapter.predict(x).shape == (40, CLASSES), f"logits must be (40, {CLASSES})")
    kept = {name for name in before if not name.startswith("generator.")}
    after = adapter.state_dict()
    name = difference({k: before[k] for k in kept}, {k: after[k] for k in kept})
    expect(name is None, f"predict changes '{name}'; change it in learn or train")


def _any_batch_size(case: MethodCase) -> None:
    adapter = case.make()
    for size in (64, 1, 3, 64, 1):
        logits = adapter(random_images(size, seed=size))
        expect(
            logits.shape == (size, CLASSES),
            f"a batch of {size} gives logits {tuple(logits.shape)}, not ({size}, {CLASSES})",
        )
        expect(bool(logits.isfinite().all()), f"a batch of {size} gives logits that are not finite")
        expect(not logits.requires_grad, "logits carry a gradient; detach them")


BAD_IMAGES: dict[str, Callable[[Tensor], object]] = {
    "a list": lambda x: x.tolist(),
    "one image without a batch": lambda x: x[0],
    "an empty batch": lambda x: x[:0],
    "integers": lambda x: x.long(),
    "values to 255": lambda x: x * 255,
    "negative values": lambda x: x - 0.5,
    "NaN": lambda x: x.where(x != x.flatten()[7], torch.tensor(float("nan"))),
    "infinity": lambda x: x.where(x != x.flatten()[7], torch.tensor(float("inf"))),
}


def _refuses_bad_images(case: MethodCase) -> None:
    adapter = case.make()
    adapter(random_images(64, seed=0))
    before = adapter.state_dict()
    for words, spoil in BAD_IMAGES.items():
        bad = spoil(random_images(8, seed=1))
        refuses(partial(adapter, bad), words, lambda: difference(before, adapter.state_dict()))


def _bytes_are_floats(case: MethodCase) -> None:
    x, one, other = random_images(64, seed=2), case.make(), case.make()
    close = torch.allclose(one((x * 255).round().byte()), other(x), rtol=1.3e-6, atol=1e-5)
    expect(close, "the same image as uint8 and as float is answered differently")


def _leaves_the_model_alone(case: MethodCase) -> None:
    net = tiny_net()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    adapter = adapt(net, case.method, case.memory, source=source_batches(), options=case.options)
    for t in range(2):
        adapter(random_images(64, seed=t))
    name = difference(before, net.state_dict())
    expect(name is None, f"the user's model has changed in '{name}'; train a copy")
    expect(not net.training, "the user's model was put into training mode")
    untouched = all(p.requires_grad and p.grad is None for p in net.parameters())
    expect(untouched, "the user's parameters were frozen or given gradients")


def _works_in_inference_mode(case: MethodCase) -> None:
    inside, outside = case.make(), case.make()
    for t in range(2):
        x = random_images(64, seed=t)
        expected = outside(x)
        with torch.inference_mode():
            found = inside(x.clone())
        close = torch.allclose(found, expected, rtol=1.3e-6, atol=1e-5)
        expect(close, "inside torch.inference_mode it answers differently")


def _state_is_flat(case: MethodCase) -> None:
    adapter = case.make()
    adapter(random_images(64))
    for name, value in adapter.state_dict().items():
        plain = isinstance(name, str) and isinstance(value, Tensor)
        expect(plain, f"state_dict has '{name}' of {type(value).__name__}; tensors by name only")


METHOD_CHECKS: dict[str, Callable[[MethodCase], None]] = {
    "it predicts and learns without the guard": _needs_no_guard,
    "any batch size gets finite logits": _any_batch_size,
    "the same seed gives the same answers": _repeats_itself,
    "predict learns nothing": _only_looks,
    "reset is the beginning": _starts_anew,
    "saved and loaded it goes on bit for bit": _goes_on_after_loading,
    "the state is a flat dict of tensors": _state_is_flat,
    "bad images are a ValueError and change nothing": _refuses_bad_images,
    "bytes and floats of one image are the same": _bytes_are_floats,
    "the user's model is never changed": _leaves_the_model_alone,
    "it works inside inference mode": _works_in_inference_mode,
}
