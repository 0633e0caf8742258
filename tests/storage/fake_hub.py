"""A stand-in for the HTTP interface of the Hugging Face hub, as far as uploads and downloads of models need it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

# Larger files are uploaded through LFS.
LFS_BYTES = 10_000
_ID = r"(?P<id>[^/]+/[^/]+)"


@dataclass
class Repository:
    """A repository: its visibility, and the files and messages of each branch."""

    private: bool
    branches: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"main": {}})
    messages: list[str] = field(default_factory=list)

    def files(self, revision: str) -> dict[str, bytes] | None:
        """Return the files of a branch, or of a commit."""
        for name, files in self.branches.items():
            if revision in (name, self.sha(name)):
                return files
        return None

    def sha(self, branch: str) -> str:
        """Return the commit of a branch: a hash of its files."""
        return hashlib.sha1(repr(sorted(self.branches[branch].items())).encode()).hexdigest()


class FakeHub(ThreadingHTTPServer):
    """The server. ``tokens`` maps each token to its owner; only owners can write."""

    daemon_threads = True

    def __init__(self, tokens: dict[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.tokens = tokens
        self.repositories: dict[str, Repository] = {}
        self.blobs: dict[str, bytes] = {}
        self.requests: list[str] = []

    @property
    def address(self) -> str:
        """The endpoint."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def running_hub(tokens: dict[str, str]) -> Iterator[FakeHub]:
    """Run a hub in a thread."""
    with FakeHub(tokens) as hub:
        thread = threading.Thread(target=hub.serve_forever, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: FakeHub
    protocol_version = "HTTP/1.1"

    ROUTES = (
        ("GET", r"/api/whoami-v2", "whoami"),
        ("POST", r"/api/repos/create", "create"),
        ("POST", r"/api/validate-yaml", "validate"),
        ("GET", rf"/api/models/{_ID}(/revision/(?P<revision>[^/]+))?", "info"),
        ("GET", rf"/api/models/{_ID}/tree/(?P<revision>[^/]+)", "tree"),
        ("POST", rf"/api/models/{_ID}/branch/(?P<revision>[^/]+)", "branch"),
        ("POST", rf"/api/models/{_ID}/preupload/(?P<revision>[^/]+)", "preupload"),
        ("POST", rf"/api/models/{_ID}/commit/(?P<revision>[^/]+)", "commit"),
        ("POST", rf"/{_ID}\.git/info/lfs/objects/batch", "batch"),
        ("PUT", r"/lfs/(?P<oid>\w+)", "upload"),
        ("POST", r"/lfs/verify", "verify"),
        ("GET", rf"/{_ID}/resolve/(?P<revision>[^/]+)/(?P<path>.+)", "resolve"),
    )

    def log_message(self, *_: object) -> None:
        pass

    def _handle(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        method = "GET" if self.command == "HEAD" else self.command
        for verb, pattern, name in self.ROUTES:
            if verb == method and (found := re.fullmatch(pattern, path)):
                groups = found.groupdict()
                repository = self._repository(groups) if "id" in groups else None
                if "id" in groups and repository is None:
                    return self._answer(404, {"error": "not found"}, {"X-Error-Code": "RepoNotFound"})
                return getattr(self, f"_{name}")(repository, groups)
        self._answer(404, {"error": f"no route {method} {path}"})

    do_GET = do_HEAD = do_POST = do_PUT = _handle

    @property
    def _owner(self) -> str | None:
        return self.server.tokens.get((self.headers.get("Authorization") or "").removeprefix("Bearer "))

    def _repository(self, groups: dict[str, str]) -> Repository | None:
        """Return a repository if it exists and the owner of the token may see it."""
        found = self.server.repositories.get(groups["id"])
        hidden = found is not None and found.private and self._owner != groups["id"].split("/")[0]
        return None if hidden else found

    def _json(self) -> dict:
        return json.loads(self.body)

    def _answer(self, status: int, content: object, headers: dict[str, str] | None = None) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _may_write(self, name: str) -> bool:
        if self._owner is None:
            self._answer(401, {"error": "Invalid username or password."})
        elif self._owner != name.split("/")[0]:
            self._answer(403, {"error": "You don't have the rights"})
        return self._owner == name.split("/")[0]

    def _whoami(self, *_: object) -> None:
        if self._owner is None:
            return self._answer(401, {"error": "Invalid username or password."})
        self._answer(200, {"name": self._owner, "type": "user", "orgs": []})

    def _create(self, *_: object) -> None:
        given = self._json()
        name = f"{given.get('organization') or self._owner}/{given['name']}"
        if not self._may_write(name):
            return
        if name in self.server.repositories:
            return self._answer(409, {"error": "exists", "url": f"{self.server.address}/{name}"})
        private = given.get("visibility") == "private" or bool(given.get("private"))
        self.server.repositories[name] = Repository(private)
        self._answer(200, {"url": f"{self.server.address}/{name}", "name": name})

    def _validate(self, *_: object) -> None:
        self._answer(200, {"errors": [], "warnings": []})

    def _info(self, repository: Repository, groups: dict[str, str]) -> None:
        branch = groups["revision"] or "main"
        files = repository.files(branch)
        if files is None:
            return self._answer(404, {"error": "no revision"}, {"X-Error-Code": "RevisionNotFound"})
        sha = repository.sha(branch) if branch in repository.branches else branch
        siblings = [{"rfilename": name} for name in files]
        self._answer(
            200, {"id": groups["id"], "private": repository.private, "sha": sha, "tags": [], "siblings": siblings}
        )

    def _tree(self, repository: Repository, groups: dict[str, str]) -> None:
        files = repository.files(groups["revision"]) or {}
        self._answer(
            200,
            [{"type": "file", "path": n, "size": len(d), "oid": hashlib.sha1(d).hexdigest()} for n, d in files.items()],
        )

    def _branch(self, repository: Repository, groups: dict[str, str]) -> None:
        if groups["revision"] in repository.branches:
            return self._answer(409, {"error": "exists"})
        repository.branches[groups["revision"]] = dict(repository.branches["main"])
        self._answer(200, {})

    def _preupload(self, repository: Repository, groups: dict[str, str]) -> None:
        if self._may_write(groups["id"]):
            files = [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if file["size"] > LFS_BYTES else "regular",
                    "shouldIgnore": False,
                }
                for file in self._json()["files"]
            ]
            self._answer(200, {"files": files})

    def _batch(self, repository: Repository, groups: dict[str, str]) -> None:
        actions = {"verify": {"href": f"{self.server.address}/lfs/verify"}}
        objects = [
            {**one, "actions": {"upload": {"href": f"{self.server.address}/lfs/{one['oid']}"}, **actions}}
            for one in self._json()["objects"]
        ]
        self._answer(200, {"transfer": "basic", "objects": objects}, {"Content-Type": "application/json"})

    def _upload(self, _: None, groups: dict[str, str]) -> None:
        if hashlib.sha256(self.body).hexdigest() != groups["oid"]:
            return self._answer(400, {"error": "wrong checksum"})
        self.server.blobs[groups["oid"]] = self.body
        self._answer(200, {})

    def _verify(self, *_: object) -> None:
        self._answer(200 if self._json()["oid"] in self.server.blobs else 404, {})

    def _commit(self, repository: Repository, groups: dict[str, str]) -> None:
        if not self._may_write(groups["id"]):
            return
        files = repository.branches[groups["revision"]]
        for line in map(json.loads, self.body.splitlines()):
            value = line["value"]
            if line["key"] == "header":
                repository.messages.append(value["summary"])
            elif line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            else:
                files[value["path"]] = self.server.blobs[value["oid"]]
        sha = repository.sha(groups["revision"])
        self._answer(200, {"commitUrl": f"{self.server.address}/{groups['id']}/commit/{sha}", "commitOid": sha})

    def _resolve(self, repository: Repository, groups: dict[str, str]) -> None:
        data = (repository.files(groups["revision"]) or {}).get(groups["path"])
        if data is None:
            return self._answer(404, {"error": "no file"}, {"X-Error-Code": "EntryNotFound"})
        self._answer(200, data, {"X-Repo-Commit": groups["revision"], "ETag": f'"{hashlib.sha1(data).hexdigest()}"'})
