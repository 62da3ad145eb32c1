"""A client of a service that costs next to nothing: one connection, one request at a time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import numpy.typing as npt

from multipool.data.corruptions import corrupt
from multipool.data.shapes import draw

MODEL = "shapes-wrn10-1"  # that a service without arguments serves
DOMAINS = ("fog", "gaussian_noise", "contrast", "pixelate")
Pixels = npt.NDArray[np.uint8]
Logits = npt.NDArray[np.float32]


class Scenes:
    """The images of each stream: shapes in domains that take turns, the same at each call."""

    def __init__(self, count: int = 400, domains: int = len(DOMAINS), stay: int = 8) -> None:
        """Draw ``count`` shapes; a stream is ``stay`` requests in each of some domains."""
        clean = draw("test", count, seed=3).images.permute(0, 2, 3, 1).contiguous().numpy()
        shown = [corrupt(clean, name, severity=3, seed=0) for name in DOMAINS[:domains]]
        self._domains = [np.ascontiguousarray(s.transpose(0, 3, 1, 2)) for s in shown]
        self._stay = stay

    def request(self, stream: int, step: int, images: int) -> Pixels:
        """Return the images uint8 ``(B, 3, 32, 32)`` of a stream's request."""
        domain = self._domains[(stream + step // self._stay) % len(self._domains)]
        rows = (np.arange(images) + step * images + 37 * stream) % len(domain)
        return domain[rows]


class Camera:
    """One connection that asks for answers to images of one stream."""

    def __init__(self, port: int, stream: str) -> None:
        self.port, self.stream = port, stream
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, images: Pixels, **parameters: object) -> tuple[Logits, dict[str, Any]]:
        """Return the logits of uint8 images ``(B, C, H, W)``, and what was told with them."""
        head = {
            "inputs": [
                {
                    "name": "images",
                    "shape": list(images.shape),
                    "datatype": "UINT8",
                    "parameters": {"binary_data_size": images.size},
                }
            ],
            "outputs": [{"name": "logits", "parameters": {"binary_data": True}}],
            "parameters": {"sequence_id": self.stream, **parameters},
        }
        text = json.dumps(head).encode()
        lines = (
            f"POST /v2/models/{MODEL}/infer HTTP/1.1\r\nHost: localhost\r\n"
            f"Inference-Header-Content-Length: {len(text)}\r\n"
            f"Content-Length: {len(text) + images.size}\r\n\r\n"
        )
        status, headers, body = await self.send(lines.encode() + text + images.tobytes())
        if status != 200:
            raise RuntimeError(f"the service answered {status}: {body[:300]!r}")
        size = int(headers["inference-header-content-length"])
        told = json.loads(body[:size])
        logits = np.frombuffer(body[size:], dtype="<f4").reshape(told["outputs"][0]["shape"])
        return logits, told["parameters"]

    async def send(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send bytes; return status, headers and body of the answer."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        body = await self._reader.readexactly(int(headers["content-length"]))
        return int(head[0].split()[1]), headers, body

    def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
