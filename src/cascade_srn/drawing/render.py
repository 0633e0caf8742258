"""What a notebook shows of a document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from cascade_srn.drawing.colours import colour_class, colour_rules
from cascade_srn.drawing.labels import Labels, Marks
from cascade_srn.drawing.view import sentence_view
from cascade_srn.errors import CascadeError
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

HERE = "cascade_srn.drawing"


@cache
def environment(*packages: str) -> Environment:
    """Templates of the given packages, then of this one. Everything put into them is escaped unless it is markup."""
    try:
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError as error:
        raise CascadeError(
            "jinja2 is not installed, and drawing as HTML needs it; install it by pip install 'cascade-srn[report]'"
        ) from error
    loaders = [PackageLoader(package, "templates") for package in (*packages, HERE)]
    return Environment(loader=ChoiceLoader(loaders), autoescape=True, undefined=StrictUndefined)


def read_asset(name: str, package: str = HERE) -> str:
    """A style sheet or a script that lies beside the templates."""
    return files(package).joinpath("templates", name).read_text("utf-8")


def as_markup(text: str) -> Markup:
    """Text that is HTML already, or CSS or a script of ours, and must not be escaped."""
    from markupsafe import Markup

    return Markup(text)


# How many arcs of a drawing stand out while their label is pointed at and the others fade.
SET_OFF = 32


def draw_sentence(
    sentence: Sentence,
    *,
    schema: Schema | None = None,
    marks: Marks | None = None,
    name: str = "sentence",
    listing: str = "hidden",
) -> str:
    """A sentence as an HTML fragment, to stand within an element of class ``drawing`` under :func:`stylesheet`.

    Labels have the colours of their place in the schema (without one, in the alphabet). ``marks`` gives single
    entities and relations another look. What is drawn is also said in words: in a list that only screen readers
    find (``listing="hidden"``), or one that everyone can open (``"details"``).
    """
    labels = Labels.of(schema, [sentence])
    view = sentence_view(sentence, labels=labels, marks=marks or {}, name=name, listing=listing)
    return _macro("sentence", view)


def draw_document(document: Document, *, schema: Schema | None = None, style: bool = True) -> str:
    """A document as an HTML fragment: its sentences one under the other, and a legend of the labels that occur.

    With its style sheet, as it is by default, the fragment can be shown anywhere, such as in a notebook.
    """
    labels = Labels.of(schema, document.sentences)
    legend = legend_groups(labels, document.sentences)
    return _document(document, labels, style=stylesheet() if style else "", legend=legend)


def draw_page(documents: Iterable[Document], *, schema: Schema | None = None, title: str = "Extracted") -> str:
    """Documents as one whole HTML page with one legend."""
    documents = list(documents)
    sentences = [sentence for document in documents for sentence in document.sentences]
    labels = Labels.of(schema, sentences)
    return (
        environment()
        .get_template("page.html.jinja")
        .render(
            title=title,
            style=as_markup(stylesheet()),
            legend=as_markup(_macro("legend", legend_groups(labels, sentences))),
            documents=[as_markup(_document(document, labels)) for document in documents],
        )
    )


@cache
def stylesheet() -> str:
    """The style of everything drawn here, for both themes and for print, under the class ``drawing``."""
    pointed_at = ",".join(f".drawing .lines:has(.a{n}>b:hover) .curve.a{n}" for n in range(SET_OFF))
    return f"{colour_rules()}{read_asset('drawing.css')}{pointed_at}{{opacity:1}}"


def legend_groups(labels: Labels, sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
    """The labels that occur in the sentences, with their colours."""
    entities = {entity.label for sentence in sentences for entity in sentence.entities}
    relations = {triple.label for sentence in sentences for triple in sentence.triples}
    return [
        _legend_group("entities", "box", labels.entity_types, entities),
        _legend_group("relations", "stroke", labels.relation_types, relations),
    ]


def _legend_group(name: str, shape: str, known: tuple[str, ...], used: set[str]) -> dict[str, Any]:
    entries = [{"label": one, "css": colour_class(one, known), "shape": shape} for one in known if one in used]
    return {"name": name, "entries": entries}


def _document(document: Document, labels: Labels, *, style: str = "", legend: Sequence[Any] = ()) -> str:
    drawings = []
    for number, sentence in enumerate(document.sentences, start=1):
        view = sentence_view(
            sentence,
            labels=labels,
            marks={},
            name=f"sentence {number}",
            listing="details",
            between=text_between(document, sentence),
        )
        drawings.append(view)
    template = environment().get_template("document.html.jinja")
    return template.render(id=document.id, style=as_markup(style), drawings=drawings, legend=legend)


def text_between(document: Document, sentence: Sentence) -> list[str]:
    """The document's text after each word up to the next of the sentence."""
    starts = [start for start, _ in sentence.offsets[1:]]
    ends = [end for _, end in sentence.offsets]
    return [document.text[end:start] for end, start in zip(ends, starts, strict=False)] + [""] * bool(ends)


def _macro(name: str, argument: Any) -> str:
    return str(getattr(environment().get_template("drawing.html.jinja").module, name)(argument))


def draw_in_notebook(document: Document) -> str:
    """A document as HTML for a notebook: drawn, or where it cannot be drawn, why, with the document as text.

    A notebook asks for this by itself, so there is no one to catch an error.
    """
    try:
        return draw_document(document)
    except CascadeError as error:
        return f"<p>{escape(str(error))}</p><pre>{escape(repr(document))}</pre>"
