"""One frozen copy of a model for many adapters: each keeps only what it learns."""

from __future__ import annotations

from torch import nn

from multipool.core import unknown
from multipool.engine import Setup
from multipool.engine.setup import AUTO
from multipool.ops import Network
from multipool.ops.flat import DTYPES
from multipool.ops.head import classes_of


def share(
    model: nn.Module,
    num_classes: int | None = None,
    *,
    precision: str = "float32",
    compile: bool = False,  # noqa: A002  (the word users know from torch)
) -> Network:
    """Return a frozen copy of ``model`` that ``adapt`` and ``load`` take without copying it again.

    Adapters of one shared model hold what they learn and nothing else, but for methods that train
    every weight (cotta, rmt). They may be called from several threads and then take turns; of a
    model that is shared already, another is returned that need not wait for the first, over the
    same weights. ``precision`` is that of all of them: which would be the faster one depends on the
    method, so here ``adapt``'s ``"auto"`` decides nothing.

    >>> import multipool
    >>> shared = multipool.share(multipool.models.build("wrn10-1", num_classes=10))
    >>> cameras = [multipool.adapt(shared) for _ in range(3)]
    >>> cameras[0].network is cameras[2].network
    True
    """
    if isinstance(model, Network):
        return model.twin()
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if precision not in DTYPES:
        raise unknown("precision", precision, DTYPES)
    found = classes_of(model) if num_classes is None else num_classes
    return Network(model, precision, compile, found)


def check_shared(model: Network, setup: Setup) -> None:
    """Refuse a setup that the shared model was not made for; any precision is right for auto."""
    made = {
        "num_classes": model.num_classes,
        "precision": model.precision,
        "compile": model.compiled,
    }
    if setup.precision == AUTO:
        del made["precision"]
    for name, value in made.items():
        if getattr(setup, name) != value:
            raise ValueError(
                f"the shared model was made with {name}={value!r}, got {getattr(setup, name)!r}; "
                "say the same to multipool.share and multipool.adapt"
            )
