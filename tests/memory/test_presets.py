import pytest
import torch

from multipool.memory import MEMORIES, FifoPool, MultiClusterMemory, build
from multipool.memory.presets import as_preset


def test_mcm_is_the_paper():
    memory = build("mcm", num_classes=100)
    options = memory.options
    assert isinstance(memory, MultiClusterMemory)
    assert (options.capacity, options.clusters, options.tau) == (64, 5, 0.3)
    assert (options.replacement, options.consolidation) == ("always", "acc")
    assert (options.retrieval, options.spawn, options.age_unit) == ("uniform", "always", "sample")


def test_mcm_plus_hands_out_the_newest_and_at_most_six_of_a_label():
    memory = build("mcm+", num_classes=10)  # one cluster
    images = torch.rand(200, 3, 4, 4)
    labels = torch.arange(200) // 20  # twenty of one label after the other
    memory.add(images, uncertainty=torch.rand(200), labels=labels)
    batch = memory.retrieve(64)
    assert torch.bincount(batch.labels).tolist() == [6] * 10
    assert batch.ages.tolist() == [20 * k + i + 1 for k in range(10) for i in range(6)]
    assert build("mcm+", num_classes=100, class_quota=3).options.class_quota == 3


@pytest.mark.parametrize("name", sorted(MEMORIES))
def test_an_unknown_option_names_the_known_ones(name):
    with pytest.raises(ValueError, match=r"unknown memory option 'size'; choose from: .*capacity"):
        build(name, num_classes=10, size=3)


def test_an_unknown_name_names_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'reservoir'"):
        build("reservoire", num_classes=10)


def test_options_and_seed_reach_the_memory():
    memory = build("mcm", num_classes=10, seed=3, capacity=7, max_clusters=2)
    assert (memory.options.seed, memory.capacity, memory.options.clusters) == (3, 7, 2)


def tagged(capacity=7):
    return FifoPool(5, capacity=capacity)


@pytest.mark.parametrize(
    "make",
    [
        lambda: FifoPool(5, capacity=7),
        lambda num_classes: FifoPool(num_classes, capacity=7),
        lambda seed: FifoPool(5, capacity=7, seed=seed),
        lambda **given: FifoPool(**given, capacity=7),
        tagged,
    ],
)
def test_a_function_is_given_what_it_takes(make):
    found = as_preset(make)(num_classes=5, seed=3)
    assert (found.num_classes, found.capacity) == (5, 7)


def test_its_other_arguments_are_options():
    assert as_preset(tagged)(5, 0, capacity=2).capacity == 2
    with pytest.raises(ValueError, match="unknown memory option 'size'; choose from: capacity"):
        as_preset(tagged)(5, 0, size=2)


def test_a_function_that_wants_something_else_is_refused():
    with pytest.raises(ValueError, match="must take num_classes and seed as arguments"):
        as_preset(lambda classes: FifoPool(classes))


def test_what_a_package_makes_must_be_a_bank(monkeypatch):
    monkeypatch.setitem(MEMORIES, "odd", as_preset(lambda: 3))
    with pytest.raises(ValueError, match="memory 'odd' must make a bank with add and .*, got int"):
        build("odd", num_classes=5)
