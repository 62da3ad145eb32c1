"""The multi-cluster memory against its one-by-one definition."""

from contextlib import nullcontext

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from memory_streams import drifting, same_state, streams

from multipool.memory import (
    CONSOLIDATIONS,
    DISTANCES,
    MultiClusterMemory,
)
from multipool.memory.switch import by_numpy

# No shrinking: streams of random images hardly shrink, and it would take minutes.
RELAXED = settings(
    max_examples=40, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate]
)


options = st.fixed_dictionaries(
    {
        "capacity": st.integers(1, 9),
        "max_clusters": st.integers(1, 6),
        "threshold": st.sampled_from([0.0, 0.02, 0.1, 0.25, 0.5]),
        "distance": st.sampled_from(["l2", "l2", *DISTANCES]),
        "consolidation": st.sampled_from(sorted(CONSOLIDATIONS)),
        "spawn": st.sampled_from(["always", "gated"]),
        "replacement": st.sampled_from(["always", "if_worse"]),
        "age_weight": st.sampled_from([0.0, 1.0, 2.5]),
        "uncertainty_weight": st.sampled_from([0.0, 1.0]),
        "distance_weight": st.sampled_from([0.0, 1.0, 3.0]),
        "age_unit": st.sampled_from(["sample", "step"]),
        "class_quota": st.sampled_from([None, None, 1, 2]),
        "run_share": st.sampled_from([None, None, 0.6]),
    }
)


def compare(memory, reference):
    assert memory.events == reference.events
    view, everything = memory.clusters, memory.retrieve(None)
    members = [m for c in reference.clusters for m in c["members"]]
    assert view.sizes.tolist() == [len(c["members"]) for c in reference.clusters]
    assert view.created.tolist() == [c["created"] for c in reference.clusters]
    assert view.last_used.tolist() == [c["last_used"] for c in reference.clusters]
    assert view.centroids.tolist() == [reference.centroid(c) for c in reference.clusters]
    assert everything.ages.tolist() == [reference.now - m["index"] for m in members]
    assert everything.labels.tolist() == [m["label"] for m in members]
    assert everything.uncertainty.tolist() == [m["u"] for m in members]
    if members:
        assert torch.equal(everything.images, torch.stack([m["image"] for m in members]))


def naive_options(chosen):
    return {k: v for k, v in chosen.items() if k not in ("capacity", "max_clusters", "threshold")}


@RELAXED
@given(stream=streams(), chosen=options, numpy_decides=st.booleans())
def test_batches_equal_the_one_by_one_definition(naive, stream, chosen, numpy_decides):
    with by_numpy() if numpy_decides else nullcontext():
        memory = MultiClusterMemory(6, storage="float", **chosen)
    reference = naive(
        6, chosen["capacity"], chosen["max_clusters"], chosen["threshold"], **naive_options(chosen)
    )
    for images, uncertainty, labels in stream:
        memory.add(images, uncertainty=uncertainty, labels=labels)
        reference.add(images, uncertainty, labels)
        compare(memory, reference)


@RELAXED
@given(stream=streams(60), chosen=options, cuts=st.lists(st.integers(1, 59), max_size=5))
def test_any_cut_of_the_stream_gives_the_same_state(stream, chosen, cuts):
    chosen = {**chosen, "age_unit": "sample"}
    whole, pieces = (MultiClusterMemory(6, **chosen) for _ in range(2))
    for batch in stream:
        whole.add(*batch)
        bounds = sorted({0, len(batch[0]), *(c for c in cuts if c < len(batch[0]))})
        for start, stop in zip(bounds, bounds[1:], strict=False):
            pieces.add(*(part[start:stop] for part in batch))
    same_state(whole.state_dict(), pieces.state_dict())


@pytest.mark.parametrize("way", [by_numpy, nullcontext])
def test_the_defaults_equal_the_definition_on_a_drifting_stream(naive, way):
    with way():
        memory, reference = MultiClusterMemory(100), naive(100, 64, 5, 0.3)
    for batch in drifting(9):
        memory.add(*batch)
        reference.add(*batch)
    compare(memory, reference)
    assert memory.events["merged"] > 0
    assert memory.events["replaced"] > 0


@pytest.mark.parametrize("distance", sorted(DISTANCES))
@pytest.mark.parametrize(
    ("descriptor", "threshold"), [("spatial_mean", 0.4), ("histogram", 0.5), ("feature", 1.0)]
)
def test_every_descriptor_equals_the_definition(naive, descriptor, threshold, distance):
    memory = MultiClusterMemory(
        6, 5, 3, threshold, descriptor=descriptor, distance=distance, storage="float"
    )
    reference = naive(6, 5, 3, threshold, descriptor=descriptor, distance=distance)
    generator = torch.Generator().manual_seed(1)
    for size in (1, 30, 20):
        images = torch.rand(size, 2, 5, 7, generator=generator)
        features = torch.randn(size, 3, generator=generator)
        doubt, labels = torch.rand(size).double(), torch.zeros(size, dtype=torch.int64)
        memory.add(images, doubt, labels, features)
        reference.add(images, doubt, labels, features)
        compare(memory, reference)


def test_a_duplicate_with_nine_numbers_or_more_ties_with_its_twin(naive):
    # Sums over D >= 8 numbers must not depend on how many points are asked for.
    images = torch.rand(1, 5, 3, 3, generator=torch.Generator().manual_seed(3)).repeat(30, 1, 1, 1)
    images[::3] = torch.rand(10, 5, 3, 3, generator=torch.Generator().manual_seed(4))
    chosen = {"replacement": "if_worse", "age_weight": 0.0, "uncertainty_weight": 0.0}
    memory = MultiClusterMemory(6, 3, 4, 0.5, storage="float", **chosen)
    reference = naive(6, 3, 4, 0.5, **chosen)
    labels = torch.zeros(30, dtype=torch.int64)
    memory.add(images, torch.zeros(30), labels)
    reference.add(images, torch.zeros(30), labels)
    compare(memory, reference)


@RELAXED
@given(stream=streams(80), chosen=options)
def test_the_invariants_hold_after_every_batch(stream, chosen):
    memory = MultiClusterMemory(6, descriptor="pixel", storage="uint8", **chosen)
    seen = []
    for images, uncertainty, labels in stream:
        images = (images * 255).round() / 255
        seen += [image.numpy().tobytes() for image in images]
        memory.add(images, uncertainty, labels)
        view, everything = memory.clusters, memory.retrieve(None)
        assert 1 <= len(view) <= chosen["max_clusters"]
        assert view.sizes.max() <= chosen["capacity"]
        assert len(memory) == view.sizes.sum() == len(everything)
        gaps = view.created.diff()
        assert (gaps > 0).all() if chosen["age_unit"] == "sample" else (gaps >= 0).all()
        assert (view.created <= view.last_used).all()
        assert {image.numpy().tobytes() for image in everything.images} <= set(seen)
        flat = everything.images.double().flatten(2)
        both = torch.stack((flat.mean(2), flat.var(2, correction=0)), 2).flatten(1)
        for k in range(len(view)):
            centre = both[everything.clusters == k].mean(0)
            assert torch.allclose(view.centroids[k], centre, atol=1e-6)
        if chosen["class_quota"] is not None:
            for k in range(len(view)):
                known = everything.labels[(everything.clusters == k) & (everything.labels >= 0)]
                assert not len(known) or known.bincount().max() <= chosen["class_quota"]
