import sys

import pytest
from tests.drawing.markup import read_markup
from tests.drawing.sentences import DOCUMENT, HOSTILE

from cascade_srn.drawing import draw_document, draw_page, draw_svg
from cascade_srn.drawing.render import environment
from cascade_srn.errors import CascadeError
from cascade_srn.schema import Schema
from cascade_srn.types import Document


@pytest.fixture
def no_jinja2(monkeypatch):
    environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)


def test_document_is_drawn():
    shown = DOCUMENT._repr_html_()
    assert shown == draw_document(DOCUMENT)
    assert len(read_markup(shown).all("figure")) == len(DOCUMENT.sentences)


def test_error_is_shown_without_jinja2(no_jinja2):
    root = read_markup(Document.from_sentences([HOSTILE])._repr_html_())
    (error,) = root.all("p")
    assert "jinja2" in error.text
    assert not root.all("script")
    assert "<script>alert(1)</script>" in root.all("pre")[0].text


def test_drawing_needs_jinja2(no_jinja2):
    with pytest.raises(CascadeError, match=r"jinja2.*cascade-srn\[report\]"):
        draw_document(DOCUMENT)


def test_schema_of_the_document_gives_colours_and_directions():
    labels = {triple.label for sentence in DOCUMENT.sentences for triple in sentence.triples}
    entity_types = sorted({e.label for s in DOCUMENT.sentences for e in s.entities}, reverse=True)
    schema = Schema(tuple(entity_types), tuple(sorted(labels)), frozenset(labels))
    document = Document(DOCUMENT.text, DOCUMENT.sentences, DOCUMENT.id, schema)
    assert document._repr_html_() == draw_document(DOCUMENT, schema=schema) != draw_document(DOCUMENT)
    assert draw_svg(document) == draw_svg(DOCUMENT, schema=schema) != draw_svg(DOCUMENT)
    assert draw_page([document]) == draw_page([DOCUMENT], schema=schema)
    for drawing in (document._repr_html_(), draw_svg(document)):
        assert "→" not in drawing
        assert "←" not in drawing
