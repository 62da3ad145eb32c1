"""The multi-cluster memory against its one-by-one definition, and its promises."""

import copy
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from multipool.memory import (
    CONSOLIDATIONS,
    DISTANCES,
    MEMORIES,
    RETRIEVALS,
    MultiClusterMemory,
    build,
)
from multipool.memory.switch import by_numpy

# No shrinking: streams of random images hardly shrink, and it would take minutes.
RELAXED = settings(
    max_examples=40, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate]
)


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


def same_state(a, b):
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype, name
        assert torch.equal(a[name], b[name]), name


def drifting(batches, size=64, side=6, seed=0):
    """8-bit images whose colours wander, with pseudo-labels and entropies."""
    generator = torch.Generator().manual_seed(seed)
    for step in range(batches):
        colour = torch.rand(size, 3, 1, 1, generator=generator) * (0.6 + 0.4 * np.sin(step))
        images = torch.rand(size, 3, side, side, generator=generator) * 0.2 + colour * 0.8
        entropy = torch.rand(size, generator=generator) * 4
        labels = torch.randint(0, 100, (size,), generator=generator)
        yield (images * 255).round() / 255, entropy, labels


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


@settings(max_examples=100, deadline=None)
@given(
    n=st.integers(0, 90),
    fill=st.booleans(),
    retrieval=st.sampled_from(sorted(RETRIEVALS)),
    seed=st.integers(0, 99),
)
def test_retrieval_gives_its_shares_without_repeats(n, fill, retrieval, seed):
    memory = MultiClusterMemory(
        100, 16, threshold=0.2, fill=fill, retrieval=retrieval, seed=seed, storage="float"
    )
    for batch in drifting(2, seed=seed):
        memory.add(*batch)
    sizes, batch = memory.clusters.sizes, memory.retrieve(n)
    assert len(batch.ages.unique()) == len(batch)
    if fill or retrieval == "proportional":
        assert len(batch) == min(n, len(memory))
    given_by = batch.clusters.bincount(minlength=len(sizes))
    if retrieval == "uniform":
        share = torch.clamp(sizes, max=n // len(sizes))
        assert (given_by >= share).all() if fill else (given_by == share).all()
    everything = memory.retrieve(None)
    rows = [everything.ages.tolist().index(age) for age in batch.ages.tolist()]
    for name in ("images", "uncertainty", "labels", "clusters"):
        assert torch.equal(getattr(batch, name), getattr(everything, name)[rows])


def test_every_sample_of_a_cluster_is_drawn_equally_often():
    memory = MultiClusterMemory(100, 8, threshold=0.2, fill=False)
    memory.add(torch.tensor([0.0] * 8 + [1.0] * 4).view(12, 1, 1, 1))
    drawn = torch.cat([memory.retrieve(4).ages for _ in range(2000)]).bincount(minlength=13)
    # 2 of 8 old ones (ages 5 to 12) and 2 of 4 new ones, 2000 times.
    assert torch.allclose(drawn[5:] / 2000, torch.tensor(0.25), atol=0.05)
    assert torch.allclose(drawn[1:5] / 2000, torch.tensor(0.5), atol=0.05)


def test_an_empty_memory_hands_out_an_empty_batch():
    memory = MultiClusterMemory(100)
    for n in (None, 0, 64):
        batch = memory.retrieve(n)
        assert len(batch) == 0
        assert batch.images.shape == (0, 0, 0, 0)
        assert batch.images.is_floating_point()
    assert len(memory) == 0
    assert len(memory.clusters) == 0


def test_fewer_than_one_each_gives_an_empty_batch_without_fill():
    memory = MultiClusterMemory(100, fill=False)
    memory.add(torch.tensor([0.0, 0.5, 1.0]).view(3, 1, 1, 1))
    assert len(memory.clusters) == 3
    assert len(memory.retrieve(2)) == 0
    assert memory.retrieve(2).images.shape == (0, 1, 1, 1)
    assert len(memory.retrieve(3)) == 3


def test_one_cluster_takes_everything_whatever_the_threshold(naive):
    memory = MultiClusterMemory(10, 4, threshold=0.0)
    assert memory.options.clusters == 1
    for batch in drifting(2, size=9):
        memory.add(batch[0], batch[1], batch[2] % 10)
    assert memory.clusters.sizes.tolist() == [4]


@pytest.mark.parametrize(
    ("classes", "clusters"), [(2, 1), (10, 1), (39, 1), (40, 2), (100, 5), (1000, 5)]
)
def test_the_number_of_clusters_follows_the_paper(classes, clusters):
    assert MultiClusterMemory(classes).options.clusters == clusters


def test_ages_can_count_calls():
    memory = MultiClusterMemory(10, age_unit="step")
    memory.add(torch.zeros(3, 1, 2, 2))
    memory.add(torch.zeros(2, 1, 2, 2))
    assert memory.retrieve(None).ages.tolist() == [2, 2, 2, 1, 1]
    assert memory.clusters.last_used.tolist() == [1]


def test_the_worst_of_a_label_makes_room_for_one_of_it():
    memory = MultiClusterMemory(100, class_quota=2, age_weight=0.0, distance_weight=0.0)
    doubt, labels = torch.tensor([3.0, 1.0, 2.0, 0.5]), torch.tensor([1, 0, 0, 0])
    memory.add(torch.zeros(4, 1, 2, 2), doubt, labels)
    assert memory.retrieve(None).uncertainty.tolist() == [3.0, 1.0, 0.5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("storage", ["uint8", "float"])
def test_stored_images_come_back_bit_for_bit(storage, dtype):
    levels = torch.arange(256, dtype=torch.uint8).view(16, 1, 4, 4)
    images = levels.to(dtype) / 255
    memory = MultiClusterMemory(100, storage=storage)
    memory.add(images)
    back = memory.retrieve(None)
    expected = images[(16 - back.ages)]
    assert back.images.dtype == dtype
    assert torch.equal(back.images, expected)


def test_uint8_images_make_the_same_decisions_as_their_float_copies():
    integers, floats = MultiClusterMemory(100), MultiClusterMemory(100)
    for images, doubt, labels in drifting(4):
        integers.add((images * 255).round().to(torch.uint8), doubt, labels)
        floats.add(images, doubt, labels)
    same_state(integers.state_dict(), floats.state_dict())


def test_rounding_to_eight_bits_loses_at_most_half_a_level():
    images = torch.rand(20, 3, 5, 5)
    memory = MultiClusterMemory(100)
    memory.add(images)
    back = memory.retrieve(None)
    assert (back.images - images[20 - back.ages]).abs().max() <= 0.5 / 255 + 1e-7


def test_equal_seeds_draw_alike_and_others_do_not():
    memories = [MultiClusterMemory(100, seed=seed) for seed in (5, 5, 6)]
    for batch in drifting(3):
        for memory in memories:
            memory.add(*batch)
    first, second, third = (memory.retrieve(32).ages.tolist() for memory in memories)
    assert first == second
    assert first != third


def test_the_global_generators_are_neither_read_nor_moved():
    torch.manual_seed(0)
    np.random.seed(0)
    expected = torch.rand(3), np.random.rand()
    torch.manual_seed(0)
    np.random.seed(0)
    memory = MultiClusterMemory(100)
    for batch in drifting(2):
        memory.add(*batch)
        memory.retrieve(16)
    assert torch.equal(torch.rand(3), expected[0])
    assert np.random.rand() == expected[1]


def test_a_deep_copy_goes_on_identically_and_alone():
    memory, batches = MultiClusterMemory(100, 8, 3), list(drifting(6, size=20))
    for batch in batches[:3]:
        memory.add(*batch)
    copied, before = copy.deepcopy(memory), memory.state_dict()
    for batch in batches[3:]:
        copied.add(*batch)
    same_state(memory.state_dict(), before)
    for batch in batches[3:]:
        memory.add(*batch)
    same_state(memory.state_dict(), copied.state_dict())
    assert torch.equal(memory.retrieve(8).images, copied.retrieve(8).images)


def test_clear_starts_again_from_the_beginning():
    memory, fresh = MultiClusterMemory(100), MultiClusterMemory(100)
    for batch in drifting(3):
        memory.add(*batch)
    memory.retrieve(8)
    memory.clear()
    assert len(memory) == 0
    for batch in drifting(2, seed=9, side=4):  # another shape is welcome now
        memory.add(*batch)
        fresh.add(*batch)
    assert memory.retrieve(40).ages.tolist() == fresh.retrieve(40).ages.tolist()
    same_state(memory.state_dict(), fresh.state_dict())


def test_it_works_in_and_out_of_inference_mode_and_holds_no_graph():
    memory = MultiClusterMemory(100, storage="float")
    batches = list(drifting(4))
    with torch.inference_mode():
        memory.add(*batches[0])
        inside = memory.retrieve(8)
    memory.add(batches[1][0].requires_grad_(), batches[1][1].requires_grad_(), batches[1][2])
    with torch.inference_mode():
        memory.add(*(part * 1 for part in batches[2]))
    memory.add(*batches[3])
    weight = torch.ones((), requires_grad=True)
    for batch in (inside, memory.retrieve(8)):
        assert not batch.images.requires_grad
        assert not batch.images.is_inference()
        (weight * batch.images).sum().backward()
    assert all(not value.requires_grad for value in memory.state_dict().values())


def test_retrieved_images_are_copies():
    memory = MultiClusterMemory(100, storage="float")
    memory.add(torch.full((4, 1, 2, 2), 0.5))
    memory.retrieve(None).images.zero_()
    assert torch.equal(memory.retrieve(None).images, torch.full((4, 1, 2, 2), 0.5))


class Transfers(TorchDispatchMode):
    """Counts what would make a device wait: reads of single numbers, and copies to the host."""

    def __init__(self):
        super().__init__()
        self.reads = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.reads += func is torch.ops.aten._local_scalar_dense.default
        self.reads += func is torch.ops.aten.nonzero.default
        return func(*args, **(kwargs or {}))


def test_one_copy_to_the_host_an_add_and_none_a_retrieve(monkeypatch):
    copies = []
    cpu = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: copies.append(1) or cpu(self))
    memory = MultiClusterMemory(100)
    with Transfers() as transfers:
        for number, batch in enumerate(drifting(3), start=1):
            memory.add(*batch)
            memory.retrieve(64)
            assert len(copies) == number
    assert transfers.reads == 0


class Calls(TorchDispatchMode):
    """Notes what torch is asked to do."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.overloadpacket)
        return func(*args, **(kwargs or {}))


def test_torch_indexes_no_images_on_a_cpu():
    # Its parallel loops wait for threads; a batch of which few are kept takes another way.
    memory = MultiClusterMemory(100, 4, 1)
    with Calls() as calls:
        for batch in drifting(3):
            memory.add(*batch)
            memory.retrieve(64)
    assert torch.ops.aten.cat in calls.names
    assert not calls.names & {torch.ops.aten.index_select, torch.ops.aten.index}


@pytest.mark.parametrize("storage", ["uint8", "float"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
def test_the_way_of_an_accelerator_leads_to_the_same_state(monkeypatch, storage, dtype):
    host, device = (MultiClusterMemory(100, 8, 3, 0.2, storage=storage) for _ in range(2))
    for images, doubt, labels in drifting(4, size=20):
        images = (images * 255).to(dtype) if dtype == torch.uint8 else images.to(dtype)
        host.add(images, doubt, labels)
        with monkeypatch.context() as elsewhere:
            for name in ("arrivals", "descriptors", "store"):
                elsewhere.setattr(f"multipool.memory.{name}.on_host", lambda images: False)
            device.add(images, doubt, labels)
            drawn = device.retrieve(9)
        expected = host.retrieve(9)
        assert torch.equal(drawn.images, expected.images)
        assert drawn.images.dtype == expected.images.dtype
    same_state(host.state_dict(), device.state_dict())


@pytest.mark.parametrize(("storage", "bytes_a_number"), [("uint8", 1), ("float", 4)])
def test_it_takes_all_its_images_and_little_more(storage, bytes_a_number):
    memory = MultiClusterMemory(100, storage=storage)
    for batch in drifting(30):
        memory.add(*batch)
    assert len(memory.clusters) == 5
    images = 5 * 64 * 3 * 6 * 6 * bytes_a_number
    assert images <= memory.nbytes <= images + 128 * 5 * 64
    assert memory._store.nbytes == images


def test_the_cost_on_the_host_does_not_grow_with_the_stream():
    memory = MultiClusterMemory(100)
    for batch in drifting(30):
        memory.add(*batch)
    before = memory.nbytes
    for batch in drifting(30, seed=1):
        memory.add(*batch)
    assert memory.nbytes == before


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
