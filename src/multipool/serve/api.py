"""What operators and the live page ask: streams, pools and their pictures, events, state."""

from __future__ import annotations

import dataclasses
import time
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from multipool.serve.desk import Desk
from multipool.serve.entry import Entry
from multipool.serve.mosaic import mosaic
from multipool.serve.names import file_name, stream_name
from multipool.serve.refusal import Refusal, bad, shown

_MOST = 1000  # of a list


def api_routes(desk: Desk) -> APIRouter:
    """Return ``/metrics`` and the routes under ``/api``."""
    routes, service, card = APIRouter(), desk.service, desk.card

    @routes.get("/metrics")
    async def metrics() -> Response:
        await service.settled()
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    @routes.get("/api/service")
    async def about() -> JSONResponse:
        serving = dataclasses.asdict(service.serving) | {"state_dir": None}
        return JSONResponse(
            {
                "version": version("multipool"),
                "model": card.metadata(),
                "classes": card.classes,
                "method": card.method,
                "streams": len(service.entries),
                "in_memory": service.keeper.residents,
                "resident_bytes": service.keeper.nbytes,
                "pending": service.pending,
                "draining": service.draining,
                "started": service.started,
                "serving": serving,
            }
        )

    @routes.get("/api/streams")
    async def streams(request: Request) -> JSONResponse:
        await service.settled()
        entries = sorted(service.entries.values(), key=lambda e: -e.used)
        shown_entries = entries[: _limit(request)]
        return JSONResponse(
            {"streams": [summary(entry) for entry in shown_entries], "total": len(entries)}
        )

    @routes.get("/api/events")
    async def events(request: Request) -> JSONResponse:
        await service.settled()
        name = request.query_params.get("stream")
        chosen = None if name is None else stream_name(name)
        found = service.events.last(_limit(request), chosen)
        return JSONResponse({"events": [dataclasses.asdict(event) for event in found]})

    _stream_routes(routes, desk)
    return routes


def _stream_routes(routes: APIRouter, desk: Desk) -> None:
    service, backend = desk.service, desk.service.backend
    path = "/api/streams/{stream}"

    def entry_of(stream: str) -> Entry:
        found = service.entries.get(stream_name(stream))
        if found is None:
            raise Refusal(404, f"there is no stream {shown(stream)}")
        return found

    @routes.get(path)
    async def one(stream: str) -> JSONResponse:
        await service.settled()
        entry = entry_of(stream)
        recent = service.events.last(50, entry.name)
        about = {"history": entry.history.lists(), "events": [vars(event) for event in recent]}
        return JSONResponse(summary(entry) | about)

    @routes.get(f"{path}/pools")
    async def pools(stream: str) -> JSONResponse:
        entry = entry_of(stream)
        found = await service.chore(entry.name, lambda e: backend.pools(e.name))
        return JSONResponse({"pools": found})

    @routes.get(f"{path}/pictures/{{bank}}.png")
    async def picture(stream: str, bank: str) -> Response:
        entry = entry_of(stream)
        found = await service.chore(entry.name, lambda e: backend.pool_images(e.name))
        if bank not in found:
            raise Refusal(404, f"stream '{entry.name}' has no pictures in a bank {shown(bank)}")
        return Response(mosaic(found[bank]), media_type="image/png")

    @routes.get(f"{path}/state")
    async def state(stream: str) -> Response:
        entry = entry_of(stream)
        content = await service.chore(entry.name, lambda e: backend.download(e.name))
        attached = {"Content-Disposition": f'attachment; filename="{file_name(entry.name)}"'}
        return Response(content, media_type="application/octet-stream", headers=attached)

    @routes.post(f"{path}/snapshot")
    async def snapshot(stream: str) -> JSONResponse:
        entry = entry_of(stream)
        await service.snapshot(entry.name)
        return JSONResponse(summary(entry))

    @routes.post(f"{path}/reset")
    async def reset(stream: str) -> JSONResponse:
        entry = entry_of(stream)
        await service.reset(entry.name)
        return JSONResponse(summary(entry))

    @routes.delete(path)
    async def remove(stream: str) -> JSONResponse:
        entry = entry_of(stream)
        await service.remove(entry.name)
        return JSONResponse({"removed": entry.name})


def summary(entry: Entry) -> dict[str, Any]:
    """Return what a list says about a stream."""
    facts = entry.facts
    now = time.monotonic()
    since = entry.unsaved_since
    return {
        "name": entry.name,
        "in_memory": entry.resident,
        "on_disk": entry.on_disk,
        "waiting": len(entry.waiting),
        "requests": entry.requests,
        "idle_seconds": round(now - entry.used, 3),
        "unsaved_seconds": None if since is None else round(now - since, 3),
        "saved_at": entry.saved_at,
        **{f.name: getattr(facts, f.name) for f in dataclasses.fields(facts) if f.name != "news"},
    }


def _limit(request: Request) -> int:
    given = request.query_params.get("limit", "100")
    if not (given.isascii() and given.isdigit() and len(given) < 6):
        raise bad(f"limit must be a whole number, got {shown(given)}")
    return min(int(given), _MOST)
