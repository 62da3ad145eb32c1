"""The service over a Ray cluster of three nodes, of which one is killed."""

import asyncio
import contextlib
import os
import signal

import pytest
import torch

import multipool
from multipool import models
from multipool.bench.speed.camera import MODEL, Camera, Scenes
from ray_nodes import cluster

from .process import Process

pytestmark = pytest.mark.slow
ray = pytest.importorskip("ray", reason="Ray is not installed; pip install 'multipool[ray]'")

STREAMS, IMAGES = 4, 2


class Crowd:
    """Cameras, and for each an adapter that remembers what its stream does."""

    def __init__(self, port):
        self.cameras = [Camera(port, f"s{n}") for n in range(STREAMS)]
        self.scenes, shared = Scenes(40), multipool.share(models.load(MODEL))
        self.alone = [multipool.adapt(shared) for _ in range(STREAMS)]
        self.saved = [adapter.snapshot() for adapter in self.alone]
        self.batches, self.step = [0] * STREAMS, 0

    async def open(self):
        """Have every stream opened, which takes a busy machine longer than a request may wait."""
        for number, camera in enumerate(self.cameras):
            images = self.scenes.request(number, self.step, IMAGES)
            for _ in range(5):
                with contextlib.suppress(RuntimeError):
                    await camera.ask(images, predict_only=True)
                    break
            camera.close()  # a connection that is silent for long would be closed

    async def ask(self):
        """Have every stream answer once; return each stream's count of batches."""
        for number, camera in enumerate(self.cameras):
            images = self.scenes.request(number, self.step, IMAGES)
            logits, told = await camera.ask(images)
            adapter = self.alone[number]
            if told["batch"] != self.batches[number] + 1:
                adapter.restore(self.saved[number])  # it has forgotten what was not saved
            self.batches[number] = told["batch"]
            assert torch.equal(adapter(torch.from_numpy(images)), torch.from_numpy(logits.copy()))
        self.step += 1
        return self.batches

    async def save(self):
        """Save every stream."""
        for number, camera in enumerate(self.cameras):
            line = f"POST /api/streams/{camera.stream}/snapshot HTTP/1.1\r\nHost: localhost\r\n"
            status, _, body = await camera.send(f"{line}Content-Length: 0\r\n\r\n".encode())
            assert status == 200, body
            self.saved[number] = self.alone[number].snapshot()

    def close(self):
        for camera in self.cameras:
            camera.close()


def test_streams_of_a_node_that_dies_go_on_elsewhere_from_their_last_save(tmp_path):
    torch.set_num_threads(1)
    with cluster(tmp_path, 3) as nodes:
        service = Process(
            tmp_path / "state", "--ray", nodes.address, "--save-every", "3600", fresh=True
        )
        service.start(240)

        async def drive():
            crowd = Crowd(service.port)
            await crowd.open()
            assert await crowd.ask() == [1] * STREAMS
            await crowd.save()
            assert await crowd.ask() == [2] * STREAMS
            nodes.kill(2)
            async with asyncio.timeout(120):  # its actors take a moment to notice
                while not service.events("actor-lost"):
                    await crowd.open()
            counts = await crowd.ask()
            lost = len(service.events("actor-lost"))
            assert 1 <= lost < STREAMS  # spread over three nodes
            assert sorted(counts) == [2] * lost + [3] * (STREAMS - lost)
            crowd.close()

        try:
            asyncio.run(drive())
        finally:
            os.kill(service.pid, signal.SIGTERM)
            status = service.wait()
        assert status == 0, service.log.read_text()[-3000:]
        assert len(list((tmp_path / "state" / "streams").iterdir())) == STREAMS


def test_without_a_cluster_a_sentence_says_how_to_start_one(tmp_path):
    service = Process(tmp_path / "state", "--ray", "127.0.0.1:9", fresh=True)
    with pytest.raises(RuntimeError, match="ray start --head"):
        service.start(60)
    assert service.wait() == 2
