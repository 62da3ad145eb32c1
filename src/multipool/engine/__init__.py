"""What makes a method an adapter: everything that is the same whatever the paper says.

The contract. A **method** is a class over :class:`Method` (or :class:`OnePass`,
:class:`FromMemory`). It is given a :class:`Context` and its config, and says

- ``keeps()``: the tensors that learning changes in place, by name;
- ``predict(images)``: a :class:`Prediction`, changing nothing that is kept;
- ``learn(images, prediction)``: the updates that a predicted batch brings, one by one, each a
  function that returns its loss; or, where one forward pass does both and ``one_pass`` is set,
  ``train(images)``: the loss and the logits from before the step;
- as class attributes, what it needs of a model: ``needs_norm`` (nothing, the weights of
  normalisation layers of any kind, or BatchNorm), whose statistics it ``normalises_by``, and
  whether it ``reads_features``. Models without them are refused in a sentence.

Functions of tensors marked :func:`tensor_pass` may be recorded on a GPU and replayed. A method
with banks offers samples and asks for some; it may name several in ``banks()``. That is all: an
:class:`Adapter` has a method and does the rest. It checks input (``validate``), takes the method
through a batch (``stepper``), undoes what breaks (``guard``), goes back after a collapse
(``collapse``, ``recovery``), keeps, saves and restores the state (``state``, ``saving``), tells
observers, and counts. A sequence decoder
(``decode``) reads the logits in stream order: the caller and the banks get what it says.
"""

from multipool.engine.adapter import Adapter
from multipool.engine.from_memory import FromMemory
from multipool.engine.method import Context, Kept, Method, Update, tensor_pass
from multipool.engine.observers import Facts
from multipool.engine.one_pass import OnePass
from multipool.engine.prediction import Prediction
from multipool.engine.setup import Setup, configure

__all__ = [
    "Adapter",
    "Context",
    "Facts",
    "FromMemory",
    "Kept",
    "Method",
    "OnePass",
    "Prediction",
    "Setup",
    "Update",
    "configure",
    "tensor_pass",
]
