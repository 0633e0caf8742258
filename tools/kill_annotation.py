"""Kill the annotation service at random moments during scripted editing, and check that nothing is lost.

Run it from the root of the repository:

    python tools/kill_annotation.py --kills 200

Several annotators, one of them in two tabs, save random annotations over HTTP and import new documents. The process of
the service gets SIGKILL at a random moment. Then the project must open, every file must be readable, and every change
that was acknowledged must be stored; a change whose answer was lost may be. The service is started again until there
were enough kills. Exit code 0 means that nothing was lost.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[1]
WORDS = """a and by for in of on the to with accuracy corpus data decoder embedding encoder entity evaluation graph
grammar kernel language learning machine method model network neural parser parsing recall relation sentence"""
ENTITIES, RELATIONS = ("Method", "Task"), ("USED-FOR", "COMPARE")
ANNOTATORS = ("anna", "anna", "ben", "chen")
# A service that does not start in this time hangs.
PATIENCE = 120.0

Key = tuple[str, str]


@dataclass
class Journal:
    """What the clients know: acknowledged states, and everything they have sent."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    acknowledged: dict[Key, tuple[int, str]] = field(default_factory=dict)
    sent: dict[tuple[Key, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    imported: dict[str, str] = field(default_factory=dict)
    n_changes: int = 0
    n_conflicts: int = 0
    problems: list[str] = field(default_factory=list)

    def acknowledge(self, key: Key, version: int, content: str) -> None:
        """Record what the service has confirmed."""
        with self.lock:
            if version > self.acknowledged.get(key, (0, ""))[0]:
                self.acknowledged[key] = version, content
            self.n_changes += 1


def make_text(rng: random.Random) -> str:
    """Return a text of a few sentences."""
    lines = (" ".join(rng.choices(WORDS.split(), k=rng.randint(3, 12))) for _ in range(rng.randint(1, 5)))
    return " ".join(f"{line.capitalize()}." for line in lines)


def make_body(document: dict[str, Any], version: int, rng: random.Random) -> dict[str, Any]:
    """Return a random annotation of a document."""
    entities: dict[tuple[int, int, str], dict[str, Any]] = {}
    relations: list[dict[str, Any]] = []
    for sentence in document["sentences"]:
        words, ids = sentence["words"], []
        for _ in range(rng.randint(0, 3)):
            first = rng.randrange(len(words))
            last = rng.randrange(first, min(len(words), first + 3))
            span = words[first][0], words[last][1], rng.choice(ENTITIES)
            id = f"e{len(entities)}"
            if span not in entities:
                entities[span] = {"id": id, "start": span[0], "end": span[1], "label": span[2], "origin": "person"}
                ids.append(id)
        if len(ids) >= 2:
            relation = {"id": f"r{len(relations)}", "head": ids[0], "tail": ids[1], "label": rng.choice(RELATIONS)}
            relations.append(relation | {"origin": "model"})
    return {
        "version": version,
        "state": rng.choice(["started", "done"]),
        "note": f"{rng.random()}" + "x" * rng.choice([0, 10, 5000]),
        "entities": list(entities.values()),
        "relations": relations,
        "rejected": [],
    }


def content_of(annotation: dict[str, Any]) -> str:
    """Return an annotation without its version, for comparison."""
    return json.dumps({key: value for key, value in annotation.items() if key != "version"}, sort_keys=True)


class Client(threading.Thread):
    """One tab of an annotator, which edits until the service is gone."""

    def __init__(self, address: str, annotator: str, journal: Journal, seed: str) -> None:
        super().__init__(daemon=True)
        self.address = address.removeprefix("http://")
        self.annotator = annotator
        self.journal = journal
        self.rng = random.Random(seed)
        self.seed = seed
        self._views: dict[str, tuple[dict[str, Any], int]] = {}

    def run(self) -> None:
        """Edit until the connection breaks."""
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE)
        try:
            ids = [item["id"] for item in self._ask(connection, "GET", "/api/queue?limit=1000")["items"]]
            for step in range(100_000):
                if self.rng.random() < 0.03:
                    self._import(connection, step)
                else:
                    self._edit(connection, self.rng.choice(ids[:8]))
        except (OSError, http.client.HTTPException):
            return  # killed
        except Exception as error:
            self.journal.problems.append(f"client {self.annotator}: {error!r}")
        finally:
            connection.close()

    def _ask(self, connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {} if data is None else {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status not in (200, 409):
            raise AssertionError(f"{method} {path.partition('?')[0]}: {response.status} {answer}")
        return answer

    def _edit(self, connection: http.client.HTTPConnection, id: str) -> None:
        place = f"/api/documents/{quote(id, safe='')}"
        if id not in self._views:
            found = self._ask(connection, "GET", f"{place}?annotator={self.annotator}")
            self._views[id] = found, found["annotation"]["version"]
        document, version = self._views[id]
        body, key = make_body(document, version, self.rng), (id, self.annotator)
        with self.journal.lock:
            self.journal.sent[key, version + 1].add(content_of(body))
        answer = self._ask(connection, "PUT", f"{place}/annotation?annotator={self.annotator}", body)
        if "annotation" in answer:
            stored = answer["annotation"]
            self._views[id] = document, stored["version"]
            self.journal.n_conflicts += 1
            self.journal.acknowledge(key, stored["version"], content_of(stored))
        else:
            self._views[id] = document, answer["version"]
            if answer["version"] != version + 1:
                self.journal.problems.append(f"version {answer['version']} follows {version}")
            self.journal.acknowledge(key, answer["version"], content_of(body))

    def _import(self, connection: http.client.HTTPConnection, step: int) -> None:
        id, text = f"imported-{self.seed}-{step}", make_text(self.rng)
        path = f"/api/import?format=jsonl&annotator=import-{self.annotator}"
        self._ask(connection, "POST", path, {"id": id, "text": text, "entities": [], "relations": []})
        with self.journal.lock:
            self.journal.imported[id] = text
            self.journal.n_changes += 1


def serve(folder: str, ready: Connection, log_bytes: int) -> None:
    """Run the service in this process."""
    from cascade_srn.apps.annotation import files
    from cascade_srn.apps.annotation.server.app import serve_project
    from cascade_srn.apps.web.settings import ServeSettings

    files.MAX_BYTES = log_bytes  # small, so that kills also hit the compaction of the log
    serve_project(folder, ServeSettings(port=0), on_ready=ready.send)


def check(folder: Path, journal: Journal) -> None:
    """Compare the files of a project with what was acknowledged."""
    from cascade_srn.apps.annotation.project import Project

    with Project.open(folder, read_only=True) as project:
        for id, text in journal.imported.items():
            if id not in project.documents or project.documents[id].text != text:
                journal.problems.append(f"the imported document {id} is lost")
        for (id, annotator), (version, content) in journal.acknowledged.items():
            stored = project.annotation(id, annotator)
            found = content_of(stored.to_dict())
            if stored.version < version:
                journal.problems.append(f"version {version} of {id} by {annotator} is lost: {stored.version} is stored")
            elif stored.version == version and found != content:
                journal.problems.append(f"version {version} of {id} by {annotator} has another content")
            elif stored.version > version and found not in journal.sent[(id, annotator), stored.version]:
                journal.problems.append(f"version {stored.version} of {id} by {annotator} was never sent")
            # What is stored now is what the clients see next.
            journal.acknowledged[id, annotator] = stored.version, found


def edit(ready: Connection, journal: Journal, seed: str) -> list[Client]:
    """Start clients, and return them when the first change of one of them was acknowledged."""
    try:
        address = ready.recv() if ready.poll(PATIENCE) else None
    except EOFError:
        address = None
    if address is None:
        journal.problems.append("the service does not start")
        return []
    before, begun = journal.n_changes, time.monotonic()
    clients = [Client(address, name, journal, f"{seed}-{number}") for number, name in enumerate(ANNOTATORS)]
    for client in clients:
        client.start()
    while journal.n_changes == before and any(client.is_alive() for client in clients):
        if time.monotonic() - begun > PATIENCE:
            journal.problems.append("no change was acknowledged")
            break
        time.sleep(0.005)
    return clients


def disturb(folder: Path, kills: int, *, seed: int = 0, longest: float = 1.0, log_bytes: int = 60_000) -> Journal:
    """Run the experiment in a folder."""
    from cascade_srn.apps.annotation.annotations import ProjectLabels
    from cascade_srn.apps.annotation.project import Project
    from cascade_srn.types import Document

    rng, journal, place = random.Random(seed), Journal(), folder / "project"
    labels = ProjectLabels.from_dict({"entities": list(ENTITIES), "relations": list(RELATIONS)})
    documents = [Document.from_text(make_text(rng), id=f"texts/{number}") for number in range(8)]
    Project.create(place, documents, labels).close()
    context = multiprocessing.get_context("forkserver")
    # The imports take seconds, and are done once.
    context.set_forkserver_preload(["cascade_srn.apps.annotation.server.app"])
    for kill in range(kills):
        ours, theirs = context.Pipe(duplex=False)
        service = context.Process(target=serve, args=(str(place), theirs, log_bytes), daemon=True)
        service.start()
        theirs.close()
        clients: list[Client] = []
        try:
            # Some kills hit the opening of the project.
            if rng.random() < 0.15:
                time.sleep(rng.uniform(0.0, longest))
            else:
                clients = edit(ours, journal, f"{seed}-{kill}")
                time.sleep(rng.uniform(0.0, longest))
        finally:
            assert service.pid is not None
            os.kill(service.pid, signal.SIGKILL)
            service.join()
        for client in clients:
            client.join(PATIENCE)
        check(place, journal)
        if journal.problems:
            break
    with Project.open(place) as project:  # also for writing, with a compaction
        assert all(id in project.documents for id in journal.imported)
    check(place, journal)
    return journal


def main(arguments: list[str] | None = None) -> int:
    """Run the experiment and print its outcome."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--longest", type=float, default=1.0, help="longest time between start and kill, in seconds")
    parser.add_argument("--seed", type=int, default=0, help="decides texts, annotations and moments")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kill-annotation-") as folder:
        journal = disturb(Path(folder), options.kills, seed=options.seed, longest=options.longest)
    print(f"{options.kills} kills, {journal.n_changes} acknowledged changes, {journal.n_conflicts} conflicts")
    for problem in journal.problems:
        print(problem)
    print("something was lost" if journal.problems else "nothing was lost")
    return bool(journal.problems)


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    sys.exit(main())
