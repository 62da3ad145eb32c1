"""Everything about an adapter that moves, under the names it is saved by."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from multipool.core import numpy_generator, numpy_state, restore_numpy, torch_generator
from multipool.engine.method import Kept, Method, Record
from multipool.engine.recovery import Recovery
from multipool.engine.saving import check_state
from multipool.memory import Memory

_DRAWS, _NOISE, _NUMBER = "generator.draws", "generator.noise", "number."
_NOISE_BYTES = {16, 5056}  # of torch's generators on a GPU and on a CPU; both begin with the seed


def named_tensors(kept: Kept) -> dict[str, Tensor]:
    """Return all tensors of what a method keeps, each by its full name.

    >>> named_tensors({"mean": torch.zeros(2)})
    {'mean': tensor([0., 0.])}
    """
    found: dict[str, Tensor] = {}
    for name, part in kept.items():
        if isinstance(part, Tensor):
            found[name] = part
        else:
            found |= {f"{name}.{inner}": tensor for inner, tensor in part.state.items()}
    return found


def check_places(method: Method, tensors: Mapping[str, Tensor]) -> None:
    """Raise ``ValueError`` unless all that a method keeps lies where its model does.

    A guard compares and copies on the model's device: with one tensor elsewhere every update
    fails there and is undone, and the method never learns.
    """
    for name, tensor in tensors.items():
        if tensor.device != method.device and tensor.numel():
            raise ValueError(
                f"method '{method.name}' keeps '{name}' on {tensor.device}, but the model is on "
                f"{method.device}, where every update would be undone; make it with "
                "device=self.device"
            )


class State:
    """A method's tensors, numbers, random generators and banks, and what a recovery remembers."""

    def __init__(self, method: Method) -> None:
        self._method, self.numbers = method, method.numbers
        self.tensors = named_tensors(method.keeps())
        check_places(method, self.tensors)
        self.recovery: Recovery | None = None
        self.companions: dict[str, Record] = {}  # what the adapter itself keeps on the host

    @property
    def banks(self) -> dict[str, Memory]:
        """The banks by the names they are saved under."""
        return {name: watched.bank for name, watched in self._method.banks().items()}

    @property
    def parts(self) -> dict[str, Record]:
        """What has a state of its own, by the names it is saved under: banks and records."""
        return {**self.banks, **self._method.records(), **self.companions}

    def facts(self) -> dict[str, object]:
        """Return what the method has to tell observers."""
        return self._method.facts()

    @property
    def memory(self) -> Memory | None:
        """The bank that users see: the first, if there is any."""
        return next(iter(self.banks.values()), None)

    def snapshot(self) -> dict[str, Tensor]:
        """Return everything as one flat dict of tensors: copies, on the CPU."""
        method = self._method
        state = {name: t.detach().cpu().clone() for name, t in self.tensors.items()}
        state |= {_NUMBER + k: torch.tensor(v) for k, v in self.numbers.items()}
        state[_DRAWS] = numpy_state(method.draws)
        state[_NOISE] = method.noise.get_state().clone()
        for name, bank in self.parts.items():
            state |= {f"{name}.{k}": v for k, v in bank.state_dict().items()}
        if self.recovery is not None:
            state |= self.recovery.state_dict()
        return state

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Put back what :meth:`snapshot` returned; on an error nothing has changed."""
        if not isinstance(state, Mapping):
            raise ValueError(f"a state is a dict of tensors, got {type(state).__name__}")
        method, own, stored = self._method, dict(state), {}
        for bank in self.parts:
            names = [k for k in own if str(k).startswith(f"{bank}.")]
            stored[bank] = {k.removeprefix(f"{bank}."): own.pop(k) for k in names}
        check_state(own, self._expected(), method.name)
        restore_numpy(numpy_generator(0), own[_DRAWS])  # tried out, before anything changes
        noise = self._noise_of(own)
        self._restore_banks(stored)
        restore_numpy(method.draws, own[_DRAWS])
        method.noise.set_state(noise)
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                tensor.copy_(own[name])
        self.numbers.update({k: int(own[_NUMBER + k]) for k in self.numbers})
        if self.recovery is not None:
            self.recovery.load_state_dict(own)

    def _restore_banks(self, stored: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Give each bank its state; if one refuses, those before it get back what they had."""
        done: dict[str, dict[str, Tensor]] = {}
        for name, bank in self.parts.items():
            before = bank.state_dict() if len(stored) > 1 else {}
            try:
                bank.load_state_dict(stored[name])
            except ValueError:
                for earlier, had in done.items():
                    self.parts[earlier].load_state_dict(had)
                raise
            done[name] = before

    def _expected(self) -> dict[str, Tensor | None]:
        """Return the names in a state with a tensor of their kind; None: of the generators."""
        names: dict[str, Tensor | None] = {**self.tensors}
        names |= {_NUMBER + k: torch.tensor(v) for k, v in self.numbers.items()}
        names |= {_DRAWS: None, _NOISE: None}
        if self.recovery is not None:
            names |= self.recovery.state_dict()
        return names

    def _noise_of(self, state: Mapping[str, Tensor]) -> Tensor:
        """Return the noise generator's state, tried out on another one.

        Of another kind of device only the seed can be taken over: the noise starts anew from it.
        """
        noise, generator = state[_NOISE], torch_generator(0, self._method.device)
        if noise.dtype == torch.uint8 and noise.numel() in _NOISE_BYTES - {
            len(generator.get_state())
        }:
            seed = int.from_bytes(bytes(noise.flatten()[:8].tolist()), "little")
            return generator.manual_seed(seed % 2**63).get_state()
        try:
            generator.set_state(noise)
        except (RuntimeError, TypeError):
            raise ValueError("the state's 'generator.noise' is no state of a generator") from None
        return noise
