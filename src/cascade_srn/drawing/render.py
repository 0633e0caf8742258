"""Draw sentences and documents as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from cascade_srn.drawing.colours import LabelColours, Marks, colour_class, colour_rules
from cascade_srn.drawing.view import sentence_view
from cascade_srn.errors import CascadeError, require
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

PACKAGE = "cascade_srn.drawing"
# Number of arcs with a hover rule: pointing at their label fades all other arcs.
N_HOVER_RULES = 32


@cache
def environment(*packages: str) -> Environment:
    """Return a jinja2 environment with the templates of the given packages and of this one, with autoescaping."""
    jinja2 = require("jinja2", extra="report")
    loader = jinja2.ChoiceLoader([jinja2.PackageLoader(package, "templates") for package in (*packages, PACKAGE)])
    made: Environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    return made


def read_asset(name: str, package: str = PACKAGE) -> str:
    """Read a style sheet or script from the template folder of a package."""
    return files(package).joinpath("templates", name).read_text("utf-8")


def as_markup(text: str) -> Markup:
    """Mark a text as HTML, CSS or JavaScript that must not be escaped."""
    from markupsafe import Markup

    return Markup(text)


def draw_sentence(
    sentence: Sentence,
    *,
    schema: Schema | None = None,
    marks: Marks | None = None,
    name: str = "sentence",
    listing: str = "hidden",
) -> str:
    """Draw a sentence as an HTML fragment.

    The fragment belongs into an element of class ``drawing`` on a page with :func:`stylesheet`. Colours of labels
    follow the order of the schema, or the alphabet without one. ``marks`` is the appearance of single entities and
    relations, ``name`` the accessible name of the figure. The text form of the annotations is "hidden" for screen
    readers only, or a list with "details" that everyone can open.
    """
    labels = LabelColours.collect(schema, [sentence])
    view = sentence_view(sentence, labels=labels, marks=marks or {}, name=name, listing=listing)
    return _render_macro("sentence", view)


def draw_document(document: Document, *, schema: Schema | None = None, style: bool = True) -> str:
    """Draw a document as an HTML fragment with all sentences and a legend.

    Colours of labels follow the order of the schema, or the alphabet without one. Without ``schema``, that of the
    document is used. ``style`` includes the style sheet,
    so that the fragment can be shown anywhere, such as in a notebook.
    """
    labels = LabelColours.collect(schema or document.schema, document.sentences)
    legend = build_legend(labels, document.sentences)
    return _render_document(document, labels, style=stylesheet() if style else "", legend=legend)


def draw_page(documents: Iterable[Document], *, schema: Schema | None = None, title: str = "Extracted") -> str:
    """Draw documents as one HTML page with a legend. See :func:`draw_document` for the arguments."""
    documents = list(documents)
    sentences = [sentence for document in documents for sentence in document.sentences]
    labels = LabelColours.collect(schema or next((d.schema for d in documents if d.schema), None), sentences)
    return (
        environment()
        .get_template("page.html.jinja")
        .render(
            title=title,
            style=as_markup(stylesheet()),
            legend=as_markup(_render_macro("legend", build_legend(labels, sentences))),
            documents=[as_markup(_render_document(document, labels)) for document in documents],
        )
    )


def draw_in_notebook(document: Document) -> str:
    """Draw a document for a notebook. If drawing fails, return the error and the text.

    Notebooks call this function themselves, so nobody can catch an exception.
    """
    try:
        return draw_document(document)
    except CascadeError as error:
        return f"<p>{escape(str(error))}</p><pre>{escape(document.text)}</pre>"


@cache
def stylesheet() -> str:
    """Return the style sheet of all drawings, for both themes and for print, under the class ``drawing``."""
    hovered = ",".join(f".drawing .lines:has(.a{n}>b:hover) .curve.a{n}" for n in range(N_HOVER_RULES))
    return f"{colour_rules()}{read_asset('drawing.css')}{hovered}{{opacity:1}}"


def build_legend(labels: LabelColours, sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
    """Return the labels of the sentences with their colours, grouped by entities and relations."""
    entities = {entity.label for sentence in sentences for entity in sentence.entities}
    relations = {triple.label for sentence in sentences for triple in sentence.triples}
    groups = [
        ("entities", "box", labels.entity_types, entities),
        ("relations", "stroke", labels.relation_types, relations),
    ]
    return [
        {
            "name": name,
            "entries": [
                {"label": label, "css": colour_class(label, known), "shape": shape} for label in known if label in used
            ],
        }
        for name, shape, known, used in groups
    ]


def document_gaps(document: Document, sentence: Sentence) -> list[str]:
    """Return the text of the document after each word, up to the next word of the sentence."""
    starts = [start for start, _ in sentence.offsets[1:]]
    ends = [end for _, end in sentence.offsets]
    return [document.text[end:start] for end, start in zip(ends, starts, strict=False)] + [""] * bool(ends)


def _render_document(document: Document, labels: LabelColours, *, style: str = "", legend: Sequence[Any] = ()) -> str:
    drawings = [
        sentence_view(
            sentence,
            labels=labels,
            marks={},
            name=f"sentence {number}",
            listing="details",
            gaps=document_gaps(document, sentence),
        )
        for number, sentence in enumerate(document.sentences, start=1)
    ]
    template = environment().get_template("document.html.jinja")
    return template.render(id=document.id, style=as_markup(style), drawings=drawings, legend=legend)


def _render_macro(name: str, argument: Any) -> str:
    return str(getattr(environment().get_template("drawing.html.jinja").module, name)(argument))
