"""What counts as a collapse, and what is restored when."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multipool.engine.collapse import QUICK, WINDOW, effective_classes, judge, tally
from multipool.engine.recovery import CALM, LONGEST, REST, Recovery


def probes(live, home, entropies=(1.0, 1.0), count=WINDOW):
    pair = [[*live, entropies[0]], [*home, entropies[1]]]
    return torch.tensor([pair] * count, dtype=torch.float64)


def test_a_tally_counts_classes_and_averages_entropy():
    p = torch.tensor([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.9, 0.1, 0.0]])
    by_hand = [-sum(q * math.log(q) for q in row if q > 0) for row in p.tolist()]
    found = tally(p.clamp_min(1e-30).log())
    assert found[:3].tolist() == [2, 1, 0]
    assert float(found[3]) == pytest.approx(sum(by_hand) / 3, abs=1e-6)


@given(st.integers(1, 50), st.integers(1, 9))
def test_equal_counts_of_so_many_classes_are_so_many_effective_classes(classes, each):
    counts = torch.zeros(60)
    counts[:classes] = each
    assert effective_classes(counts) == pytest.approx(classes, rel=1e-5)


def test_fewer_classes_and_surer_of_them_is_a_collapse_and_either_alone_is_none():
    even, odd = [10, 10, 10, 10], [22, 6, 6, 6]
    assert judge(probes(odd, even, (0.5, 1.0))).collapsed
    assert not judge(probes(odd, even, (1.0, 1.0))).collapsed
    assert not judge(probes(even, even, (0.5, 1.0))).collapsed
    assert not judge(probes(even, odd, (0.5, 1.0))).collapsed  # more classes than without learning
    assert not judge(probes(odd, even, (0.5, 1.0), count=WINDOW - 1)).collapsed  # too early to say


def test_other_classes_from_probe_to_probe_are_no_collapse_and_always_the_same_few_are():
    home = torch.full((WINDOW, 8), 2.0, dtype=torch.float64)
    home[range(WINDOW), [0, 1, 2, 3] * 2] = 50  # four classes shown in turn, the rest mistaken
    better = torch.zeros_like(home)
    better[range(WINDOW), [0, 1, 2, 3] * 2] = 64
    stuck = torch.zeros_like(home)
    stuck[:, [0, 1, 2, 3]] = 16
    for counts, collapsed in ((better, False), (stuck, True)):
        live = torch.cat([counts, torch.full((WINDOW, 1), 0.3)], dim=1)
        there = torch.cat([home, torch.full((WINDOW, 1), 1.0)], dim=1)
        verdict = judge(torch.stack([live, there], dim=1))
        assert verdict.diversity < 0.95
        assert verdict.collapsed == collapsed


def test_the_spread_is_the_mutual_information_of_class_and_probe():
    draw = torch.Generator().manual_seed(3)
    counts = torch.randint(1, 20, (WINDOW, 2, 6), generator=draw).double()
    counts /= counts.sum(dim=2, keepdim=True)
    told = []
    for p in counts.unbind(dim=1):  # (P, L) each, rows of equal weight
        joint = p / WINDOW
        independent = joint.sum(dim=0, keepdim=True) * joint.sum(dim=1, keepdim=True)
        told.append(float((joint * (joint / independent).log()).sum()))
    doubt = torch.ones(WINDOW, 2, 1, dtype=torch.float64)
    verdict = judge(torch.cat([counts, doubt], dim=2))
    assert verdict.spread == pytest.approx(told[0] / told[1])


def test_one_class_instead_of_four_is_ruin_however_unsure():
    one, four = [40, 0, 0, 0], [10, 10, 10, 10]
    assert judge(probes(one, four, (9.0, 1.0), count=QUICK)).collapsed
    assert not judge(probes(one, four, (9.0, 1.0), count=QUICK - 1)).collapsed
    assert not judge(probes(one, one)).collapsed  # the stream shows one class only


@given(
    st.lists(st.lists(st.integers(0, 20), min_size=5, max_size=5), min_size=1, max_size=WINDOW),
    st.floats(0.01, 5),
)
def test_a_model_that_predicts_as_without_learning_never_collapses(rows, doubt):
    stacked = torch.tensor([[[*row, doubt]] * 2 for row in rows], dtype=torch.float64)
    stacked[:, :, 0] += 1  # at least one prediction
    verdict = judge(stacked)
    assert not verdict.collapsed
    assert verdict.diversity == pytest.approx(1)


# What is restored --------------------------------------------------------------------------------


def test_restoring_prefers_the_good_state_then_the_beginning_and_rests_longer_each_time():
    live = torch.zeros(3)
    recovery = Recovery({"a": live}, num_classes=4, every=1)
    live.fill_(1)
    even = torch.eye(4).repeat(4, 1)
    for t in range(WINDOW):
        assert recovery.probe(even, even, t, seen=7).healthy == (t == WINDOW - 1)
    live.fill_(2)
    assert recovery.restore(100, source=False) == ("the last good state", 7)
    assert live.tolist() == [1, 1, 1]
    assert recovery.resting(100 + REST)
    assert not recovery.resting(101 + REST)
    live.fill_(3)
    assert recovery.restore(102 + REST, source=False) == ("the source model", 0)
    assert live.tolist() == [0, 0, 0]
    assert recovery.resting(102 + 3 * REST)
    for _ in range(20):
        recovery.restore(0, source=True)
    assert not recovery.resting(1 + LONGEST)
    assert recovery.restored == 22


def test_looks_are_rarer_while_all_is_well_and_as_often_as_ever_once_it_is_not():
    recovery = Recovery({"a": torch.zeros(1)}, num_classes=4, every=2)
    even, one = torch.eye(4).repeat(4, 1), torch.eye(4)[:1].repeat(16, 1)
    looks, batches = [], 0
    while len(looks) < WINDOW + 4:
        if recovery.due(batches):
            looks.append(batches + 1)
            recovery.probe(even if len(looks) < WINDOW + 3 else one, even, batches, seen=0)
        batches += 1
    calm = [2 * WINDOW + 2 * CALM * i for i in range(1, 4)]
    assert looks == [2 * i for i in range(1, WINDOW + 1)] + [*calm, calm[-1] + 2]
    other = Recovery({"a": torch.zeros(1)}, num_classes=4, every=2)
    other.load_state_dict(recovery.state_dict())
    assert [other.due(t) for t in range(20)] == [recovery.due(t) for t in range(20)]
    recovery.restore(batches, source=True)
    assert recovery.due(batches | 1)


@pytest.mark.parametrize(
    ("live", "entropies", "calm"),
    [
        ([10, 10, 10, 10], (1.0, 1.0), True),
        ([10, 10, 10, 10], (0.9, 1.0), False),  # surer: may be good, may be how a collapse begins
        ([10, 10, 10, 10], (1.3, 1.0), True),
        ([12, 10, 9, 9], (0.97, 1.0), True),
        ([12, 10, 9, 9], (0.9, 1.0), False),
        ([22, 6, 6, 6], (1.0, 1.0), False),
    ],
)
def test_all_is_well_where_a_model_is_as_diverse_and_about_as_sure_as_without_learning(
    live, entropies, calm
):
    assert judge(probes(live, [10, 10, 10, 10], entropies)).calm == calm
    # What was well so far and no longer is counts at once.
    before, now = probes([10, 10, 10, 10], [10, 10, 10, 10]), probes([9, 10, 11, 10], [10] * 4)
    now[:, 0, -1] = 0.8
    assert not judge(torch.cat([before, now])[QUICK:-QUICK]).calm
