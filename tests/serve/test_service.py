"""Bounded queues, limits of time, and the end."""

import asyncio
import threading

import pytest
import torch

import multipool
from multipool.methods.multipool import MultiPool
from multipool.serve.refusal import Refusal
from multipool.serve.settings import Limits, Serving
from multipool.serve.stream import Stream


@pytest.fixture
def gate_answers(monkeypatch):
    """Return an event: until it is set, no batch is answered."""
    free, answer = threading.Event(), Stream.answer

    def waiting(self, images, *, learn=True):
        assert free.wait(20)
        return answer(self, images, learn=learn)

    monkeypatch.setattr(Stream, "answer", waiting)
    yield free
    free.set()


def test_a_full_queue_is_429_with_a_time(serving, infer_json, make_images, gate_answers):
    async def work(service, client):
        body = infer_json(make_images(1))
        asked = [
            asyncio.create_task(client.post("/v2/models/tiny/infer", json=body)) for _ in range(6)
        ]
        await asyncio.sleep(0.05)
        gate_answers.set()
        answers = await asyncio.gather(*asked)
        # Three wait, one may be answered already, and the others are told so at once.
        assert {answer.status_code for answer in answers} == {200, 429}
        assert sum(answer.status_code == 200 for answer in answers) in (3, 4)
        refused = [a for a in answers if a.status_code == 429]
        assert all(int(a.headers["retry-after"]) >= 1 for a in refused)
        assert "3 requests of stream 'default' are waiting" in refused[0].json()["error"]
        assert service.pending == 0

    serving(work, limits=Limits(max_queue=3), max_batch=1)


def test_a_stream_that_sends_too_often_is_429_with_a_time_and_others_are_not(
    serving, infer, infer_json, make_images
):
    async def work(service, client):
        await infer(client, make_images(1), sequence_id="a")
        body = infer_json(make_images(1), sequence_id="a")
        refused = await client.post("/v2/models/tiny/infer", json=body)
        assert refused.status_code == 429
        assert 90 <= int(refused.headers["retry-after"]) <= 100
        assert refused.json()["error"] == "stream 'a' may send 0.01 requests a second; slow down"
        _, told = await infer(client, make_images(1), sequence_id="b")
        assert told["batch"] == 1
        assert (await client.get("/api/streams/a")).json()["batches"] == 1  # who only looks may

    serving(work, limits=Limits(max_rate=0.01))


def test_too_many_in_all_are_503_with_a_time(serving, infer_json, make_images, gate_answers):
    async def work(service, client):
        asked = [
            asyncio.create_task(
                client.post(
                    "/v2/models/tiny/infer", json=infer_json(make_images(1), sequence_id=f"s{i}")
                )
            )
            for i in range(5)
        ]
        await asyncio.sleep(0.05)
        gate_answers.set()
        answers = await asyncio.gather(*asked)
        assert sorted(a.status_code for a in answers) == [200, 200, 503, 503, 503]
        assert all("retry-after" in a.headers for a in answers if a.status_code == 503)

    serving(work, limits=Limits(max_pending=2))


def test_more_streams_than_allowed_are_refused_until_one_is_removed(
    serving, infer, infer_json, make_images
):
    async def work(service, client):
        for name in "ab":
            await infer(client, make_images(1), sequence_id=name)
        body = infer_json(make_images(1), sequence_id="c")
        assert (await client.post("/v2/models/tiny/infer", json=body)).status_code == 429
        assert (await client.delete("/api/streams/a")).json() == {"removed": "a"}
        await infer(client, make_images(1), sequence_id="c")

    serving(work, limits=Limits(max_streams=2))


def test_who_waited_too_long_is_told_and_not_learned_from(
    serving, infer, make_images, tiny_net, gate_answers
):
    async def work(service, client):
        first = asyncio.create_task(service.infer("a", make_images(2)))
        await asyncio.sleep(0)
        with pytest.raises(Refusal, match=r"did not answer within 0\.2 s") as refusal:
            await service.infer("a", make_images(2, seed=1))
        assert refusal.value.status == 503
        with pytest.raises(Refusal):
            await first
        gate_answers.set()
        adapter = multipool.adapt(tiny_net)
        adapter(make_images(2))  # the first had begun; the second was given up before
        logits = (await service.infer("a", make_images(2, seed=2))).logits
        assert torch.equal(logits, adapter(make_images(2, seed=2)))

    serving(work, limits=Limits(answer_seconds=0.2), max_batch=1)


def test_closing_answers_what_was_taken_and_takes_no_more(
    serving, infer_json, make_images, gate_answers, tmp_path
):
    async def work(service, client):
        body = infer_json(make_images(1), sequence_id="a")
        taken = asyncio.create_task(client.post("/v2/models/tiny/infer", json=body))
        await asyncio.sleep(0.05)
        closing = asyncio.create_task(service.close())
        await asyncio.sleep(0.05)
        late = await client.post("/v2/models/tiny/infer", json=body)
        assert late.status_code == 503
        assert "retry-after" in late.headers
        assert (await client.get("/v2/health/ready")).status_code == 503
        assert (await client.get("/v2/health/live")).status_code == 200
        gate_answers.set()
        assert (await taken).status_code == 200
        await closing
        assert (tmp_path / "state" / "streams" / "a.safetensors").is_file()

    serving(work)


def test_a_fault_costs_its_own_batch_and_is_told_as_500(
    serving, infer, infer_json, make_images, monkeypatch
):
    async def work(service, client):
        await infer(client, make_images(1), sequence_id="a")
        with monkeypatch.context() as patch:
            patch.setattr(Stream, "answer", lambda *_, **__: 1 / 0)
            body = infer_json(make_images(1), sequence_id="a")
            broken = await client.post("/v2/models/tiny/infer", json=body)
        assert broken.status_code == 500
        assert broken.json() == {"error": "the service failed to answer; its log says why"}
        assert service.events.last(1)[0].kind == "failed"
        _, told = await infer(client, make_images(1), sequence_id="a")
        assert told["batch"] == 2

    serving(work)


@pytest.mark.parametrize(
    ("option", "value"), [("max_batch", 0), ("save_every", -1.0), ("resident", 0), ("lanes", 0)]
)
def test_settings_that_cannot_be_are_refused(tmp_path, option, value):
    with pytest.raises(ValueError, match=f"--{option.replace('_', '-')} must be a number above 0"):
        Serving(state_dir=tmp_path, **{option: value})


def test_what_may_be_nothing_is_said_to_be_so(tmp_path):
    assert Serving(state_dir=tmp_path, max_wait_ms=0).max_wait_ms == 0
    with pytest.raises(ValueError, match="--max-wait-ms must be a number of at least 0, got nan"):
        Serving(state_dir=tmp_path, max_wait_ms=float("nan"))
    with pytest.raises(ValueError, match="--max-rate must be a number of at least 0, got -1"):
        Limits(max_rate=-1)


def test_an_answer_does_not_wait_until_it_has_been_learned_from(
    serving, infer, make_images, monkeypatch, tiny_net
):
    free, learn = threading.Event(), MultiPool.learn

    def waiting(self, images, prediction):
        assert free.wait(20)
        yield from learn(self, images, prediction)

    async def work(service, client):
        alone = multipool.adapt(tiny_net)
        with monkeypatch.context() as patch:
            patch.setattr(MultiPool, "learn", waiting)
            logits, told = await infer(client, make_images(4), sequence_id="a")
            entry = service.entries["a"]
            assert entry.busy  # it has been answered and is not learned from yet
            assert entry.facts.images == 0
            assert entry.unsaved_since is not None
            free.set()
            listed = (await client.get("/api/streams/a")).json()  # waits for what was answered
            assert (listed["images"], listed["batches"], told["batch"]) == (4, 1, 1)
        assert torch.equal(logits, alone(make_images(4)))
        for seed in (1, 2):  # in its order, from what was learned
            logits, _ = await infer(client, make_images(4, seed=seed), sequence_id="a")
            assert torch.equal(logits, alone(make_images(4, seed=seed)))

    serving(work)
