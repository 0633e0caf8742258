"""Static files of the pages: what is served, and with which headers."""

import hashlib
from collections.abc import Callable, Coroutine, Mapping
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
SHARED_FOLDERS = ("web/shared", "web/vendor")


@dataclass(frozen=True)
class Asset:
    """A static file: its content and content type."""

    content: bytes
    type: str

    @property
    def tag(self) -> str:
        """Entity tag for the cache of browsers."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'


def page_assets(page: str) -> dict[str, Asset]:
    """Return the static files of a page by URL path: its folder and what all pages share. No other files are served.

    URL paths are the paths in ``apps``, so that relative imports resolve in the browser as in the source tree.
    ``/index.html`` is the page itself. It belongs at the root, because its links and requests start there.

    Args:
        page: Folder of the page in ``apps``, such as "service/page".
    """
    apps = files("cascade_srn.apps")
    found = {
        f"/{folder}/{entry.name}": Asset(entry.read_bytes(), CONTENT_TYPES[Path(entry.name).suffix])
        for folder in (page, *SHARED_FOLDERS)
        for entry in apps.joinpath(folder).iterdir()
        if Path(entry.name).suffix in CONTENT_TYPES
    }
    return {"/index.html": found.pop(f"/{page}/index.html"), **found}


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
