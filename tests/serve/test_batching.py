"""What is joined, and that a joined answer is the adapter's answer to the joined images."""

import asyncio
from collections import deque

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import multipool
from multipool.serve.batching import Call, next_batch

KINDS = st.tuples(
    st.integers(1, 6), st.booleans(), st.booleans(), st.booleans(), st.sampled_from("fu")
)


def call(size, learn=True, start=False, end=False, kind="f"):
    dtype = torch.uint8 if kind == "u" else torch.float32
    return Call(torch.zeros(size, 1, 1, 1, dtype=dtype), None, learn, start, end)


@given(st.lists(KINDS, min_size=1, max_size=12), st.integers(1, 8))
def test_batches_are_whole_requests_in_order_and_of_one_kind(kinds, most):
    calls = [call(*kind) for kind in kinds]
    waiting, batches = deque(calls), []
    while waiting:
        batches.append(next_batch(waiting, most))
    assert [c for batch in batches for c in batch] == calls  # none lost, split or overtaken
    for batch in batches:
        assert len(batch) == 1 or sum(len(c.images) for c in batch) <= most
        assert len({(c.learn, c.images.dtype) for c in batch}) == 1
        assert not any(c.start for c in batch[1:])
        assert not any(c.end for c in batch[:-1])
    for one, after in zip(batches, batches[1:], strict=False):  # and nothing waits needlessly
        size = sum(len(c.images) for c in one) + len(after[0].images)
        assert size > most or not after[0].joins(one[-1])


@pytest.mark.parametrize("max_wait_ms", [0, 20])
def test_requests_that_wait_are_joined_and_answered_as_one_batch(
    serving, infer, make_images, tiny_net, max_wait_ms
):
    async def work(service, client):
        asked = [make_images(1 + i % 3, seed=i) for i in range(12)]
        answers = await asyncio.gather(*(infer(client, images) for images in asked))
        batches = {}
        for images, (logits, told) in zip(asked, answers, strict=True):
            rows = batches.setdefault(told["batch"], {})
            rows[told["first_row"]] = (images, logits, told["batch_size"])
        assert len(batches) < len(asked)  # some were joined
        adapter = multipool.adapt(tiny_net)
        for number in sorted(batches):
            parts = [batches[number][row] for row in sorted(batches[number])]
            images = torch.cat([part[0] for part in parts])
            assert {part[2] for part in parts} == {len(images)}
            assert len(images) <= 8
            assert torch.equal(torch.cat([part[1] for part in parts]), adapter(images))
        assert sorted(batches) == list(range(1, len(batches) + 1))

    serving(work, max_batch=8, max_wait_ms=max_wait_ms)


def test_with_max_batch_1_every_request_is_a_call_of_its_own(serving, infer, make_images, tiny_net):
    async def work(service, client):
        asked = [make_images(3, seed=i) for i in range(10)]
        answers = await asyncio.gather(*(infer(client, images) for images in asked))
        order = sorted(range(10), key=lambda i: answers[i][1]["batch"])
        adapter = multipool.adapt(tiny_net)
        for index in order:
            assert torch.equal(answers[index][0], adapter(asked[index]))

    serving(work, max_batch=1)


def test_a_full_batch_does_not_wait(serving, infer, make_images):
    async def work(service, client):
        await asyncio.wait_for(
            asyncio.gather(*(infer(client, make_images(4, seed=i)) for i in range(2))), 20
        )

    serving(work, max_batch=8, max_wait_ms=600_000)


def test_bad_values_cost_their_own_request_only(serving, infer, infer_json, make_images, tiny_net):
    async def work(service, client):
        good, bad = make_images(2), infer_json(make_images(2) * 300)
        answers = await asyncio.gather(
            client.post("/v2/models/tiny/infer", json=bad),
            infer(client, good),
            client.post("/v2/models/tiny/infer", json=bad),
        )
        assert answers[0].status_code == answers[2].status_code == 400
        assert "must lie in [0, 1]" in answers[0].json()["error"]
        assert torch.equal(answers[1][0], multipool.adapt(tiny_net)(good))

    serving(work)
