"""What a bank is given: right, or refused in a sentence."""

import pytest
import torch
from memory_streams import drifting, same_state

from multipool.memory import (
    MEMORIES,
    MultiClusterMemory,
    build,
)

# No shrinking: streams of random images hardly shrink, and it would take minutes.


BAD = {
    "a list": lambda: ([[1.0]],),
    "rank": lambda: (torch.zeros(3, 4, 4),),
    "channels": lambda: (torch.zeros(2, 1, 6, 6),),
    "size": lambda: (torch.zeros(2, 3, 5, 6),),
    "dtype": lambda: (torch.zeros(2, 3, 6, 6, dtype=torch.int32),),
    "above": lambda: (torch.full((2, 3, 6, 6), 1.5),),
    "below": lambda: (torch.full((2, 3, 6, 6), -0.1),),
    "nan": lambda: (torch.full((2, 3, 6, 6), float("nan")),),
    "one nan": lambda: (torch.zeros(2, 3, 6, 6).index_fill_(3, torch.tensor(2), float("nan")),),
    "empty": lambda: (torch.zeros(0, 3, 6, 6),),
    "no pixels": lambda: (torch.zeros(2, 3, 0, 6),),
    "uncertainty length": lambda: (torch.zeros(2, 3, 6, 6), torch.zeros(3)),
    "uncertainty rank": lambda: (torch.zeros(2, 3, 6, 6), torch.zeros(2, 1)),
    "uncertainty nan": lambda: (torch.zeros(2, 3, 6, 6), torch.tensor([0.0, float("nan")])),
    "uncertainty inf": lambda: (torch.zeros(2, 3, 6, 6), torch.tensor([0.0, float("inf")])),
    "uncertainty kind": lambda: (torch.zeros(2, 3, 6, 6), [0.0, 0.0]),
    "labels length": lambda: (torch.zeros(2, 3, 6, 6), None, torch.zeros(1).long()),
    "labels dtype": lambda: (torch.zeros(2, 3, 6, 6), None, torch.zeros(2)),
    "labels high": lambda: (torch.zeros(2, 3, 6, 6), None, torch.tensor([0, 100])),
    "labels low": lambda: (torch.zeros(2, 3, 6, 6), None, torch.tensor([-2, 0])),
    "features rank": lambda: (torch.zeros(2, 3, 6, 6), None, None, torch.zeros(2)),
    "features kind": lambda: (torch.zeros(2, 3, 6, 6), None, None, torch.zeros(2, 3).long()),
}


@pytest.mark.parametrize("name", sorted(MEMORIES))
@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_input_is_a_value_error_and_changes_nothing(name, case):
    memory = build(name, num_classes=100)
    for batch in drifting(1):
        memory.add(*batch)
    before, events = memory.state_dict(), memory.events
    with pytest.raises(ValueError, match=r"must|got"):
        memory.add(*BAD[case]())
    same_state(before, memory.state_dict())
    assert memory.events == events


def test_features_are_checked_where_they_are_used():
    memory = MultiClusterMemory(100, descriptor="feature")
    images = torch.zeros(2, 1, 2, 2)
    with pytest.raises(ValueError, match="needs features"):
        memory.add(images)
    memory.add(images, features=torch.zeros(2, 4))
    before = memory.state_dict()
    with pytest.raises(ValueError, match="4 columns"):
        memory.add(images, features=torch.zeros(2, 5))
    with pytest.raises(ValueError, match="finite"):
        memory.add(images, features=torch.full((2, 4), float("inf")))
    same_state(before, memory.state_dict())


@pytest.mark.parametrize("n", [-1, 1.5, "all", True])
@pytest.mark.parametrize("name", sorted(MEMORIES))
def test_asking_for_a_senseless_number_is_a_value_error(name, n):
    with pytest.raises(ValueError, match="n must be a whole number"):
        build(name, num_classes=10).retrieve(n)
