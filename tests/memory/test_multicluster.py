"""The multi-cluster memory against its one-by-one definition, and its promises."""

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multipool.memory import CONSOLIDATIONS, DISTANCES, MultiClusterMemory

RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def streams(draw, longest=200):
    """Batches with duplicated, constant and 8-bit images; uncertainty and labels with ties."""
    channels, side = draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 5]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    batches = []
    for size in draw(st.lists(st.integers(1, longest), min_size=1, max_size=4)):
        images = torch.rand(size, channels, side, side, generator=generator)
        kind = draw(st.sampled_from(["random", "levels", "constant", "constant", "duplicates"]))
        if kind == "levels":
            images = (images * 255).round() / 255
        if kind == "constant":
            images = (images[:, :1, :1, :1] * 4).round().expand_as(images) / 4
        if kind == "duplicates":
            images = images[torch.randint(0, size, (size,), generator=generator) // 3]
        uncertainty = torch.rand(size, generator=generator).double()
        if draw(st.booleans()):
            uncertainty = (uncertainty * 3).round() / 3
        labels = torch.randint(-1, 6, (size,), generator=generator)
        batches.append((images.contiguous(), uncertainty, labels))
    return batches


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
        "expire_after": st.sampled_from([None, None, 1, 7]),
        "class_quota": st.sampled_from([None, None, 1, 2]),
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


@RELAXED
@given(stream=streams(), chosen=options)
def test_batches_equal_the_one_by_one_definition(naive, stream, chosen):
    memory = MultiClusterMemory(6, storage="float", **chosen)
    rest = {k: v for k, v in chosen.items() if k not in ("capacity", "max_clusters", "threshold")}
    reference = naive(6, chosen["capacity"], chosen["max_clusters"], chosen["threshold"], **rest)
    for images, uncertainty, labels in stream:
        memory.add(images, uncertainty=uncertainty, labels=labels)
        reference.add(images, uncertainty, labels)
        compare(memory, reference)
