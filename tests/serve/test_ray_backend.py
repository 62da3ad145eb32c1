"""What the service does with actors, shown with a Ray of a few lines; the real one: test_ray.py."""

import asyncio
from types import SimpleNamespace

import pytest
import torch

import multipool
from multipool.serve.events import Events
from multipool.serve.make import AdapterMaker, Recipe
from multipool.serve.ray_backend import RayBackend
from multipool.serve.store import Store


class ActorError(Exception):
    pass


class TaskError(Exception):
    def __init__(self, cause):
        self.cause = cause


class Handle:
    """An actor; its methods are asked with ``.remote``, and once it is dead nothing answers."""

    def __init__(self, actor):
        self.actor, self.dead = actor, False

    def __getattr__(self, name):
        async def ask(*given):
            if self.dead:
                raise ActorError
            try:
                return getattr(self.actor, name)(*given)
            except Exception as error:
                raise TaskError(error) from None

        return SimpleNamespace(remote=ask)


class FakeRay:
    exceptions = SimpleNamespace(RayActorError=ActorError, RayTaskError=TaskError)

    def __init__(self):
        self.named, self.made = {}, 0

    def put(self, value):
        return value

    def remote(self, **_):
        def options(kind, name):
            def make(*given):
                if name in self.named and not self.named[name].dead:
                    raise ValueError(f"the name {name} is taken")
                self.made += 1
                self.named[name] = Handle(kind(*given))
                return self.named[name]

            return SimpleNamespace(remote=make)

        return lambda kind: SimpleNamespace(options=lambda name: options(kind, name))

    def kill(self, handle):
        handle.dead = True

    def shutdown(self):
        self.named.clear()


@pytest.fixture
def use(tiny_net, tmp_path, monkeypatch):
    """Return a function that runs an async test with a backend, its Ray and its events."""

    def run(work):
        cluster, events = FakeRay(), Events()
        monkeypatch.setattr("multipool.serve.ray_backend.connect", lambda *given: cluster)
        monkeypatch.setattr("multipool.serve.ray_backend._PAUSE", 0.0)
        maker = AdapterMaker(multipool.share(tiny_net), Recipe())

        async def main():
            backend = RayBackend(maker, Store(tmp_path / "state"), events, "auto")
            try:
                await work(backend, cluster, events)
            finally:
                await backend.close()

        asyncio.run(main())

    return run


def test_a_stream_answers_as_an_adapter_does_and_comes_back_from_its_file(
    use, tiny_net, make_images
):
    async def work(backend, cluster, events):
        adapter = multipool.adapt(tiny_net)
        for seed in range(3):
            answer = await backend.answer("a", make_images(4, seed=seed), learn=True)
            assert torch.equal(answer.logits, adapter(make_images(4, seed=seed)))
            await (await backend.save("a"))
            await backend.release("a")
        assert backend.names() == ["a"]
        assert (events.counts["started"], events.counts["loaded"]) == (1, 2)
        assert answer.facts.batches == 3
        await backend.remove("a")
        assert backend.names() == []

    use(work)


def test_a_dead_actor_costs_what_was_learned_since_the_last_save_and_no_answer(
    use, tiny_net, make_images
):
    async def work(backend, cluster, events):
        adapter = multipool.adapt(tiny_net)
        await backend.answer("a", make_images(4), learn=True)
        await (await backend.save("a"))
        await backend.answer("a", make_images(4, seed=1), learn=True)  # forgotten
        cluster.named["a"].dead = True
        answer = await backend.answer("a", make_images(4, seed=2), learn=True)
        adapter(make_images(4))
        assert torch.equal(answer.logits, adapter(make_images(4, seed=2)))
        assert (answer.facts.batches, cluster.made, events.counts["actor-lost"]) == (2, 2, 1)
        cluster.named["a"].dead = True
        with pytest.raises(OSError, match="actor of stream 'a' is gone"):
            await backend.save("a")  # what it was to save is gone: told, not passed over

    use(work)


def test_a_damaged_file_costs_its_own_stream(use, tiny_net, make_images, tmp_path):
    async def work(backend, cluster, events):
        await backend.answer("a", make_images(4), learn=True)
        await (await backend.save("a"))
        await backend.release("a")
        file = next((tmp_path / "state" / "streams").iterdir())
        file.write_bytes(file.read_bytes()[:-100])
        answer = await backend.answer("a", make_images(4), learn=True)
        assert torch.equal(answer.logits, multipool.adapt(tiny_net)(make_images(4)))
        assert events.counts["damaged"] == 1
        assert (tmp_path / "state" / "damaged" / file.name).is_file()

    use(work)


def test_there_is_never_a_second_actor_of_a_stream(use, make_images):
    async def work(backend, cluster, events):
        cluster.named["a"] = Handle(None)
        with pytest.raises(OSError, match="has an actor already"):
            await backend.answer("a", make_images(4), learn=True)
        assert cluster.made == 0

    use(work)


def test_a_mistake_of_the_caller_is_told_and_the_stream_goes_on(use, make_images):
    async def work(backend, cluster, events):
        with pytest.raises(ValueError, match="channels"):
            await backend.answer("a", torch.zeros(2, 5, 8, 8), learn=True)
        assert (await backend.answer("a", make_images(2), learn=True)).facts.batches == 1
        assert len(await backend.pools("a")) == 1
        assert (await backend.reset("a")).batches == 0
        assert await backend.download("a")
        assert cluster.made == 1

    use(work)
