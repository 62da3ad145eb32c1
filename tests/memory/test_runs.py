import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.memory import MultiClusterMemory, build
from multipool.memory.runs import Run

SAMPLES = st.lists(
    st.tuples(st.sampled_from([-1, 0, 1, 1, 1, 1, 2]), st.sampled_from([0.0, 0.3, 0.6, 1.0])),
    max_size=60,
)


def by_definition(samples, row, length, share):
    """Straight from the sentence, over the samples up to this one."""
    last = samples[max(0, row + 1 - length) : row + 1]
    label, doubt = samples[row]
    runs = {c for c, _ in last if c >= 0 and [d for d, _ in last].count(c) >= share * length}
    as_certain = sum(other <= doubt for _, other in last)
    return label >= 0 and bool(runs - {label}) and as_certain > len(last) / 2


@given(SAMPLES, st.integers(1, 12), st.sampled_from([0.51, 0.7, 1.0]), st.integers(1, 20))
def test_doubt_is_as_defined_however_the_stream_is_cut(samples, length, share, size):
    run, found = Run(length, share), []
    for start in range(0, len(samples), size):
        labels, doubts = zip(*samples[start : start + size], strict=True)
        found += run.doubtful(np.array(labels), np.array(doubts)).tolist()
    assert found == [by_definition(samples, row, length, share) for row in range(len(samples))]


def test_in_a_run_only_certain_samples_of_other_classes_push_members_out():
    memory = MultiClusterMemory(10, capacity=10, class_quota=1, run_share=0.7)
    grey = torch.full((1, 3, 4, 4), 0.5)

    def add(label, doubt):
        memory.add(grey, torch.tensor([doubt]), torch.tensor([label]))

    add(1, 0.5)
    for _ in range(10):
        add(0, 0.4)
    add(1, 1.0)  # a doubtful one
    assert memory.retrieve(None).uncertainty.tolist() == pytest.approx([0.5, 0.4])
    add(1, 0.1)  # a certain one
    assert memory.retrieve(None).uncertainty.tolist() == pytest.approx([0.4, 0.1])
    add(2, 1.0)  # there is room for it
    assert sorted(memory.retrieve(None).labels.tolist()) == [0, 1, 2]


def test_a_restored_memory_remembers_the_run():
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(400, 3, 4, 4, generator=generator)
    doubts = torch.rand(400, generator=generator)
    labels = torch.randint(0, 10, (400,), generator=generator)
    labels[torch.rand(400, generator=generator) < 0.8] = 3
    whole, first, second = (build("mcm+", 10, run_share=0.7) for _ in range(3))
    whole.add(images, doubts, labels)
    first.add(images[:150], doubts[:150], labels[:150])
    second.load_state_dict(first.state_dict())
    second.add(images[150:], doubts[150:], labels[150:])
    assert whole.events["rejected"] > 0
    for name, value in whole.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name


def test_a_state_with_another_history_is_refused():
    memory = build("mcm+", 10, run_share=0.7)
    memory.add(torch.rand(9, 3, 4, 4), labels=torch.arange(9))
    state = memory.state_dict()
    with pytest.raises(ValueError, match="the last 9 samples must be remembered"):
        memory.load_state_dict(state | {"recent_labels": state["recent_labels"][1:]})
    with pytest.raises(ValueError, match="labels from -1 to 9"):
        memory.load_state_dict(state | {"recent_labels": state["recent_labels"] + 5})
    assert len(memory) == 9
