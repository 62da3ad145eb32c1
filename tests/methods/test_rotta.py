"""RoTTA against methods.md 3.15, twenty steps."""

import math
from dataclasses import replace

import pytest
import torch
from literal import CLASSES, SEED, LiteralRoTTA, compare, stream

import multipool.memory as memory_room
from multipool.methods import adapt
from multipool.methods.rotta import age_weight


@pytest.mark.parametrize("bank", ["single", "mcm"])
def test_rotta_does_what_its_paper_does(tiny_net, make_images, bank):
    adapter = adapt(tiny_net, "rotta", bank, seed=SEED, guard=False)
    pool = "class-balanced" if bank == "single" else bank
    reference = LiteralRoTTA(tiny_net, memory_room.build(pool, CLASSES, seed=SEED))
    compare(adapter, reference, stream(make_images))


def test_rotta_updates_inside_a_batch_when_sixty_four_are_reached(tiny_net, make_images):
    adapter = adapt(tiny_net, "rotta", seed=SEED, guard=False)
    reference = LiteralRoTTA(tiny_net, memory_room.build("class-balanced", CLASSES, seed=SEED))
    compare(adapter, reference, stream(make_images, size=40))


def test_age_weight_is_exp_minus_a_over_one_plus_exp_minus_a():
    ages = torch.tensor([1.0, 32.0, 640.0])
    expected = [math.exp(-a / 64) / (1 + math.exp(-a / 64)) for a in ages.tolist()]
    assert age_weight(ages, 64).tolist() == pytest.approx(expected)


def test_old_samples_count_for_less(tiny_net, make_images):
    losses = []
    for ages in (0, 640):
        adapter = adapt(tiny_net, "rotta", seed=SEED, guard=False)
        adapter.memory.add(make_images(64))
        stored = adapter.memory.retrieve(64)
        stored = replace(stored, ages=torch.full((len(stored),), ages))
        losses.append(float(adapter.method.update(stored)))
    assert losses[1] == pytest.approx(losses[0] * 2 / (1 + math.exp(10)), rel=1e-4)


def test_the_teacher_follows_by_its_rate_and_predicts(tiny_net, make_images):
    adapter = adapt(tiny_net, "rotta", guard=False, options={"teacher_rate": 1.0, "lr": 0.1})
    adapter(make_images(64))
    method = adapter.method
    assert torch.equal(method.teacher.affine, method.student.affine)
    before = adapter.predict(make_images(8, seed=1))
    method.student.affine.zero_()
    assert torch.equal(adapter.predict(make_images(8, seed=1)), before)


def test_its_own_pool_is_class_balanced(tiny_net):
    assert isinstance(adapt(tiny_net, "rotta").memory, memory_room.ClassBalancedPool)
