"""Requests that no client should send, made from good ones by a seed.

    python tests/serve/nonsense.py --requests 20000

Every request must be answered with 4xx and a sentence, or be a good one by accident; no 5xx, no
crash, and the streams that were there before must be as they were, bit for bit.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import gzip
import io
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import torch
from PIL import Image

import multipool
from multipool.engine.saving import digest, read_state
from multipool.serve.app import make_app
from multipool.serve.card import ModelCard
from multipool.serve.make import AdapterMaker, Recipe
from multipool.serve.server import local_service
from multipool.serve.service import Service
from multipool.serve.settings import Limits, Serving

INFER = "/v2/models/tiny/infer"
SIDE = 8
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**30, 0.5, -0.0, 1e308, "", "x", "\0", "é",
    "../../etc/passwd", "a" * 1000, [], {}, [[]], [None], {"a": {"b": []}}, [[[[1]]]], "NaN",
    "\ud800",
]  # fmt: skip
NAMES = ["../x", "a/b", "", "x" * 200, "%2e%2e", "..", "a\\b", "con", "\u202e", "kept"]


class Maker:
    """Makes one request after another from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._kinds: list[Callable[[], dict[str, Any]]] = [
            self.mutated_json, self.wrong_tensor, self.wrong_binary, self.cut_or_garbled,
            self.picture, self.form, self.headers, self.path, self.packed, self.api,
        ]  # fmt: skip

    def request(self) -> dict[str, Any]:
        """Return the arguments of one request."""
        made = self.random.choice(self._kinds)()
        return {"method": "POST", **made}

    # Kinds --------------------------------------------------------------------------------------

    def good(self, images: int = 2) -> dict[str, Any]:
        """Return a good request, as JSON."""
        data = [self.random.randrange(256) for _ in range(images * 3 * SIDE * SIDE)]
        tensor = {"name": "images", "datatype": "UINT8", "shape": [images, 3, SIDE, SIDE]}
        parameters = {"sequence_id": f"fuzz-{self.random.randrange(4)}"}
        return {"inputs": [{**tensor, "data": data}], "parameters": parameters}

    def mutated_json(self) -> dict[str, Any]:
        """Change values, names and nesting of a good request."""
        content = self.good(1)
        for _ in range(self.random.randint(1, 3)):
            if not content:
                break
            holder, key = self._place(content)
            change = self.random.randrange(4)
            if change == 0:
                holder[key] = copy.deepcopy(self.random.choice(ODD))
            elif change == 1:
                del holder[key]
            elif change == 2 and isinstance(holder, dict):
                name = self.random.choice(["shape", "data", "name", "x", "parameters"])
                holder[name] = copy.deepcopy(holder[key])
            else:
                holder[key] = [holder[key]]
        return {"url": INFER, "content": _dump(content)}

    def wrong_tensor(self) -> dict[str, Any]:
        """Say shapes, types and values that do not belong together; the stream is a kept one."""
        content = self.good(1)
        content["parameters"]["sequence_id"] = "kept"
        tensor = content["inputs"][0]
        choice = self.random.randrange(5)
        if choice == 0:
            tensor["shape"] = [self.random.choice([0, -1, 2, 10**9, 3]) for _ in range(4)]
        elif choice == 1:
            tensor["data"] = tensor["data"][: self.random.randrange(len(tensor["data"]))]
        elif choice == 2:
            odd = self.random.choice([-1, 256, 1e9, "1", None])
            tensor["data"][self.random.randrange(10)] = odd
        elif choice == 3:
            tensor["datatype"] = self.random.choice(["FP32", "INT8", "BYTES", "FP16", "", 5])
            tensor["data"][0] = 200  # outside of [0, 1]
        else:
            content["inputs"] = content["inputs"] * self.random.choice([0, 2, 100])
        return {"url": INFER, "content": _dump(content)}

    def wrong_binary(self) -> dict[str, Any]:
        """Send bytes that are not those announced."""
        size = 3 * SIDE * SIDE
        tensor: dict[str, Any] = {"name": "images", "datatype": "UINT8"}
        tensor["shape"] = [1, 3, SIDE, SIDE]
        told = self.random.choice([size + 1, size - 1, 0, -1, 2**40, "x", None, 1.5])
        tensor["parameters"] = {"binary_data_size": told}
        head = _dump({"inputs": [tensor], "parameters": {"sequence_id": "kept"}})
        raw = self.random.randbytes(self.random.choice([0, 1, size - 1, size + 1, 5000]))
        length = self.random.choice(
            [len(head), len(head), len(head) + 7, 0, -5, 10**12, "x", "", "1 2", len(head) - 3]
        )
        headers = {"Inference-Header-Content-Length": str(length)}
        return {"url": INFER, "content": head + raw, "headers": headers}

    def cut_or_garbled(self) -> dict[str, Any]:
        """Cut a good request, or change some of its bytes, so that it is JSON no more."""
        body = bytearray(_dump(self.good(1)))
        if self.random.random() < 0.5:
            body = body[: self.random.randrange(len(body))]
        else:
            for _ in range(self.random.randint(1, 5)):
                body[self.random.randrange(60)] = self.random.randrange(256)
        return {"url": INFER, "content": bytes(body)}

    def picture(self) -> dict[str, Any]:
        """Send files that nearly are pictures."""
        data = bytearray(self._file())
        choice = self.random.randrange(4)
        if choice == 0:
            data = data[: self.random.randrange(len(data))]
        elif choice == 1:
            for _ in range(self.random.randint(1, 20)):
                data[self.random.randrange(len(data))] = self.random.randrange(256)
        elif choice == 2:
            data = bytearray(self.random.randbytes(self.random.randrange(200)))
        query = self.random.choice(["stream=../x", "top=0", "top=x", "nope=1", "stream=fuzz-p"])
        kinds = ["image/png", "image/jpeg", "text/html", "", "multipart/form-data"]
        headers = {"Content-Type": self.random.choice(kinds)}
        return {"url": f"/predict?{query}", "content": bytes(data), "headers": headers}

    def form(self) -> dict[str, Any]:
        """Send forms with other fields, other boundaries, too many parts."""
        edge = self.random.choice(["edge", "e" * 80, "é", ""])
        said = self.random.choice([edge, "other", "", "e"])
        parts = []
        for _ in range(self.random.choice([0, 1, 2, 80])):
            names = ['name="image"; filename="a.png"', 'name="x"', "", 'filename="../a"']
            data = self._file() if self.random.random() < 0.3 else self.random.randbytes(20)
            told = f"Content-Disposition: form-data; {self.random.choice(names)}"
            parts.append(f"--{edge}\r\n{told}\r\n\r\n".encode() + data)
        body = b"\r\n".join(parts) + f"\r\n--{edge}--\r\n".encode() * self.random.randrange(2)
        headers = {b"Content-Type": f"multipart/form-data; boundary={said}".encode()}
        return {"url": "/predict?stream=fuzz-f", "content": body, "headers": headers}

    def headers(self) -> dict[str, Any]:
        """Send a request whose headers lie; its content is no good either."""
        names = ["Content-Length", "Content-Encoding", "Content-Type", "Host", "Origin", "Accept",
                 "Inference-Header-Content-Length", "Authorization", "X-" + "y" * 50]  # fmt: skip
        values = ["", "-1", "9" * 30, "gzip", "br", "evil.example", "http://evil.example", "\x80é",
                  "1", "x" * 4000, "multipart/form-data"]  # fmt: skip
        chosen = {
            self.random.choice(names).encode(): self.random.choice(values).encode("latin-1")
            for _ in range(self.random.randint(1, 4))
        }
        return {"url": self.random.choice([INFER, "/predict"]), "content": b"{}", "headers": chosen}

    def path(self) -> dict[str, Any]:
        """Ask for things that are not there, in ways that nobody takes."""
        method = self.random.choice(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
        parts = ["v2", "models", "tiny", "infer", "versions", "2", "..", "%00", "%2f", "api",
                 "predict", "é", "x" * 300, "health", "streams"]  # fmt: skip
        url = "/" + "/".join(self.random.choices(parts, k=self.random.randint(1, 6))) + "/no"
        return {"method": method, "url": url, "content": b""}

    def packed(self) -> dict[str, Any]:
        """Send packed nonsense, and little that becomes much."""
        bomb = gzip.compress(bytes(10**6))
        body = self.random.choice([bomb, gzip.compress(b"{}"), b"\x1f\x8bxx"])
        kind = self.random.choice(["gzip", "deflate", "br", "gzip, gzip"])
        return {"url": INFER, "content": body, "headers": {"Content-Encoding": kind}}

    def api(self) -> dict[str, Any]:
        """Ask about streams that cannot be."""
        name = self.random.choice(NAMES[:-1])
        tails = ["", "/pools", "/state", "/snapshot", "/reset", "/pictures/x.png"]
        url = f"/api/streams/{name}{self.random.choice(tails)}?limit=-{name[:3]}"
        method = self.random.choice(["GET", "POST", "DELETE"])
        return {"method": method, "url": url, "content": b""}

    # Parts --------------------------------------------------------------------------------------

    def _place(self, content: Any) -> tuple[Any, Any]:
        """Return a random holder in the content, and the key of something in it."""
        holder, key = content, self.random.choice(list(content))
        while isinstance(holder[key], (dict, list)) and holder[key] and self.random.random() < 0.7:
            holder = holder[key]
            places = list(holder) if isinstance(holder, dict) else range(len(holder))
            key = self.random.choice(places)
        return holder, key

    def _file(self) -> bytes:
        size = (self.random.randint(1, 40), self.random.randint(1, 40))
        picture = Image.frombytes("RGB", size, self.random.randbytes(3 * size[0] * size[1]))
        file = io.BytesIO()
        picture.save(file, self.random.choice(["PNG", "JPEG"]))
        return file.getvalue()


def _dump(content: Any) -> bytes:
    return json.dumps(content).encode()


def throw(model: torch.nn.Module, folder: Path, requests: int, seed: int = 0) -> Counter[str]:
    """Send nonsense to a service over ``model``; return how often each status came."""
    return asyncio.run(_throw(model, folder, requests, seed))


async def _throw(model: torch.nn.Module, folder: Path, requests: int, seed: int) -> Counter[str]:
    limits = Limits(max_body=2**18, max_streams=50, max_pixels=2000)
    serving = Serving(state_dir=folder, limits=limits)
    service = local_service(AdapterMaker(multipool.share(model), Recipe()), serving, threads=1)
    app = make_app(service, ModelCard("tiny", (3, SIDE, SIDE), tuple("abcde")))
    maker, counts = Maker(seed), Counter[str]()
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (16, 3, SIDE, SIDE), generator=generator).to(torch.uint8)
    await service.start()
    try:
        await service.infer("kept", images)
        before = await _state(service)
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for _ in range(requests):
                counts[await _send(client, maker.request())] += 1
        assert await _state(service) == before, "a stream has changed"
        alone = multipool.adapt(model)
        alone(images)
        reply = await service.infer("kept", images)
        assert torch.equal(reply.logits, alone(images)), "a stream answers otherwise"
    finally:
        await service.close()
    return counts


async def _state(service: Service) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept.safetensors"
        path.write_bytes(await service.backend.download("kept"))
        state, recipe = read_state(path)
    return digest(state, json.dumps(recipe, sort_keys=True))


async def _send(client: httpx.AsyncClient, request: dict[str, Any]) -> str:
    try:
        made = client.build_request(**request)
    except (httpx.InvalidURL, UnicodeEncodeError, ValueError):
        return "unsendable"  # no client can write it
    answer = await client.send(made)
    assert answer.status_code == 200 or 400 <= answer.status_code < 500, (request, answer.text)
    if answer.status_code != 200:
        sentence = answer.json()["error"]
        assert 10 < len(sentence) < 1000, sentence
        assert "\n" not in sentence
        assert "Traceback" not in sentence
    return str(answer.status_code)


def main() -> None:
    """Throw nonsense at a service over a small model of the package; print the statuses."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    model = multipool.models.build("wrn10-1", num_classes=5)
    with tempfile.TemporaryDirectory() as folder:
        print(dict(throw(model, Path(folder), given.requests, given.seed)))


if __name__ == "__main__":
    main()
