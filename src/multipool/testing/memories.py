"""What every memory promises, whoever wrote it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from multipool.memory import Memory, build
from multipool.memory.presets import as_preset
from multipool.memory.protocol import EVENTS
from multipool.testing.contract import ContractError, difference, expect, refuses, run_checks

CLASSES = 10
Make = Callable[[], Memory]
Batch = tuple[Tensor, Tensor, Tensor]


def check_memory(memory: str | Callable[..., Memory], **options: int | float | str | bool) -> None:
    """Put a memory through all contract tests; less than a second on a CPU.

    Args:
        memory: a class of banks that takes ``num_classes`` and ``seed``, or a name.
        options: its other arguments.

    Raises:
        ContractError: one sentence that says which promise is broken.

    Example:
        >>> from multipool.memory import FifoPool
        >>> check_memory(FifoPool, capacity=16)
    """
    if isinstance(memory, str):
        name, make = memory, partial(build, memory, CLASSES, 1, **options)
    else:
        name, make = (
            getattr(memory, "__name__", "memory"),
            partial(as_preset(memory), CLASSES, 1, **options),
        )
    run_checks(name, {words: partial(check, make) for words, check in MEMORY_CHECKS.items()})


def stream(count: int = 4, size: int = 50, seed: int = 0) -> Iterator[Batch]:
    """Yield batches of 8-bit images with uncertainty and labels."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        images = torch.randint(0, 256, (size, 3, 4, 4), generator=generator) / 255
        doubt = torch.rand(size, generator=generator) * math.log(CLASSES)
        yield images, doubt, torch.randint(0, CLASSES, (size,), generator=generator)


def _hands_back_what_it_was_given(make: Make) -> None:
    memory = make()
    expect(isinstance(memory, Memory), "it lacks a member of multipool.memory.Memory")
    expect(len(memory) == 0, "it is not empty at first")
    expect(len(memory.retrieve()) == 0, "an empty memory hands something out")
    expect(memory.num_classes == CLASSES, "num_classes is not what it was given")
    expect(memory.capacity > 0, "capacity must be positive")
    seen: list[tuple[Tensor, Tensor, Tensor]] = []
    for images, doubt, labels in stream():
        memory.add(images, doubt, labels)
        seen += list(zip(images, doubt, labels, strict=True))
    found = memory.retrieve(None)
    expect(len(found) == len(memory) > 0, "retrieve(None) must return everything that is held")
    expect(found.images.dtype == torch.float32, "images must come back as float32 in [0, 1]")
    for row, age in enumerate(found.ages.tolist()):
        expect(1 <= age <= len(seen), f"an age must be 1 (the newest) to {len(seen)}, got {age}")
        image, doubt, label = seen[len(seen) - age]
        expect(torch.equal(found.images[row], image), f"the image of age {age} is another one")
        same = math.isclose(float(found.uncertainty[row]), float(doubt), rel_tol=1e-6)
        expect(same, f"the uncertainty of age {age} is another one's")
        expect(int(found.labels[row]) == int(label), f"the label of age {age} is another one's")


def _counts_what_happens(make: Make) -> None:
    memory = make()
    for batch in stream():
        memory.add(*batch)
    expect(set(memory.events) == set(EVENTS), f"events must be {', '.join(EVENTS)}")
    expect(memory.events["added"] == 200, f"200 were added, events say {memory.events['added']}")


def _takes_images_alone(make: Make) -> None:
    memory = make()
    memory.add(torch.zeros(1, 1, 2, 2))
    found = memory.retrieve(None)
    if len(found):  # a memory may turn a sample away
        expect(found.uncertainty.tolist() == [0.0], "missing uncertainty must be 0")
        expect(found.labels.tolist() == [-1], "a missing label must be -1")
        expect(found.ages.tolist() == [1], "the newest sample has age 1")


def _clear_is_the_beginning(make: Make) -> None:
    memory, fresh = make(), make()
    for batch in stream(2):
        memory.add(*batch)
    memory.clear()
    expect(len(memory) == 0, "clear() leaves samples behind")
    for batch in stream(3, seed=1):
        memory.add(*batch)
        fresh.add(*batch)
        same = torch.equal(memory.retrieve(8).ages, fresh.retrieve(8).ages)
        expect(same, "after clear() it chooses differently than a new one; reset the seed too")


def _goes_on_after_loading(make: Make) -> None:
    first, second, batches = make(), make(), list(stream(6))
    for batch in batches[:3]:
        first.add(*batch)
        first.retrieve(8)
    saved = first.state_dict()
    for batch in batches[3:5]:  # the copy must not follow, and what is loaded over must go
        first.add(*batch)
        second.add(*batch)
    second.load_state_dict(saved)
    first.load_state_dict(saved)
    for batch in batches[3:]:
        first.add(*batch)
        second.add(*batch)
        one, other = first.retrieve(8), second.retrieve(8)
        same = torch.equal(one.images, other.images) and torch.equal(one.ages, other.ages)
        expect(same, "a loaded state goes on differently; state_dict must hold every decision")
    name = difference(first.state_dict(), second.state_dict())
    expect(name is None, f"'{name}' differs after loading")


def _an_empty_state_loads(make: Make) -> None:
    memory = make()
    empty = memory.state_dict()
    for name, value in empty.items():
        expect(isinstance(value, Tensor), f"state_dict has '{name}' that is no tensor")
    memory.add(*next(stream()))
    memory.load_state_dict(empty)
    expect(len(memory) == 0, "the state of an empty memory leaves samples behind")
    memory.add(torch.zeros(2, 1, 3, 3))  # another shape: nothing is left of the old one


def _refuses_broken_states(make: Make) -> None:
    memory = make()
    memory.add(*next(stream()))
    before = memory.state_dict()
    changed = partial(_changed, memory, before)
    extra = {**before, "extra": torch.zeros(1)}
    refuses(partial(memory.load_state_dict, extra), "a state with an unknown entry", changed)
    for key in before:
        less = {name: value for name, value in before.items() if name != key}
        refuses(partial(memory.load_state_dict, less), f"a state without '{key}'", changed)
        number = {**before, key: 3}
        act = partial(memory.load_state_dict, number)  # type: ignore[arg-type]
        refuses(act, f"a state whose '{key}' is a number", changed)


def _changed(memory: Memory, before: dict[str, Tensor]) -> str | None:
    return difference(before, memory.state_dict())


_ZEROS = torch.zeros(2, 3, 4, 4)
BAD_BATCHES: dict[str, tuple[object, ...]] = {
    "a list": ([[1.0]],),
    "images of rank 3": (torch.zeros(3, 4, 4),),
    "images of other channels": (torch.zeros(2, 1, 4, 4),),
    "images of another size": (torch.zeros(2, 3, 5, 4),),
    "integers": (torch.zeros(2, 3, 4, 4, dtype=torch.int32),),
    "values above 1": (torch.full((2, 3, 4, 4), 1.5),),
    "NaN pixels": (torch.full((2, 3, 4, 4), float("nan")),),
    "an empty batch": (torch.zeros(0, 3, 4, 4),),
    "uncertainty of another length": (_ZEROS, torch.zeros(3)),
    "NaN as uncertainty": (_ZEROS, torch.tensor([0.0, float("nan")])),
    "labels of another length": (_ZEROS, None, torch.zeros(1).long()),
    "labels that are floats": (_ZEROS, None, torch.zeros(2)),
    "labels above the classes": (_ZEROS, None, torch.tensor([0, CLASSES])),
    "labels below -1": (_ZEROS, None, torch.tensor([-2, 0])),
}


def _refuses_bad_batches(make: Make) -> None:
    memory = make()
    memory.add(*next(stream()))
    before = memory.state_dict()
    for words, bad in BAD_BATCHES.items():
        act = partial(memory.add, *bad)  # type: ignore[arg-type]
        refuses(act, words, partial(_changed, memory, before))


def _refuses_senseless_numbers(make: Make) -> None:
    memory = make()
    for n in (-1, 1.5, "all", True):
        try:
            memory.retrieve(n)  # type: ignore[arg-type]
        except ValueError:
            continue
        raise ContractError(f"retrieve({n!r}) is taken; n must be a whole number or None")


MEMORY_CHECKS: dict[str, Callable[[Make], None]] = {
    "what it hands back is what it was given": _hands_back_what_it_was_given,
    "it counts what happens": _counts_what_happens,
    "images alone are enough": _takes_images_alone,
    "clear is the beginning": _clear_is_the_beginning,
    "saved and loaded it goes on": _goes_on_after_loading,
    "the state of an empty memory loads": _an_empty_state_loads,
    "a broken state is a ValueError and changes nothing": _refuses_broken_states,
    "bad input is a ValueError and changes nothing": _refuses_bad_batches,
    "a senseless number is a ValueError": _refuses_senseless_numbers,
}
