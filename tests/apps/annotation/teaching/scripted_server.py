"""A chat completions server for tests: it answers by a script, counts what it was asked, and can misbehave."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ScriptedServer(ThreadingHTTPServer):
    """Answers requests with ``script``, which gets the number of the request, from 1, and its body.

    The script returns the text of an answer, a tuple of status, headers and body, or a function that gets the handler.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, script: Callable[[int, dict[str, Any]], Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.lock = threading.Lock()
        self.busy = self.most_busy = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that are killed or give up close their connections."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            server.requests.append({"path": self.path, **body})
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            number = len(server.requests)
            server.busy += 1
            server.most_busy = max(server.most_busy, server.busy)
        try:
            answer = server.script(number, body)
            if callable(answer):
                answer(self)
            else:
                self.reply(*(answer if isinstance(answer, tuple) else (200, {}, completion(answer))))
        finally:
            with server.lock:
                server.busy -= 1

    def reply(self, status: int, headers: dict[str, str], body: Any) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        pass


def completion(content: str | None, tokens: tuple[int, int] | None = (100, 20), **more: Any) -> dict[str, Any]:
    """Return a chat completion."""
    message = {"role": "assistant", "content": content, **more.pop("message", {})}
    usage = {} if tokens is None else {"usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}}
    return {"choices": [{"message": message, "finish_reason": "stop", **more}], **usage}


def sentence_of(body: dict[str, Any]) -> str:
    """Return the sentence of a question."""
    return str(json.loads(body["messages"][0]["content"].rpartition("Sentence: ")[2]))


def label(body: dict[str, Any], **relation: str) -> str:
    """Answer like a good teacher: the word after "The" is a Party, the one after "the" a Thing."""
    words = sentence_of(body).rstrip(".").split()
    entities = [
        {"id": f"e{n}", "quote": words[n + 1], "type": "Party" if word == "The" else "Thing"}
        for n, word in enumerate(words[:-1])
        if word in ("The", "the")
    ]
    relations = [{"head": entities[0]["id"], "type": "OWES", "tail": entities[1]["id"]}] if len(entities) > 1 else []
    return json.dumps({"entities": entities, "relations": relations})


def drip(chunk: bytes, pause: float) -> Callable[[_Handler], None]:
    """Return an answer that never ends: the same bytes again and again."""

    def answer(handler: _Handler) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        while True:
            handler.wfile.write(chunk)
            handler.wfile.flush()
            time.sleep(pause)

    return answer


@contextmanager
def serving(
    script: Callable[[int, dict[str, Any]], Any] = lambda number, body: label(body),
) -> Iterator[ScriptedServer]:
    """Run a server in this block."""
    server = ScriptedServer(script)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
