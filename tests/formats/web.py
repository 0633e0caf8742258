"""Local web server that can break off, ignore ranges, or send wrong data."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """Files by path, and the behaviour of the server."""

    files: dict[str, bytes]
    url: str = ""
    # Close the connection after this many bytes of a response.
    breaks_after: int | None = None
    ranges: bool = True
    # Whether to state the length, or a wrong length to state.
    states_length: bool | int = True
    # Wrong start to state in a partial response.
    wrong_start: int | None = None
    # Redirects by path.
    redirects: dict[str, str] = field(default_factory=dict)
    asked: list[str | None] = field(default_factory=list)


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    """Serve the site during the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            site.asked.append(asked)
            if self.path in site.redirects:
                self.send_response(302)
                self.send_header("Location", site.redirects[self.path])
                self.end_headers()
                return
            content = site.files.get(self.path.partition("?")[0])
            if content is None:
                self.send_error(404)
                return
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and site.ranges else 0
            if start >= len(content) > 0 and start:
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if start:
                stated = start if site.wrong_start is None else site.wrong_start
                self.send_header("Content-Range", f"bytes {stated}-{len(content) - 1}/{len(content)}")
            if site.states_length:
                stated_length = len(content) - start if site.states_length is True else site.states_length
                self.send_header("Content-Length", str(stated_length))
            self.end_headers()
            self.wfile.write(content[start:][: site.breaks_after])

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
