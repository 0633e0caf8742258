"""Operations of the annotation service over HTTP: answers, versions, errors and security."""

import errno
import io
import json
import logging
import socket
import zipfile
from contextlib import contextmanager

import pytest
from fastapi.testclient import TestClient
from tests.apps.annotation.projects import FIRST, MARKED, SECOND, make_project
from tests.apps.annotation.server.made_project import live_project as on_a_port
from tests.apps.service.live import PATIENCE, until

from cascade_srn.apps.annotation.files import LOG
from cascade_srn.apps.annotation.project import Project
from cascade_srn.apps.annotation.server.app import create_annotator, open_project
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.errors import TrainingError

DOCUMENT = "/api/documents/a%2Fb"
BODY = MARKED.to_dict()
OPERATIONS = [
    ("GET", "/api/project"), ("GET", "/api/queue"), ("GET", DOCUMENT), ("PUT", f"{DOCUMENT}/annotation"),
    ("POST", f"{DOCUMENT}/adjudication"), ("GET", "/api/training"), ("POST", "/api/training"),
    ("DELETE", "/api/training"), ("GET", "/api/agreement"), ("GET", "/api/export"), ("POST", "/api/import"),
]  # fmt: skip


@contextmanager
def live_project(project, **settings):
    """Yield a client of the service of a project, in this process."""
    app = create_annotator(project, ServeSettings(**settings))
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "p", guidelines="# Rules")


@pytest.fixture
def client(project):
    with live_project(project) as client:
        yield client


@pytest.fixture(scope="module")
def refusing(tmp_path_factory):
    """A client for requests that are refused, with the project, to which nothing is saved."""
    project = make_project(tmp_path_factory.mktemp("refusing") / "p")
    with live_project(project) as client:
        yield client, project
    assert project.annotators == []


@pytest.fixture(scope="module")
def with_key(tmp_path_factory):
    """A client of a service with an API key."""
    with live_project(make_project(tmp_path_factory.mktemp("key") / "p"), api_key="secret") as client:
        yield client


def save(client, annotator="anna", **changes):
    return client.put(f"{DOCUMENT}/annotation", params={"annotator": annotator}, json=BODY | changes)


def test_the_project_is_described(client):
    save(client)
    found = client.get("/api/project").json()
    assert found["schema"]["entities"][0] == {"label": "Method", "definition": "A technique."}
    assert found["schema"]["relations"][1]["symmetric"] is True
    assert (found["n_documents"], found["n_done"], found["has_model"]) == (2, 1, False)
    assert found["n_sentences"] == len(FIRST.sentences) + len(SECOND.sentences)
    assert (found["guidelines"], found["annotators"]) == ("# Rules", ["anna"])
    assert found["training"]["state"] == "idle"


def test_a_document_with_offsets_in_code_points(client):
    found = client.get(DOCUMENT, params={"annotator": "anna"}).json()
    assert found["text"] == FIRST.text
    words = [found["text"][start:end] for sentence in found["sentences"] for start, end in sentence["words"]]
    assert words == [word for sentence in FIRST.sentences for word in sentence.words]
    assert found["annotation"] == {
        "version": 0, "state": "new", "note": "", "entities": [], "relations": [], "rejected": [],
    }  # fmt: skip
    assert found["suggestions"] == {"entities": [], "relations": []}


def test_a_saved_annotation_is_on_disk_and_is_returned(client, project):
    assert save(client).json() == {"version": 1}
    line = json.loads((project.folder / LOG).read_text())
    assert line["annotation"] == BODY | {"version": 1}
    assert client.get(DOCUMENT, params={"annotator": "anna"}).json()["annotation"] == BODY | {"version": 1}
    assert client.get(DOCUMENT, params={"annotator": "ben"}).json()["annotation"]["version"] == 0


def test_an_older_version_is_refused_with_the_stored_one(client):
    save(client)
    answer = save(client, state="started")
    assert answer.status_code == 409
    assert answer.json()["annotation"] == BODY | {"version": 1}
    assert answer.json()["error"]["problem"]
    assert save(client, version=1, state="started").json() == {"version": 2}


def test_adjudication(client, project):
    save(client)
    answer = client.post(f"{DOCUMENT}/adjudication", params={"annotator": "ben"}, json=BODY | {"entities": []})
    assert answer.status_code == 422
    decided = BODY | {"relations": []}
    assert client.post(f"{DOCUMENT}/adjudication", params={"annotator": "ben"}, json=decided).json() == {"version": 1}
    assert len(project.annotated("a/b").relations) == 0
    assert save(client, "adjudicated").status_code == 422


def test_agreement(client):
    save(client, "anna")
    save(client, "ben", relations=[])
    found = client.get("/api/agreement", params={"first": "anna", "second": "ben"}).json()
    assert (found["entities"]["f1"], found["relations"]["f1"], found["kappa"]) == (1.0, 0.0, 1.0)
    assert len(found["disagreements"]) == 1


def test_export_and_import(client):
    save(client)
    answer = client.get("/api/export", params={"format": "jsonl"})
    assert 'filename="p-jsonl.jsonl"' in answer.headers["content-disposition"]
    back = client.post("/api/import", params={"format": "jsonl", "annotator": "ben"}, content=answer.content)
    assert back.json() == {"documents": 0, "annotations": 1}
    found = client.get("/api/agreement", params={"first": "anna", "second": "ben"}).json()
    assert found["disagreements"] == []


def snapshot(project):
    return {path.name: path.read_bytes() for path in project.folder.rglob("*") if path.is_file()}


def test_an_archive_that_expands_is_refused_and_changes_nothing(refusing):
    client, project = refusing
    content, before = io.BytesIO(), snapshot(project)
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a.txt", "a. " * 3_000_000)
        packed.writestr("a.ann", "")
    answer = client.post("/api/import", params={"format": "brat"}, content=content.getvalue())
    assert answer.status_code == 422
    assert answer.json()["error"]["message"] == (
        "the file, 'a.txt': the content has more than 4,194,304 bytes. "
        "Import it in parts, or use cascade-srn project import."
    )
    assert snapshot(project) == before


def test_an_import_stops_when_the_client_leaves(tmp_path, caplog):
    make_project(tmp_path / "p").close()
    body = b"".join(b'{"id": "%d", "text": "%s"}\n' % (n, b"one two " * 2_000) for n in range(100))
    head = f"POST /api/import HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    with caplog.at_level(logging.INFO), on_a_port(tmp_path / "p") as client:
        with socket.create_connection((client.base_url.host, client.base_url.port), PATIENCE) as connection:
            connection.sendall(head.encode() + body)
        until(lambda: "/api/import" in caplog.text)
        assert "/api/import 499" in caplog.text
        assert client.get("/api/project").json()["n_documents"] == 2
        assert client.post("/api/import", content=body[: body.index(b"\n")]).json() == {
            "documents": 1,
            "annotations": 1,
        }
        assert client.get("/api/project").json()["n_documents"] == 3


def test_the_queue(client):
    save(client, state="started")
    items = client.get("/api/queue", params={"annotator": "anna"}).json()["items"]
    assert [(item["id"], item["state"], item["n_entities"]) for item in items] == [
        ("a/b", "started", 2),
        ("c", "new", 0),
    ]
    assert client.get("/api/queue", params={"search": "slow"}).json()["total"] == 1


def test_training_without_annotations_is_refused(refusing):
    assert refusing[0].post("/api/training").status_code == 422
    assert refusing[0].delete("/api/training").json()["state"] == "idle"


def test_a_second_training_is_refused(client, monkeypatch):
    asked = []

    def fail(*, raw):
        asked.append(raw)
        raise TrainingError("a training is running")

    monkeypatch.setattr(client.app.state.learner, "start", fail)
    assert client.post("/api/training").status_code == 409
    assert client.post("/api/training?raw=true").status_code == 409
    assert client.post("/api/training?raw=perhaps").status_code == 422
    assert asked == [False, True]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"entities": [{"id": "e1", "start": 12, "end": 14, "label": "Method"}], "relations": []}, 422),
        ({"entities": [{"id": "e1", "start": -1, "end": 14, "label": "Method"}], "relations": []}, 422),
        ({"entities": {}}, 422), ({"state": "finished"}, 422), ({"version": "0"}, 422), ({"unknown": 1}, 422),
        ({"note": "x" * 30_000}, 422), ({"note": "x" * 3_000_000}, 413),
    ],
)  # fmt: skip
def test_annotations_that_are_refused(refusing, changes, status):
    client, project = refusing
    answer = save(client, **changes)
    assert answer.status_code == status
    assert {"code", "message", "problem", "hint"} <= answer.json()["error"].keys()
    assert project.annotators == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/documents/none", 404),
        ("PUT", "/api/documents/none/annotation", 404),
        ("GET", "/api/queue?limit=0", 422),
        ("GET", "/api/queue?stat=new", 422),
        ("GET", "/api/queue?annotator=", 422),
        ("GET", "/api/agreement?first=a", 422),
        ("GET", "/api/agreement?first=a&second=b", 422),
        ("GET", "/api/export?format=word", 422),
        ("GET", "/api/export", 422),
        ("POST", "/api/import?format=jsonl", 422),
        ("PUT", "/api/training", 405),
        ("GET", "/api/nothing", 404),
    ],
)
def test_errors(refusing, method, path, status):
    answer = refusing[0].request(method, path, json=BODY if method == "PUT" else None)
    assert answer.status_code == status
    assert "code" in answer.json()["error"]


def test_a_full_disk_is_reported_and_nothing_changes(client, project, monkeypatch):
    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(project._log, "append", fail)
    answer = save(client)
    assert answer.status_code == 507
    assert "No space" in answer.json()["error"]["problem"]
    assert client.get(DOCUMENT, params={"annotator": "anna"}).json()["annotation"]["version"] == 0


def test_a_project_that_cannot_be_written_is_opened_for_reading(project, monkeypatch, caplog):
    project.close()

    def fail(*arguments):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("cascade_srn.apps.annotation.project.FolderLock", fail)
    with live_project(open_project(project.folder)) as client:
        assert client.get(DOCUMENT).json()["text"] == FIRST.text
        answer = save(client)
    assert answer.status_code == 422
    assert "reading only" in answer.json()["error"]["problem"]
    assert "Read-only file system" in caplog.text


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_all_operations_need_the_key(with_key, method, path):
    assert with_key.request(method, path).status_code == 401
    assert with_key.request(method, path, headers={"X-API-Key": "wrong"}).status_code == 401
    assert with_key.request(method, path, headers={"X-API-Key": "secret"}).status_code != 401
    assert with_key.get("/health").status_code == 200


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_other_hosts_are_refused(refusing, method, path):
    assert refusing[0].request(method, path, headers={"Host": "evil.example"}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1"},
    ],
)
def test_foreign_pages_cannot_change_anything(refusing, headers):
    client, project = refusing
    assert client.put(f"{DOCUMENT}/annotation", json=BODY, headers=headers).status_code == 403
    assert client.post("/api/training", headers=headers).status_code == 403
    assert client.delete("/api/training", headers=headers).status_code == 403
    assert client.post("/api/import", content=b"x", headers=headers).status_code == 403
    assert project.annotators == []


@pytest.mark.parametrize("headers", [{"Origin": "http://127.0.0.1"}, {"Sec-Fetch-Site": "same-origin"}])
def test_the_own_page_can(client, headers):
    assert client.put(f"{DOCUMENT}/annotation", json=BODY, headers=headers).status_code == 200


def test_no_text_is_logged(client, caplog):
    with caplog.at_level(logging.DEBUG):
        client.get("/api/queue", params={"search": "tagging"})
        save(client, note="a secret remark")
        save(client, version=9)
        client.get("/api/documents/tagging%20is%20secret")
    logged = " ".join(one.getMessage() for one in caplog.records if one.name.startswith("cascade_srn"))
    assert "/api/documents/{id:path}/annotation 409" in logged
    assert not any(word in logged for word in ("secret", "tagging", "anna", "a/b"))


def test_the_project_is_free_when_the_service_has_ended(project):
    with live_project(project) as client:
        save(client)
    with Project.open(project.folder) as again:
        assert again.annotators == ["anna"]


def test_the_description_lists_all_operations(refusing):
    page = refusing[0].get("/docs").text
    for path in ("/api/queue", "/api/documents/{id}", "/api/training", "/api/export"):
        assert path in page
