"""Select annotations of documents, and convert them to tables and graphs, for the methods of :class:`.Document`."""

from collections.abc import Collection
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from cascade_srn.config import require_choice, require_range
from cascade_srn.errors import ConfigError, SchemaError, did_you_mean, require, short_repr
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Entity, Sentence, Span, Triple

KINDS = ("entities", "relations")
_ENTITY_COLUMNS = ("document_id", "entity", "sentence", "start", "end", "text", "label", "score")
_ARGUMENT_COLUMNS = ("", "_start", "_end", "_text", "_label")
_RELATION_COLUMNS = (
    *("document_id", "relation", "sentence", "label", "score", "status"),
    *(f"{role}{column}" for role in ("head", "tail") for column in _ARGUMENT_COLUMNS),
)


def filter_document(
    document: Document, min_score: float | None, labels: str | Collection[str] | None, related: bool
) -> Document:
    """Keep some annotations of a document. See :meth:`.Document.filter`."""
    if min_score is not None:
        require_range("min_score", min_score, 0, 1)
    chosen = ChosenLabels()
    if labels is not None:
        chosen = select_labels(labels, document.schema) if document.schema else _select_found(labels, document)
    sentences = tuple(_filter_sentence(sentence, min_score, chosen, related) for sentence in document.sentences)
    return replace(document, sentences=sentences)


class ChosenLabels(NamedTuple):
    """The entity types and relation types to keep; None keeps all."""

    entity_types: frozenset[str] | None = None
    relation_types: frozenset[str] | None = None


def select_labels(labels: str | Collection[str], schema: Schema) -> ChosenLabels:
    """Divide labels into entity types and relation types. A kind without any of its labels is not restricted.

    Raises:
        SchemaError: If a label is not in the schema.
    """
    given = _list_labels(labels)
    for label in given:
        if label not in (*schema.entity_types, *schema.relation_types):
            known = (*schema.entity_types, *schema.relation_types)
            raise SchemaError(f"the schema has no label {label!r}", did_you_mean(label, known), option="labels")
    return ChosenLabels(
        frozenset(given) & frozenset(schema.entity_types) or None,
        frozenset(given) & frozenset(schema.relation_types) or None,
    )


def _select_found(labels: str | Collection[str], document: Document) -> ChosenLabels:
    """Divide labels by the annotations of a document. A label that does not occur may be of either kind."""
    given = frozenset(_list_labels(labels))
    entities = {span.label for sentence in document.sentences for span in sentence.entities}
    relations = {triple.label for sentence in document.sentences for triple in sentence.triples}
    return ChosenLabels(given - (relations - entities) or None, given - (entities - relations) or None)


def _list_labels(labels: str | Collection[str]) -> list[str]:
    given = [labels] if isinstance(labels, str) else list(labels) if isinstance(labels, Collection) else [labels]
    if not given or not all(isinstance(label, str) for label in given):
        raise ConfigError(
            f"labels is {short_repr(labels)}", "Give at least one label, or none of the option", option="labels"
        )
    return given


def _filter_sentence(sentence: Sentence, min_score: float | None, chosen: ChosenLabels, related: bool) -> Sentence:
    def keeps(item: Span | Triple, allowed: Collection[str] | None) -> bool:
        is_sure = min_score is None or item.score is None or item.score >= min_score
        return is_sure and (allowed is None or item.label in allowed)

    spans = [span for span in sentence.entities if keeps(span, chosen.entity_types)]
    known = set(spans)
    triples = [
        triple
        for triple in sentence.triples
        if keeps(triple, chosen.relation_types) and triple.head in known and triple.tail in known
    ]
    if related:
        ends = {end for triple in triples for end in (triple.head, triple.tail)}
        spans = [span for span in spans if span in ends]
    return sentence.annotated(spans, triples)


def to_dataframe(document: Document, kind: str) -> Any:
    """Return the entities or relations as a data frame. See :meth:`.Document.to_dataframe`."""
    require_choice("kind", kind, KINDS)
    pandas = require("pandas")
    if kind == "entities":
        return pandas.DataFrame(_entity_rows(document), columns=list(_ENTITY_COLUMNS)).astype({"score": "float64"})
    return pandas.DataFrame(_relation_rows(document), columns=list(_RELATION_COLUMNS)).astype({"score": "float64"})


def _entity_rows(document: Document) -> list[tuple[Any, ...]]:
    sentences = [at for at, sentence in enumerate(document.sentences) for _ in sentence.entities]
    return [
        (document.id, position, sentence, e.start, e.end, e.text, e.label, e.score)
        for position, (sentence, e) in enumerate(zip(sentences, document.entities, strict=True))
    ]


def _relation_rows(document: Document) -> list[tuple[Any, ...]]:
    sentences = [at for at, sentence in enumerate(document.sentences) for _ in sentence.triples]
    positions = {entity: position for position, entity in enumerate(document.entities)}

    def columns(entity: Entity) -> tuple[Any, ...]:
        return positions[entity], entity.start, entity.end, entity.text, entity.label

    return [
        (document.id, position, sentence, r.label, r.score, r.status, *columns(r.head), *columns(r.tail))
        for position, (sentence, r) in enumerate(zip(sentences, document.relations, strict=True))
    ]


def to_networkx(document: Document) -> Any:
    """Return a document as a graph. See :meth:`.Document.to_networkx`."""
    graph = require("networkx", extra="graph").MultiDiGraph(id=document.id, text=document.text)
    for position, entity in enumerate(document.entities):
        graph.add_node(position, **_without_none(asdict(entity)))
    positions = {entity: position for position, entity in enumerate(document.entities)}
    for relation in document.relations:
        head, tail = positions[relation.head], positions[relation.tail]
        graph.add_edge(head, tail, **_without_none({"label": relation.label, "score": relation.score}))
    return graph


def _without_none(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}
