"""What is the same for everyone and can be kept: the page's files, the style of drawings, the list of operations."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response

from cascade_srn.drawing import stylesheet
from cascade_srn.serving.operations import operations_page

INDEX = "index.html"
# Named here: what the system's table says differs from machine to machine.
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
}


@dataclass(frozen=True)
class Asset:
    """Bytes that never change while the service runs, their type, and a tag by which browsers know them again."""

    content: bytes
    type: str

    @property
    def tag(self) -> str:
        """The entity tag."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'


def page_files() -> Iterator[tuple[str, Asset]]:
    """The files of the page, by name. What is not among them cannot be asked for."""
    folder = files("cascade_srn.serving").joinpath("page")
    if not folder.is_dir():
        return
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        suffix = entry.name[entry.name.rfind(".") :] if "." in entry.name else ""
        if entry.is_file() and not entry.name.startswith((".", "_")) and suffix != ".py":
            kind = TYPES.get(suffix) or mimetypes.types_map.get(suffix, "application/octet-stream")
            yield entry.name, Asset(entry.read_bytes(), kind)


def file_routes(app: FastAPI) -> APIRouter:
    """The page at /, its files by name, the style of drawings, and the list of operations at /docs."""
    router = APIRouter()
    assets = {f"/{name}": asset for name, asset in page_files()}
    if f"/{INDEX}" in assets:
        assets["/"] = assets.pop(f"/{INDEX}")
    assets["/stylesheet.css"] = Asset(stylesheet().encode(), TYPES[".css"])
    assets["/docs"] = Asset(operations_page(app.openapi()).encode(), TYPES[".html"])
    for path, asset in assets.items():
        router.add_api_route(path, _endpoint(asset), methods=["GET", "HEAD"], include_in_schema=False)
    return router


def _endpoint(asset: Asset) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    # Revalidated each time: names stay the same from release to release.
    headers = {"ETag": asset.tag, "Cache-Control": "no-cache"}

    async def answer(request: Request) -> Response:
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if asset.tag in known or known == ["*"]:
            return Response(status_code=304, headers=headers)
        return Response(asset.content, headers={**headers, "Content-Type": asset.type})

    return answer
