"""The pools as users see them: how many, whose samples, which banks, what observers hear."""

import pytest
import torch
from torch import nn

from multipool.memory import build
from multipool.methods import adapt


@pytest.mark.parametrize("decode", ["none", "sequence"])
def test_without_batchnorm_the_source_model_answers(make_images, decode):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(192, 5))
    source = adapt(net, "source", decode=decode)
    adapter = adapt(net, decode=decode, options={"centre": 1.0})
    for t in range(3):
        x = make_images(16, seed=t)
        assert torch.equal(adapter(x), source(x))
    assert adapter.pools == []
    assert adapter.counts["updates"] == 0


def test_images_one_by_one_find_the_same_pools(make_net, stream):
    one_by_one, at_once = adapt(make_net()), adapt(make_net())
    for x in stream(6, 16):
        at_once(x)
        for image in x.split(1):
            answer = one_by_one(image)
            assert answer.shape == (1, 5)
            assert answer.isfinite().all()
    assert len(one_by_one.pools) == len(at_once.pools) == 2
    assert sum(p.samples for p in one_by_one.pools) == 96


@pytest.mark.parametrize("memory", ["single", "mcm", "mcm+", "own"])
def test_every_bank_will_do_and_each_pool_has_its_own(make_net, stream, memory):
    chosen = build("fifo", 5, capacity=20) if memory == "own" else memory
    adapter = adapt(make_net(), memory=chosen)
    for x in stream(6):
        assert adapter(x).isfinite().all()
    banks = [watched.bank for watched in adapter.method.banks().values()]
    assert len(banks) == adapter.config.most
    assert [len(bank) > 0 for bank in banks[:3]] == [True, True, False]
    assert len({id(bank) for bank in banks}) == len(banks)
    if memory == "own":
        assert banks[0] is chosen
        expected = stream(6)[2][-20:]  # the last of the plain images
        torch.testing.assert_close(banks[0].retrieve(None).images, expected, atol=1e-2, rtol=0)


def test_the_pools_add_up(make_net, stream):
    adapter = adapt(make_net())
    seen = 0
    for t, x in enumerate(stream(12)):
        adapter(x)
        seen += len(x)
        pools = adapter.pools
        assert sum(p.samples for p in pools) == seen
        assert sum(p.share for p in pools) == pytest.approx(1)
        assert [p.active for p in pools].count(True) == 1
        assert max(p.last_used for p in pools) == seen - 1
        assert all(0 <= p.trust < 1 for p in pools)
        assert next(p for p in pools if p.active) == pools[t // 3 % 2]
    assert [p.created for p in adapter.pools] == [0, 192]
    assert [p.last_used for p in adapter.pools] == [575, 767]


def test_observers_hear_what_happened_to_the_pools(make_net, stream):
    adapter, facts = adapt(make_net(), options={"update_every": 64}), []
    adapter.observe(facts.append)
    for x in stream(9):
        adapter(x)
    last = facts[-1]
    assert (last["created"], last["recalled"], last["merged"], last["split"]) == (2, 1, 0, 0)
    assert last["pools"] == 2
    assert last["pool"] == 0
    assert [f["created"] for f in facts] == sorted(f["created"] for f in facts)
