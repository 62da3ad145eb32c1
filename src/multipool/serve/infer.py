"""The routes of the Open Inference Protocol, version 2."""

from __future__ import annotations

from importlib.metadata import version as installed

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from multipool.serve.desk import Desk, as_images
from multipool.serve.protocol import InferRequest, answer_infer, parse_infer
from multipool.serve.refusal import Refusal

LENGTH = "Inference-Header-Content-Length"


def infer_routes(desk: Desk) -> APIRouter:
    """Return the routes under ``/v2``."""
    routes, service = APIRouter(prefix="/v2"), desk.service

    @routes.get("")
    async def server() -> JSONResponse:
        extensions = ["binary_tensor_data", "sequence"]
        about = {"name": "multipool", "version": installed("multipool"), "extensions": extensions}
        return JSONResponse(about)

    @routes.get("/health/live")
    async def live() -> JSONResponse:
        return JSONResponse({"live": True})

    @routes.get("/health/ready")
    async def ready() -> JSONResponse:
        if service.draining:
            raise Refusal(503, "the service is shutting down", 5)
        return JSONResponse({"ready": True})

    for path in ("/models/{model}", "/models/{model}/versions/{version}"):
        _model_routes(routes, path, desk)
    return routes


def _model_routes(routes: APIRouter, path: str, desk: Desk) -> None:
    service, card = desk.service, desk.card

    @routes.get(path)
    async def metadata(model: str, version: str | None = None) -> JSONResponse:
        card.check(model, version)
        return JSONResponse(card.metadata())

    @routes.get(f"{path}/ready")
    async def model_ready(model: str, version: str | None = None) -> JSONResponse:
        card.check(model, version)
        return JSONResponse({"name": card.name, "ready": not service.draining})

    @routes.post(f"{path}/infer")
    async def infer(request: Request, model: str, version: str | None = None) -> Response:
        card.check(model, version)
        limits, length = service.serving.limits, request.headers.get(LENGTH)
        async with desk.body(request) as body:

            def parse() -> InferRequest:
                return parse_infer(body, length, card.size, limits.max_images)

            asked = await desk.read(parse, len(body))
            reply = await service.infer(
                asked.stream,
                as_images(asked.images),
                learn=asked.learn,
                start=asked.start,
                end=asked.end,
            )
        content, head = answer_infer(asked, reply, card.name)
        if head is None:
            return Response(content, media_type="application/json")
        headers = {LENGTH: str(head)}
        return Response(content, media_type="application/octet-stream", headers=headers)
