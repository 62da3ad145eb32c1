"""Streams go to the disk and come back as if nothing had happened."""

import asyncio

import pytest
import torch

import multipool
from multipool.serve.make import Recipe
from multipool.serve.store import Store


async def until(condition):
    """Wait for what must come to be soon."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("method", ["multipool", "tent", "cotta"])
def test_streams_that_take_turns_in_memory_answer_as_if_alone(
    serving, infer, make_images, tiny_net, method
):
    async def work(service, client):
        adapters = [multipool.adapt(tiny_net, method) for _ in range(5)]
        for step in range(3):
            for number, adapter in enumerate(adapters):
                images = make_images(8, seed=10 * number + step)
                logits, _ = await infer(client, images, sequence_id=f"s{number}")
                assert torch.equal(logits, adapter(images))
                assert service.keeper.residents <= 2
        assert service.events.counts["evicted"] >= 10
        assert service.events.counts["loaded"] >= 10
        held = sum(len(lane.streams) for lane in service.backend.lanes)
        assert held == service.keeper.residents

    serving(work, recipe=Recipe(method), resident=2, lanes=2)


def test_more_streams_at_once_than_fit_wait_for_their_turn(serving, infer, make_images, tiny_net):
    async def work(service, client):
        async def camera(number):
            adapter = multipool.adapt(tiny_net)
            for step in range(3):
                images = make_images(4, seed=10 * number + step)
                logits, _ = await infer(client, images, sequence_id=f"s{number}")
                assert torch.equal(logits, adapter(images))

        await asyncio.gather(*(camera(n) for n in range(6)))

    serving(work, resident=1)


def test_streams_that_take_too_much_memory_take_turns(serving, infer, make_images, tiny_net):
    async def work(service, client):
        adapters = [multipool.adapt(tiny_net) for _ in range(4)]
        for step in range(3):
            for number, adapter in enumerate(adapters):
                images = make_images(8, seed=10 * number + step)
                logits, _ = await infer(client, images, sequence_id=f"s{number}")
                assert torch.equal(logits, adapter(images))
        # The last answer goes out before its stream has learned from it and was weighed.
        residents = [e for e in service.entries.values() if e.resident]
        await until(lambda: all(e.nbytes or not e.resident for e in residents))
        await until(lambda: service.keeper._trimming is None)
        taken = [e.nbytes for e in service.entries.values() if e.resident]
        assert min(taken) > adapters[0].nbytes
        assert sum(taken) == service.keeper.nbytes <= 2**20
        assert service.events.counts["evicted"] >= 8
        # One that is larger than all there is may be in memory alone.
        last = service.entries["s3"]
        service.keeper.weigh(last, 2**40)
        service.keeper.went_idle(last)
        await until(lambda: service.keeper._trimming is None)
        assert [e.name for e in service.entries.values() if e.resident] == ["s3"]

    serving(work, resident_mib=1)


def test_the_least_recently_used_stream_goes(serving, infer, make_images):
    async def work(service, client):
        for name in ("a", "b", "a", "c"):
            await infer(client, make_images(2), sequence_id=name)
        resident = {e.name for e in service.entries.values() if e.resident}
        assert resident == {"a", "c"}

    serving(work, resident=2)


def test_what_was_learned_is_on_the_disk_before_it_is_too_old(serving, infer, make_images):
    async def work(service, client):
        await infer(client, make_images(4), sequence_id="a")
        entry = service.entries["a"]
        assert entry.unsaved_since is not None
        await until(lambda: entry.on_disk and entry.unsaved_since is None)

    serving(work, save_every=0.2)


def test_a_closed_service_goes_on_in_the_next_one(serving, infer, make_images, tiny_net):
    adapter = multipool.adapt(tiny_net)

    async def first(service, client):
        logits, _ = await infer(client, make_images(8), sequence_id="a")
        assert torch.equal(logits, adapter(make_images(8)))

    async def second(service, client):
        images = make_images(8, seed=1)
        logits, told = await infer(client, images, sequence_id="a")
        assert torch.equal(logits, adapter(images))
        assert told["batch"] == 2

    serving(first)
    serving(second)


def test_what_only_predicted_is_not_kept(serving, infer, make_images, tmp_path):
    async def work(service, client):
        for number in range(4):
            await infer(client, make_images(2), sequence_id=f"p{number}", predict_only=True)
        assert len(service.entries) == 1

    serving(work, resident=1)
    assert not list((tmp_path / "state" / "streams").iterdir())


def test_a_disk_that_fails_loses_nothing_and_is_tried_again(
    serving, infer, make_images, tiny_net, monkeypatch
):
    monkeypatch.setattr("multipool.serve.keeper._RETRY", 0.0)

    async def work(service, client):
        adapter = multipool.adapt(tiny_net)
        write, broken = Store.write, [True]

        def failing(self, name, snapshot):
            if broken[0]:
                raise OSError(28, "No space left on device")
            write(self, name, snapshot)

        monkeypatch.setattr(Store, "write", failing)
        for step in range(3):
            logits, _ = await infer(client, make_images(4, seed=step), sequence_id="a")
            assert torch.equal(logits, adapter(make_images(4, seed=step)))
        refused = await client.post("/api/streams/a/snapshot")
        assert refused.status_code == 503
        assert "retry-after" in refused.headers
        assert any("No space" in e.detail for e in service.events.last(10, "a"))
        broken[0] = False
        await until(lambda: service.entries["a"].on_disk)
        logits, _ = await infer(client, make_images(4, seed=9), sequence_id="a")
        assert torch.equal(logits, adapter(make_images(4, seed=9)))

    serving(work, save_every=0.5)


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_file_costs_its_own_stream(
    serving, infer, make_images, tiny_net, damage, tmp_path
):
    adapters = {name: multipool.adapt(tiny_net) for name in "ab"}
    state = tmp_path / "state"
    streams = state / "streams"

    async def first(service, client):
        for name, adapter in adapters.items():
            logits, _ = await infer(client, make_images(8), sequence_id=name)
            assert torch.equal(logits, adapter(make_images(8)))

    async def second(service, client):
        adapters["a"].reset()
        for name, adapter in adapters.items():
            images = make_images(8, seed=1)
            logits, _ = await infer(client, images, sequence_id=name)
            assert torch.equal(logits, adapter(images)), name
        assert [e.stream for e in service.events.last() if e.kind == "damaged"] == ["a"]

    serving(first)
    content = (streams / "a.safetensors").read_bytes()
    changed = content[:-100] + bytes(100) if damage is None else damage
    (streams / "a.safetensors").write_bytes(changed)
    serving(second)
    assert (state / "damaged" / "a.safetensors").read_bytes() == changed


def test_a_file_that_cannot_be_read_now_is_not_given_up(
    serving, infer, infer_json, make_images, monkeypatch
):
    async def first(service, client):
        await infer(client, make_images(8), sequence_id="a")

    async def second(service, client):
        def failing(self):
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr("multipool.serve.make.methods.load", failing)
            patch.setattr("pathlib.Path.read_bytes", failing)
            body = infer_json(make_images(8, seed=1), sequence_id="a")
            refused = await client.post("/v2/models/tiny/infer", json=body)
        assert refused.status_code == 503
        assert "retry-after" in refused.headers
        _, told = await infer(client, make_images(8, seed=1), sequence_id="a")
        assert told["batch"] == 2  # it is the stream of before

    serving(first)
    serving(second)
