"""Good manners of a module that has one flat state: alone, inside another module, and moved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from torch import Tensor, nn
from torch.nn.modules.module import _IncompatibleKeys


class WholeModule(nn.Module, ABC):
    """A module whose state is taken and put back as a whole, and that stays where it is.

    Inside another module its state is part of that module's state dict.
    """

    @abstractmethod
    def snapshot(self) -> dict[str, Tensor]:
        """Return everything that moves: copies, on the CPU."""

    @abstractmethod
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Put a snapshot back, or raise ``ValueError`` and stay as it was."""

    @abstractmethod
    def fixed(self) -> Iterable[Tensor]:
        """Return tensors by which it is seen that the module would be moved or cast."""

    def state_dict(  # type: ignore[override]
        self,
        *,
        destination: dict[str, Tensor] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> dict[str, Tensor]:
        """Return everything that moves as one flat dict of tensors: copies, on the CPU."""
        found = {} if destination is None else destination
        found.update({prefix + name: tensor for name, tensor in self.snapshot().items()})
        return found

    def load_state_dict(
        self,
        state_dict: Mapping[str, Tensor],
        strict: bool = True,
        assign: bool = False,
    ) -> _IncompatibleKeys:
        """Put back what :meth:`state_dict` returned; on an error nothing has changed.

        ``strict`` and ``assign`` change nothing: a state is whole, and is copied.
        """
        self.restore(state_dict)
        return _IncompatibleKeys([], [])

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Tensor],
        prefix: str,
        *rest: Any,  # noqa: ANN401
    ) -> None:
        """Take our part of the state of a module around us."""
        own = {k.removeprefix(prefix): v for k, v in state_dict.items() if k.startswith(prefix)}
        try:
            self.load_state_dict(own)
        except ValueError as error:
            rest[-1].append(str(error))  # the list of messages that torch hands round

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Let pass what changes neither device nor type; refuse the rest."""
        if any(fn(tensor) is not tensor for tensor in self.fixed()):
            raise ValueError(
                "an adapter stays where its model was: move or cast the model before "
                "multipool.adapt"
            )
        return self
