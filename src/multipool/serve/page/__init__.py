"""The live page at ``/``: one answer, whole in itself, that polls the routes under ``/api``."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

_FOLDER = Path(__file__).parent


def page_routes() -> APIRouter:
    """Return ``GET /``; it shows nothing of the service, so that it may be had without a token."""
    routes, content, headers = APIRouter(), *live_page()

    @routes.get("/")
    async def page() -> HTMLResponse:
        return HTMLResponse(content, headers=headers)

    return routes


def live_page() -> tuple[str, dict[str, str]]:
    """Return the page, and headers that let a browser run and load nothing else."""
    style = _part("page.css")
    script = _part("chart.js") + _part("page.js")
    content = _part("page.html").replace("STYLE", style, 1).replace("SCRIPT", script, 1)
    rules = {
        "default-src": "'none'",
        "connect-src": "'self'",
        "img-src": "blob: data:",
        "style-src": _hash(style),
        "script-src": _hash(script),
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
    }
    headers = {
        "Content-Security-Policy": "; ".join(f"{name} {rule}" for name, rule in rules.items()),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
    return content, headers


def _part(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
