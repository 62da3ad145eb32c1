"""A small service around the tiny network: in this process, or behind a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time

import httpx
import pytest
import torch
import uvicorn

import multipool
from multipool.serve.app import make_app
from multipool.serve.card import ModelCard
from multipool.serve.gate import Access
from multipool.serve.make import AdapterMaker, Recipe
from multipool.serve.server import local_service
from multipool.serve.settings import Limits, Serving

CARD = ModelCard("tiny", (3, 8, 8), tuple("abcde"))


@pytest.fixture
def make_service(tiny_net, tmp_path):
    """Return a function that makes services over the tiny network; ``state_dir`` may be given."""

    def make(recipe=Recipe(), state_dir=None, limits=Limits(), **serving):
        settings = Serving(state_dir=state_dir or tmp_path / "state", limits=limits, **serving)
        return local_service(AdapterMaker(multipool.share(tiny_net), recipe), settings, threads=1)

    return make


@pytest.fixture
def serving(make_service):
    """Return a function that runs an async test against a service and its client."""

    def run(work, access=Access(), headers=None, **options):
        async def main():
            service = make_service(**options)
            app = make_app(service, CARD, access)
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            await service.start()
            try:
                async with httpx.AsyncClient(
                    transport=transport, base_url="http://localhost", headers=headers
                ) as client:
                    return await work(service, client)
            finally:
                await service.close()

        return asyncio.run(main())

    return run


class Live:
    """A service behind a real socket, in a thread."""

    def __init__(self, app) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        config = uvicorn.Config(app, port=self.port, log_config=None, ws="none")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        until = time.monotonic() + 20
        while not self.server.started and time.monotonic() < until:
            time.sleep(0.01)
        self.address = f"localhost:{self.port}"

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(20)


@pytest.fixture
def live(make_service):
    """Return a function that serves on a real socket and gives the address."""
    with contextlib.ExitStack() as stack:

        def start(access=Access(), **options):
            served = Live(make_app(make_service(**options), CARD, access))
            stack.callback(served.stop)
            return served

        yield start


@pytest.fixture
def infer_json():
    """Return a function that makes the JSON of an infer request."""

    def make(images: torch.Tensor, datatype="FP32", **parameters):
        flat = images.flatten().tolist()
        tensor = {"name": "images", "datatype": datatype, "shape": list(images.shape), "data": flat}
        return {"inputs": [tensor], "parameters": parameters}

    return make


@pytest.fixture
def infer(infer_json):
    """Return a function that asks for images of a stream and returns logits and parameters."""

    async def ask(client, images, **parameters):
        answer = await client.post(
            "/v2/models/tiny/infer", json=infer_json(images, **parameters), timeout=60
        )
        assert answer.status_code == 200, answer.text
        content = answer.json()
        logits = content["outputs"][0]
        return torch.tensor(logits["data"]).view(logits["shape"]), content["parameters"]

    return ask
