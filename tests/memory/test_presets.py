import pytest

from multipool.memory import MEMORIES, MultiClusterMemory, build


def test_mcm_is_the_paper():
    memory = build("mcm", num_classes=100)
    options = memory.options
    assert isinstance(memory, MultiClusterMemory)
    assert (options.capacity, options.clusters, options.tau) == (64, 5, 0.3)
    assert (options.replacement, options.consolidation) == ("always", "acc")
    assert (options.retrieval, options.spawn, options.age_unit) == ("uniform", "always", "sample")


def test_mcm_plus_keeps_members_that_are_better_than_the_newcomer():
    assert build("mcm+", num_classes=100).options.replacement == "if_worse"
    assert build("mcm+", num_classes=100, replacement="always").options.replacement == "always"


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
