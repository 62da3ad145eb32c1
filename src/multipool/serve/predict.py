"""``POST /predict``: pictures in, class names and probabilities out."""

from __future__ import annotations

import asyncio
from typing import Any

import torch
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from torch import Tensor

from multipool.serve.batching import Reply
from multipool.serve.desk import Desk
from multipool.serve.names import stream_name
from multipool.serve.pictures import read_picture
from multipool.serve.protocol import told
from multipool.serve.refusal import bad, shown

MOST_FILES = 64
_WORDS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_QUERY = ("stream", "predict_only", "top")


def predict_routes(desk: Desk) -> APIRouter:
    """Return the route of pictures."""
    routes, service, card = APIRouter(), desk.service, desk.card

    @routes.post("/predict")
    async def predict(request: Request) -> JSONResponse:
        stream, learn, top = _query(request, len(card.classes))
        most = service.serving.limits.max_pixels
        async with desk.body(request) as body:
            files = await _files(request, body)

            def read() -> Tensor:
                return torch.stack([read_picture(data, card.size, most) for _, data in files])

            images = await asyncio.to_thread(read)
            reply = await service.infer(stream, images, learn=learn)
        ranked = _best(reply, card.classes, top)
        return JSONResponse(
            {
                "model": card.name,
                "stream": stream,
                **told(reply, learned=learn),
                "estimated_accuracy": reply.facts.estimate,
                "predictions": [
                    {"file": file, "classes": best}
                    for (file, _), best in zip(files, ranked, strict=True)
                ],
            }
        )

    return routes


def _best(reply: Reply, classes: tuple[str, ...], top: int) -> list[list[dict[str, Any]]]:
    """Return the ``top`` likeliest classes of each picture, with their probabilities."""
    chances, order = reply.logits.softmax(dim=1).topk(top, dim=1)
    return [
        [
            {"class": classes[index], "index": index, "probability": chance}
            for chance, index in zip(row.tolist(), places.tolist(), strict=True)
        ]
        for row, places in zip(chances, order, strict=True)
    ]


def _query(request: Request, classes: int) -> tuple[str, bool, int]:
    """Return stream, whether to learn, and how many classes to name."""
    query = request.query_params
    strange = set(query) - set(_QUERY)
    if strange:
        raise bad(f"/predict takes {', '.join(_QUERY)}, got {shown(sorted(strange)[0])}")
    word, top = query.get("predict_only", "0").lower(), query.get("top", "5")
    if word not in _WORDS:
        raise bad(f"predict_only must be true or false, got {shown(word)}")
    if not (top.isascii() and top.isdigit() and len(top) < 6 and int(top) >= 1):
        raise bad(f"top must be a whole number above 0, got {shown(top)}")
    return stream_name(query.get("stream")), not _WORDS[word], min(int(top), classes)


async def _files(request: Request, body: bytes) -> list[tuple[str, bytes]]:
    """Return name and bytes of each picture: the body itself, or the files of a form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not body:
        raise bad("send a JPEG or PNG file as the body, or files in a multipart form; got nothing")
    if kind != "multipart/form-data":
        return [("", body)]
    again = Request(request.scope, _receive(body))
    try:
        async with again.form(max_files=MOST_FILES, max_fields=8, max_part_size=2**16) as form:
            parts = [part for _, part in form.multi_items() if isinstance(part, UploadFile)]
            found = [(part.filename or "", await part.read()) for part in parts]
    except (HTTPException, UnicodeDecodeError, ValueError, KeyError) as error:
        said = error.detail if isinstance(error, HTTPException) else str(error)
        raise bad(f"the form cannot be read: {shown(said)}") from None
    if not found:
        raise bad("the form holds no file; send pictures as files, like curl -F image=@FILE")
    return found


def _receive(body: bytes) -> Any:  # noqa: ANN401
    """Return what Starlette reads a body from that has been read already."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
