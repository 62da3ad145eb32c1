"""What operators and the page ask."""

import io

import torch
from PIL import Image

import multipool
from multipool.serve.make import Recipe


def test_a_stream_is_listed_with_its_pools_history_and_events(serving, infer, make_images):
    async def work(service, client):
        for step in range(3):
            await infer(client, make_images(32, seed=step), sequence_id="a")
        await infer(client, make_images(2), sequence_id="b")
        listed = (await client.get("/api/streams")).json()
        assert listed["total"] == 2
        assert [s["name"] for s in listed["streams"]] == ["b", "a"]
        one = (await client.get("/api/streams/a")).json()
        assert (one["images"], one["batches"], one["requests"]) == (96, 3, 3)
        assert one["history"]["images"][-1] == 96
        assert len(one["history"]["estimate"]) == len(one["history"]["time"])
        assert one["events"][-1]["kind"] == "started"
        pools = (await client.get("/api/streams/a/pools")).json()["pools"]
        assert sum(pool["samples"] for pool in pools) == 96
        assert (await client.get("/api/streams?limit=1")).json()["streams"][0]["name"] == "b"

    serving(work)


def test_pools_have_pictures_and_looking_changes_nothing(serving, infer, make_images, tiny_net):
    async def work(service, client):
        adapter = multipool.adapt(tiny_net)
        for step in range(3):
            await infer(client, make_images(32, seed=step), sequence_id="a")
            adapter(make_images(32, seed=step))
        for pool in (await client.get("/api/streams/a/pools")).json()["pools"]:
            found = await client.get(f"/api/streams/a/pictures/{pool['bank']}.png")
            assert found.headers["content-type"] == "image/png"
            with Image.open(io.BytesIO(found.content)) as sheet:
                assert sheet.width >= 8
        assert (await client.get("/api/streams/a/pictures/nope.png")).status_code == 404
        logits, _ = await infer(client, make_images(32, seed=9), sequence_id="a")
        assert torch.equal(logits, adapter(make_images(32, seed=9)))

    serving(work)


def test_a_stream_is_downloaded_reset_saved_and_removed(
    serving, infer, make_images, tiny_net, tmp_path
):
    async def work(service, client):
        adapter = multipool.adapt(tiny_net)
        await infer(client, make_images(8), sequence_id="a")
        adapter(make_images(8))
        (tmp_path / "a.safetensors").write_bytes((await client.get("/api/streams/a/state")).content)
        mine = multipool.load(tmp_path / "a.safetensors", tiny_net)
        assert torch.equal(mine(make_images(8, seed=1)), adapter(make_images(8, seed=1)))
        assert mine.notes["stream"] == "a"
        assert (await client.post("/api/streams/a/snapshot")).json()["on_disk"] is True
        assert (await client.post("/api/streams/a/reset")).json()["batches"] == 0
        logits, told = await infer(client, make_images(8), sequence_id="a")
        assert torch.equal(logits, multipool.adapt(tiny_net)(make_images(8)))
        assert told["batch"] == 1
        assert (await client.delete("/api/streams/a")).status_code == 200
        assert (await client.get("/api/streams/a")).status_code == 404
        assert not list((tmp_path / "state" / "streams").iterdir())

    serving(work)


def test_a_method_without_pools_shows_its_bank(serving, infer, make_images):
    async def work(service, client):
        await infer(client, make_images(32), sequence_id="a")
        assert (await client.get("/api/streams/a/pools")).json()["pools"] == []
        assert (await client.get("/api/streams/a/pictures/memory.png")).status_code == 200

    serving(work, recipe=Recipe("rotta"))


def test_the_service_says_what_it_is(serving):
    async def work(service, client):
        about = (await client.get("/api/service")).json()
        assert about["classes"] == list("abcde")
        assert about["serving"]["max_batch"] == 64
        assert "/" not in str(about["serving"])  # where the streams lie is nobody's business
        events = (await client.get("/api/events?limit=5")).json()["events"]
        assert events[0]["kind"] == "service-started"
        assert (await client.get("/api/events?limit=x")).status_code == 400

    serving(work)
