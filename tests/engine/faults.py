"""Things that break inside an update, each of them once."""

import torch

from multipool.ops import Network


class Fault:
    """Breaks one thing once, after so many uses; ``fired`` says whether it did."""

    def __init__(self, adapter, after=0):
        self.adapter, self.after, self.fired, self._real = adapter, after, False, []

    def patch(self, owner, name, make):
        real = getattr(owner, name)

        def broken(*args, **kwargs):
            self.after -= 1
            if self.fired or self.after >= 0:
                return real(*args, **kwargs)
            self.fired = True
            return make(real, *args, **kwargs)

        self._real.append((owner, name, real))
        setattr(owner, name, broken)

    def mend(self):
        for owner, name, real in self._real:
            setattr(owner, name, real)


def raising(error):
    def make(real, *args, **kwargs):
        raise error

    return make


def nan_gradient(fault):
    optimizer = getattr(fault.adapter.method, "optimizer", None)
    if optimizer is not None:
        fault.patch(optimizer, "step", lambda real, gradient: real(gradient * float("nan")))


def corrupted_statistics(fault):
    tensors = {k: t for k, t in fault.adapter.state.tensors.items() if t.is_floating_point()}
    named = [t for k, t in tensors.items() if "statistics" in k] or list(tensors.values())
    with torch.no_grad():
        for tensor in named:
            tensor.view(-1)[::3] = float("nan")
            fault.fired = True


def failing_augmentation(fault):
    """A method without views fails where it would take its step."""
    method = fault.adapter.method
    owner, name = (method, "view") if hasattr(method, "view") else (method.optimizer, "step")
    fault.patch(owner, name, raising(RuntimeError("no view today")))


def out_of_memory(fault):
    fault.patch(Network, "_forward", raising(torch.OutOfMemoryError("none left")))


FAULTS = {
    f.__name__: f for f in (nan_gradient, corrupted_statistics, failing_augmentation, out_of_memory)
}
