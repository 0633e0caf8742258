"""Static files of the pages: what is served, and with which headers."""

import hashlib
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

# Files with other suffixes are not served. The tables of the system are not used, because they differ.
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Asset:
    """A static file: its content and content type."""

    content: bytes
    type: str

    @property
    def tag(self) -> str:
        """Entity tag for the cache of browsers."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'


def page_files(*folder: str) -> Iterator[tuple[str, Asset]]:
    """Yield the files of a page with their names. No other files are served."""
    place = files("cascade_srn.apps").joinpath(*(folder or ("web", "page")))
    for entry in sorted(place.iterdir(), key=lambda entry: entry.name):
        content_type = CONTENT_TYPES.get(Path(entry.name).suffix)
        if content_type is not None:
            yield entry.name, Asset(entry.read_bytes(), content_type)


def show_links(index: Asset) -> Asset:
    """Return a page with the links to the other pages of the service, which it hides otherwise."""
    return replace(index, content=index.content.replace(b'<nav class="pages" hidden', b'<nav class="pages"'))


def add_assets(router: APIRouter, assets: Mapping[str, Asset]) -> None:
    """Add a route for each static file, by its path."""
    for path, asset in assets.items():
        router.add_api_route(path, _endpoint(asset), methods=["GET", "HEAD"], include_in_schema=False)


def _endpoint(asset: Asset) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    # Revalidated on each use, because names stay the same across releases.
    headers = {"ETag": asset.tag, "Cache-Control": "no-cache"}

    async def respond(request: Request) -> Response:
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if asset.tag in known or known == ["*"]:
            return Response(status_code=304, headers=headers)
        return Response(asset.content, headers={**headers, "Content-Type": asset.type})

    return respond
