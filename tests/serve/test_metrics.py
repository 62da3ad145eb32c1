"""What Prometheus reads."""

from prometheus_client.parser import text_string_to_metric_families

from multipool.serve import metrics
from multipool.serve.make import Recipe


async def read(client):
    text = (await client.get("/metrics")).text
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for s in samples}


def test_requests_batches_and_streams_are_counted(serving, infer, make_images):
    async def work(service, client):
        for step in range(4):
            await infer(client, make_images(16, seed=step), sequence_id="a")
        await infer(client, make_images(3), sequence_id="a", predict_only=True)
        await client.post("/v2/models/tiny/infer", content=b"{")
        found = await read(client)
        route = ("route", "/v2/models/{model}/infer")
        assert found["multipool_requests_total", (route, ("status", "200"))] == 5
        assert found["multipool_requests_total", (route, ("status", "400"))] == 1
        assert found["multipool_request_seconds_count", (route,)] == 6
        assert found["multipool_batch_images_sum", (("learned", "yes"),)] == 64
        assert found["multipool_batch_images_sum", (("learned", "no"),)] == 3
        assert found["multipool_stream_images", (("stream", "a"),)] == 64
        updates = found["multipool_stream_updates", (("stream", "a"),)]
        assert updates > 0
        assert found["multipool_adaptation_total", (("kind", "updates"),)] == updates
        assert found["multipool_stream_pools", (("stream", "a"),)] >= 1
        assert 0 <= found["multipool_stream_estimated_accuracy", (("stream", "a"),)] <= 1
        assert found["multipool_streams_in_memory", ()] == 1
        assert found["multipool_unsaved_seconds", ()] > 0

    serving(work)


def test_updates_of_an_earlier_process_are_not_counted_again(serving, infer, make_images):
    async def first(service, client):
        for step in range(4):
            await infer(client, make_images(16, seed=step), sequence_id="a")

    async def second(service, client):
        await infer(client, make_images(1), sequence_id="a")
        found = await read(client)
        assert found["multipool_stream_updates", (("stream", "a"),)] >= 4
        assert found.get(("multipool_adaptation_total", (("kind", "updates"),)), 0) <= 1

    serving(first, recipe=Recipe("tent"))
    serving(second, recipe=Recipe("tent"))


def test_series_of_streams_are_bounded_and_the_latest_stay(
    serving, infer, make_images, monkeypatch
):
    monkeypatch.setattr(metrics, "MOST_STREAMS", 2)

    async def work(service, client):
        for name in "abcd":
            await infer(client, make_images(1), sequence_id=name)
        found = await read(client)
        shown = {dict(labels)["stream"] for name, labels in found if "_stream_" in name}
        assert shown == {"c", "d"}
        assert found["multipool_streams", ()] == 4

    serving(work)
