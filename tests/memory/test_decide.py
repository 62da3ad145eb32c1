"""Compiled decisions against those of numpy and the one-by-one definition, bit for bit."""

import copy
import pickle
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from memory_streams import streams

from multipool.memory import MEMORIES, MultiClusterMemory, build, switch
from multipool.memory.compiled import Compiled
from multipool.memory.organiser import Organiser
from multipool.memory.switch import available, by_numpy

pytestmark = pytest.mark.skipif(
    not available(), reason="the compiled decisions are not built, or switched off"
)
RELAXED = settings(
    max_examples=60, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate]
)
COVERED = st.fixed_dictionaries(
    {
        "capacity": st.integers(1, 12),
        "max_clusters": st.integers(1, 6),
        "threshold": st.sampled_from([0.0, 0.02, 0.1, 0.25, 0.5, float("inf")]),
        "spawn": st.sampled_from(["always", "gated"]),
        "replacement": st.sampled_from(["always", "if_worse"]),
        "age_weight": st.sampled_from([0.0, 1, 2.5]),
        "uncertainty_weight": st.sampled_from([0.0, 1.0, 0.7]),
        "distance_weight": st.sampled_from([0.0, 1.0, 3.0]),
        "age_unit": st.sampled_from(["sample", "step"]),
        "class_quota": st.sampled_from([None, 1, 2, 6]),
        "run_share": st.sampled_from([None, 0.55, 0.7]),
        "retrieval": st.sampled_from(["uniform", "proportional"]),
        "draw": st.sampled_from(["random", "newest"]),
        "fill": st.booleans(),
    }
)


def pair(classes, **options):
    """The same memory twice: decided by compiled code, and by numpy."""
    with by_numpy():
        pure = MultiClusterMemory(classes, **options)
    quick = MultiClusterMemory(classes, **options)
    assert (type(quick._organiser), type(pure._organiser)) == (Compiled, Organiser)
    return quick, pure


def alike(one, other):
    assert one.events == other.events
    assert len(one) == len(other)
    for name in ("sizes", "created", "last_used", "centroids"):
        assert torch.equal(getattr(one.clusters, name), getattr(other.clusters, name)), name
    ours, theirs = one.state_dict(), other.state_dict()
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name].dtype == theirs[name].dtype, name
        assert torch.equal(ours[name], theirs[name]), name


def drawn_alike(one, other, n):
    ours, theirs = one.retrieve(n), other.retrieve(n)
    for name in ("images", "ages", "uncertainty", "labels", "clusters"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name


@RELAXED
@given(
    stream=streams(),
    chosen=COVERED,
    descriptor=st.sampled_from(["pixel", "pixel", "spatial_mean", "histogram"]),
    n=st.integers(0, 70),
)
def test_both_ways_lead_to_the_same_state(stream, chosen, descriptor, n):
    quick, pure = pair(6, descriptor=descriptor, storage="float", **chosen)
    for batch in stream:
        quick.add(*batch)
        pure.add(*batch)
        alike(quick, pure)
        drawn_alike(quick, pure, n)


@RELAXED
@given(stream=streams(120), chosen=COVERED)
def test_compiled_decisions_equal_the_one_by_one_definition(naive, stream, chosen):
    memory = MultiClusterMemory(6, storage="float", **chosen)
    names = ("capacity", "max_clusters", "threshold", "retrieval", "draw", "fill")
    rest = {name: value for name, value in chosen.items() if name not in names}
    reference = naive(6, chosen["capacity"], chosen["max_clusters"], chosen["threshold"], **rest)
    for batch in stream:
        memory.add(*batch)
        reference.add(*batch)
        view, everything = memory.clusters, memory.retrieve(None)
        members = [m for c in reference.clusters for m in c["members"]]
        assert memory.events == reference.events
        assert view.centroids.tolist() == [reference.centroid(c) for c in reference.clusters]
        assert view.last_used.tolist() == [c["last_used"] for c in reference.clusters]
        assert everything.ages.tolist() == [reference.now - m["index"] for m in members]
        assert everything.uncertainty.tolist() == [m["u"] for m in members]
        assert torch.equal(everything.images, torch.stack([m["image"] for m in members]))


@RELAXED
@given(stream=streams(60), chosen=COVERED)
def test_a_state_goes_from_one_way_to_the_other_and_back(stream, chosen):
    quick, pure = pair(6, **chosen)
    first, second = pair(6, **chosen)
    for batch in stream:
        for memory in (quick, pure):
            memory.add(*batch)
            memory.retrieve(5)
        alike(quick, pure)
        first.load_state_dict(pure.state_dict())
        second.load_state_dict(quick.state_dict())
        assert type(first._organiser) is Compiled
        assert type(second._organiser) is Organiser
        pure.load_state_dict(first.state_dict())
        quick.load_state_dict(second.state_dict())


def colours(batches, size=64, seed=0):
    """Small images whose colours wander; a share of them opens clusters."""
    rng = np.random.default_rng(seed)
    for step in range(batches):
        middle = 0.5 + 0.3 * np.sin(step / 3)
        images = (middle + 0.12 * rng.standard_normal((size, 3, 1, 1))).clip(0, 1)
        images = torch.from_numpy(np.round(images * 255) / 255).float().expand(-1, -1, 4, 4)
        yield (
            images,
            torch.from_numpy(rng.random(size)),
            torch.from_numpy(rng.integers(-1, 9, size)),
        )


@pytest.mark.parametrize("name", ["mcm", "mcm+"])
@pytest.mark.parametrize("age_unit", ["sample", "step"])
def test_the_presets_decide_alike_on_a_long_stream(name, age_unit):
    with by_numpy():
        pure = build(name, 100, seed=3, age_unit=age_unit)
    quick = build(name, 100, seed=3, age_unit=age_unit)
    assert (type(quick._organiser), type(pure._organiser)) == (Compiled, Organiser)
    for batch in colours(60):
        quick.add(*batch)
        pure.add(*batch)
        drawn_alike(quick, pure, 64)
    alike(quick, pure)
    assert quick.events["merged"] > 0
    assert quick.events["replaced"] > 1000


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_goes_on_identically_and_alone(copied):
    memory, batches = MultiClusterMemory(100, 8, 3), list(colours(6, size=20))
    for batch in batches[:3]:
        memory.add(*batch)
    other, before = copied(memory), memory.state_dict()
    for batch in batches[3:]:
        other.add(*batch)
    assert all(torch.equal(before[name], value) for name, value in memory.state_dict().items())
    for batch in batches[3:]:
        memory.add(*batch)
    alike(memory, other)


def test_a_view_is_a_copy():
    memory = MultiClusterMemory(100, 8, 3)
    first, second = colours(2)
    memory.add(*first)
    view, seen = memory._organiser.view(), memory.clusters
    before = [view.sizes.copy(), view.centroids.copy(), view.last_used.copy(), seen.sizes.clone()]
    memory.add(*second)
    after = [view.sizes, view.centroids, view.last_used, seen.sizes]
    assert all((one == other).all() for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize(
    "other",
    [
        {"distance": "l1"},
        {"consolidation": "gcc"},
        {"descriptor": "feature"},
    ],
)
def test_other_strategies_are_decided_by_their_own_functions(other):
    assert type(MultiClusterMemory(10, **other)._organiser) is Organiser


def test_a_variable_or_a_missing_build_leaves_the_decisions_to_numpy(monkeypatch):
    monkeypatch.setenv("MULTIPOOL_COMPILED", "0")
    assert type(MultiClusterMemory(10)._organiser) is Organiser
    monkeypatch.setenv("MULTIPOOL_COMPILED", "1")
    assert type(MultiClusterMemory(10)._organiser) is Compiled
    monkeypatch.setattr(switch, "decide", None)
    assert type(MultiClusterMemory(10)._organiser) is Organiser


def test_a_binary_of_another_version_is_refused_with_a_warning():
    old = ModuleType("_decide")
    with pytest.warns(RuntimeWarning, match="of version none, not 3, so numpy decides"):
        assert not switch.is_current(old)
    old.VERSION = switch.VERSION - 1
    with pytest.warns(RuntimeWarning, match="install the package again"):
        assert not switch.is_current(old)
    assert switch.is_current(None)
    assert switch.is_current(switch.decide)


def test_default_integers_of_32_bits_do_no_harm(monkeypatch):
    """As numpy 1.26 makes them on Windows, where nobody says how wide they shall be."""
    for name in ("arange", "array", "full"):
        make = getattr(np, name)

        def narrow(*args, make=make, **options):
            made = make(*args, **options)
            typed = options.get("dtype") or isinstance(args[0], np.ndarray)
            return made if typed or made.dtype != np.int64 else made.astype(np.int32)

        monkeypatch.setattr(np, name, narrow)
    assert np.arange(3).dtype == np.full(2, -1).dtype == np.array([1]).dtype == np.int32
    for name in MEMORIES:
        bank, twin = build(name, 9, capacity=8), build(name, 9, capacity=8)
        for images, doubt, labels in colours(3):
            bank.add(images, doubt, labels)
        bank.add(images)
        twin.load_state_dict(bank.state_dict())
        batch = twin.retrieve(8)
        assert batch.ages.dtype == batch.labels.dtype == batch.clusters.dtype == torch.int64
        assert twin.state_dict()["now"].dtype == torch.int64


def test_no_integer_of_the_platform_s_width_is_asked_for():
    for file in Path(switch.__file__).parent.glob("*.py"):
        text = file.read_text()
        found = re.search(r"dtype=(int|np\.int_|\"int\")\b|astype\(int\)|, int\)", text)
        assert not found or "isinstance" in text[: found.end()].splitlines()[-1], (file, found)
