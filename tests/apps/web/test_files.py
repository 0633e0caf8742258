"""Drawings, conversions, the schema and static files."""

import re
from importlib.resources import files
from xml.etree import ElementTree

import pytest
from tests.apps.service.live import TEXT, live
from tests.apps.web.test_refusals import DOCUMENT
from tests.small_models import small_model

from cascade_srn import Document, Extractor
from cascade_srn.apps.service.messages import DocumentForm
from cascade_srn.apps.service.requests import read_document
from cascade_srn.apps.web.assets import Asset, page_assets
from cascade_srn.apps.web.refusals import Refusal
from cascade_srn.apps.web.settings import Limits
from cascade_srn.drawing import draw_document, draw_svg, stylesheet
from cascade_srn.version import __version__


def test_a_text_drawn(service, extractor):
    answer = service.post("/draw", {"text": TEXT})
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    document = Document.from_dict(service.post("/extract", {"text": TEXT}).json()["documents"][0])
    assert answer.text == draw_document(document, schema=extractor.schema, style=False)


@pytest.mark.parametrize("repeats", [1, 500])
def test_a_document_drawn(service, extractor, repeats):
    """A short document is read in the event loop, a long one in a thread."""
    text = "taggers and parsers " * repeats
    offsets = [[m.start(), m.end()] for m in re.finditer(r"\w+", text)]
    record = DOCUMENT | {"text": text, "sentences": [offsets]}
    answer = service.post("/draw", {"document": record, "format": "html"})
    expected = draw_document(Document.from_dict(record), schema=extractor.schema, style=False)
    assert answer.status_code == 200
    assert answer.text == expected


def test_a_document_with_coreference(service):
    clusters = [[[0, 7], [12, 19]]]
    form = DocumentForm(**DOCUMENT, clusters=clusters)
    assert read_document(form, Limits()).to_dict()["clusters"] == clusters
    assert service.post("/draw", {"document": DOCUMENT | {"clusters": clusters}}).status_code == 200
    for wrong in ([[[0, 3]]], [[[0, 7]], [[0, 7]]], [[[0]]], [[]]):
        assert service.post("/draw", {"document": DOCUMENT | {"clusters": wrong}}).status_code == 422
    with pytest.raises(Refusal):
        read_document(form, Limits(annotations=4))


def test_a_document_as_a_picture(service, extractor):
    answer = service.post("/draw", {"document": DOCUMENT, "format": "svg"})
    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.text == draw_svg(Document.from_dict(DOCUMENT), schema=extractor.schema)
    assert ElementTree.fromstring(answer.text).tag == "{http://www.w3.org/2000/svg}svg"


def test_labels_that_the_model_does_not_know_are_drawn_too(service):
    entities = [{**DOCUMENT["entities"][0], "label": "Animal"}]
    answer = service.post("/draw", {"document": DOCUMENT | {"entities": entities, "relations": []}})
    assert answer.status_code == 200
    assert "Animal" in answer.text


def test_markup_in_a_text_is_escaped(service):
    answer = service.post("/draw", {"text": "a <script>alert(1)</script> tagger"})
    assert "<script" not in answer.text


def test_brat(service):
    answer = service.post("/convert", {"document": DOCUMENT})
    assert answer.json() == {
        "txt": "taggers and parsers",
        "ann": "T1\tThing 0 7\ttaggers\nT2\tThing 12 19\tparsers\nR1\tcompare Arg1:T1 Arg2:T2\n",
    }


def test_brat_keeps_every_character(service):
    text = "a\r\nb\tc\u2028d \U0001f600"
    assert service.post("/convert", {"document": {"text": text, "sentences": []}}).json()["txt"] == text


def test_the_schema(service, extractor):
    found = service.client.get("/schema").json()
    assert found["version"] == __version__
    assert found["entity_types"] == ["Metric", "Task", "Thing"]
    assert found["symmetric"] == ["compare"]
    assert found["constraints"] == {}
    assert found["model"] == {"name": "encoder", "description": "swift fusion over encoder, srn"}
    assert found["thresholds"] == extractor.model.settings.thresholds.to_dict()
    assert found["overlaps"] == extractor.overlaps
    assert found["limits"]["characters"] == 100_000
    assert found["limits"]["threshold"] == 0.05


@pytest.mark.parametrize(
    ("settings", "described"),
    [
        ({"method": "pfn"}, "PFN baseline over encoder, partition filter network"),
        ({"method": "table-srn"}, "Table-SRN baseline over encoder, srn"),
        ({"method": "pipeline"}, "pipeline baseline over encoder"),
        ({"joint": False, "sequence_encoder": "bilstm"}, "cascade for entities alone over encoder, bilstm"),
        ({"fusion": ("none", "span")}, "none + span fusion over encoder, srn"),
    ],
)
def test_the_schema_describes_each_family(settings, described):
    with live(Extractor(small_model(**settings))) as running:
        assert running.client.get("/schema").json()["model"]["description"] == described


def test_the_style_of_drawings(service):
    answer = service.client.get("/stylesheet.css")
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert answer.text == stylesheet()


def test_unchanged_files_are_not_sent_again(service):
    first = service.client.get("/stylesheet.css")
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = service.client.get("/stylesheet.css", headers={"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert service.client.get("/stylesheet.css", headers={"If-None-Match": '"other"'}).status_code == 200
    assert Asset(b"a", "text/css").tag != Asset(b"b", "text/css").tag


def test_heads(service):
    answer = service.client.head("/stylesheet.css")
    assert answer.status_code == 200
    assert answer.content == b""
    assert int(answer.headers["content-length"]) == len(stylesheet().encode())


def test_every_file_of_the_page(service):
    for path, asset in page_assets("service/page").items():
        answer = service.client.get("/" if path == "/index.html" else path)
        assert answer.content == asset.content
        assert answer.headers["content-type"] == asset.type


@pytest.mark.parametrize(
    "path",
    [
        "/../settings.py",
        "/..%2fsettings.py",
        "/%2e%2e/settings.py",
        "/web/shared/../settings.py",
        "//etc/passwd",
        "/settings.py",
        "/web/settings.py",
        "/__init__.py",
    ],
)
def test_no_other_file(service, path):
    assert files("cascade_srn.apps.web").joinpath("settings.py").is_file()
    with service.connect() as connection:  # client libraries normalize such paths
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 404 ")
