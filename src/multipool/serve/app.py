"""The application: routes around one service."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from multipool.serve.api import api_routes
from multipool.serve.card import ModelCard
from multipool.serve.desk import Desk, refused
from multipool.serve.gate import Access, Gate
from multipool.serve.infer import infer_routes
from multipool.serve.page import page_routes
from multipool.serve.predict import predict_routes
from multipool.serve.refusal import Refusal, shown
from multipool.serve.service import Service

_log = logging.getLogger("multipool.serve")
_PHRASES = {404: "there is nothing at {path}", 405: "{path} does not take {method}"}


def make_app(service: Service, card: ModelCard, access: Access = Access()) -> FastAPI:
    """Return the application; the service starts and stops with it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.close()

    # No pages of documentation: they would load scripts from elsewhere.
    app = FastAPI(
        title="multipool",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    desk = Desk(service, card)
    for routes in (infer_routes(desk), predict_routes(desk), api_routes(desk), page_routes()):
        app.include_router(routes)
    most = service.serving.limits.max_requests
    app.add_middleware(Gate, access=access, metrics=service.metrics, most=most)
    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(Exception, _fault)
    return app


def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    phrase = _PHRASES.get(error.status_code, "the request cannot be answered: {detail}")
    sentence = phrase.format(
        path=shown(request.url.path), method=request.method, detail=shown(error.detail)
    )
    return JSONResponse({"error": sentence}, error.status_code, headers=error.headers)


def _fault(request: Request, error: Exception) -> Response:
    _log.error("a request failed", exc_info=error)
    return JSONResponse({"error": "the service failed to answer; its log says why"}, 500)
