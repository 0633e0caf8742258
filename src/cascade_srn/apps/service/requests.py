"""Check the content of requests against the limits of the service, and prepare their texts for the model."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cascade_srn.apps.service.messages import (
    DocumentForm,
    DrawRequest,
    ExtractRequest,
    GivenEntity,
    ThresholdsForm,
)
from cascade_srn.apps.service.queue import ExtractionItem, RequestTooLarge
from cascade_srn.apps.web.refusals import Refusal, unprocessable
from cascade_srn.apps.web.settings import Limits
from cascade_srn.config import Thresholds
from cascade_srn.errors import CascadeError, did_you_mean
from cascade_srn.extractor import Extractor
from cascade_srn.formats.alignment import Align
from cascade_srn.inference.options import parse_precision, resolve_thresholds
from cascade_srn.inference.precision import MinScores
from cascade_srn.text.segment import Segmenter, make_segmenter
from cascade_srn.types import Document, Entity, Sentence

GivenEntities = Sequence[GivenEntity] | None

# Hints for library errors whose own hint is about a Python parameter, by the name of the parameter.
_TEXT_HINTS = {"align": 'Fix the offsets, or send "align": "expand" to extend the entity to whole words'}
_DOCUMENT_HINTS = {"align": "Fix the offsets"}


def prepare_items(
    body: ExtractRequest | DrawRequest, extractor: Extractor, limits: Limits, *, max_cost: int
) -> list[ExtractionItem]:
    """Prepare the texts of a request for the model. A refusal names the position of an invalid text.

    Texts after the one that exceeds ``max_cost`` are not prepared.
    """
    cost = 0
    texts = request_texts(body)
    thresholds = request_thresholds(body.thresholds, extractor, limits)
    segmenter = _skip_parts(body.skip, extractor)
    min_scores = _request_promise(body.precision, extractor)
    items = []
    for position, (text, given) in enumerate(zip(texts, _entities_by_text(body, len(texts)), strict=True)):
        n_given = len(given or ())
        _check_limit(f"text {position} has {n_given:,} given entities", n_given, limits.annotations, "Send fewer")
        entities = None if given is None else [Entity(e.start, e.end, e.label) for e in given]
        try:
            source = Document.from_text(text, segmenter=segmenter) if body.skip else text
            item = prepare_item(
                extractor,
                source,
                entities=entities,
                thresholds=thresholds,
                overlaps=body.overlaps,
                align=body.align,
                min_scores=min_scores,
            )
        except CascadeError as error:
            raise refuse_text(position, error) from error
        _check_sentences(position, item.document, limits)
        cost += sum(item.costs)
        if cost > max_cost:
            raise RequestTooLarge
        items.append(item)
    return items


def prepare_item(
    extractor: Extractor,
    text: str | Document,
    *,
    entities: Sequence[Entity] | None = None,
    thresholds: Thresholds | None = None,
    overlaps: str | None = None,
    align: Align = "exact",
    min_scores: MinScores | None = None,
) -> ExtractionItem:
    """Prepare one text for the model, and compute its cost."""
    document = extractor.prepare(text, entities, align=align)
    examples = extractor.examples([document])
    # The model compares every given entity with all others of its sentence.
    costs = [max(1, extractor.model.cost(example), len(example.sentence.entities)) for example in examples]
    chosen = extractor.model.settings.thresholds if thresholds is None else thresholds
    overlaps, given = overlaps or extractor.overlaps, entities is not None
    extractor.check_promise(chosen, overlaps, given_entities=given, promised=min_scores is not None)
    return ExtractionItem(
        document, chosen, examples, costs, given_entities=given, overlaps=overlaps, min_scores=min_scores
    )


def _request_promise(precision: dict[str, float] | float | None, extractor: Extractor) -> MinScores | None:
    if precision is None:
        return None
    try:
        return extractor.promise(parse_precision(precision))
    except CascadeError as error:
        raise unprocessable(error.problem, error.hint) from error


def _skip_parts(skip: Sequence[str], extractor: Extractor) -> Segmenter:
    try:
        return make_segmenter(extractor.segmenter, skip)
    except CascadeError as error:
        raise unprocessable(f"skip: {error.problem}", error.hint) from error


def request_texts(body: ExtractRequest | DrawRequest) -> list[str]:
    """Return the texts of a request."""
    texts = body.texts if isinstance(body, ExtractRequest) else None
    return list(texts) if texts is not None else [body.text or ""]


def count_given(body: ExtractRequest | DrawRequest) -> int:
    """Count the given entities of a request and the lists that contain them."""
    given = body.entities or []
    return len(given) + sum(len(entities) for entities in given if isinstance(entities, list))


def check_lengths(texts: Sequence[str], limits: Limits) -> None:
    """Refuse too many texts, and texts that are too long."""
    if len(texts) > limits.texts:
        raise unprocessable(
            f"the request has {len(texts)} texts, but the limit is {limits.texts}", "Send several requests"
        )
    for position, text in enumerate(texts):
        _check_limit(f"text {position} has {len(text):,} characters", len(text), limits.characters, "Split the text")


def _check_sentences(position: int, document: Document, limits: Limits) -> None:
    for sentence in document.sentences:
        n_words, n_entities = len(sentence), len(sentence.entities)
        found = f"text {position} has a sentence of {n_words:,} words"
        _check_limit(found, n_words, limits.sentence_words, "End sentences with full stops or blank lines")
        found = f"text {position} has a sentence with {n_entities:,} given entities"
        _check_limit(found, n_entities, limits.sentence_entities, "Send fewer entities")


def refuse_text(position: int, error: CascadeError) -> Refusal:
    """Make the refusal of a request from the error of one of its texts."""
    return _refuse(f"text {position}: ", error, _TEXT_HINTS)


def _refuse(prefix: str, error: CascadeError, hints: Mapping[str, str]) -> Refusal:
    return unprocessable(f"{prefix}{error.problem}", hints.get(error.option, error.hint))


def read_document(form: DocumentForm, limits: Limits) -> Document:
    """Read the document of a request. Refuse it if it is too large, or contradicts its text."""
    check_lengths([form.text], limits)
    n_annotations = form.n_annotations
    kinds = "entities, relations and mentions" if form.clusters else "entities and relations"
    _check_limit(f"the document has {n_annotations:,} {kinds}", n_annotations, limits.annotations, "Send fewer")
    # Sentences can be empty, so the length of the text does not bound their number.
    n_sentences = len(form.sentences)
    found = f"the document has {n_sentences:,} sentences"
    _check_limit(found, n_sentences, limits.characters, "Remove empty sentences")
    try:
        return Document.from_dict(form.model_dump())
    except CascadeError as error:
        raise _refuse("", error, _DOCUMENT_HINTS) from error


def check_drawable(document: Document, limits: Limits) -> None:
    """Refuse a document whose drawing would be very large or slow."""
    n_words = n_characters = 0
    for sentence in document.sentences:
        n_arcs = len(set(sentence.triples))
        found = f"a sentence has {n_arcs:,} relations to draw"
        _check_limit(found, n_arcs, limits.sentence_arcs, "Remove some relations")
        for start, end in _covered_words(sentence):
            n_words += end - start
            n_characters += sentence.offsets[end - 1][1] - sentence.offsets[start][0]
    hint = "Split the text, or remove some entities and relations"
    _check_limit(f"the entities and relations to draw cover {n_words:,} words", n_words, limits.drawn, hint)
    found = f"the entities and relations to draw cover {n_characters:,} characters"
    _check_limit(found, n_characters, limits.drawn_characters, hint)


def _covered_words(sentence: Sentence) -> Iterator[tuple[int, int]]:
    """Yield the words ``[start, end)`` that each entity and each relation covers."""
    for entity in sentence.entities:
        yield entity.start, entity.end
    for triple in sentence.triples:
        yield min(triple.head.start, triple.tail.start), max(triple.head.end, triple.tail.end)


def request_thresholds(given: ThresholdsForm | float | None, extractor: Extractor, limits: Limits) -> Thresholds:
    """Combine the thresholds of a request with those of the model, as an extractor does."""
    own = extractor.model.settings.thresholds
    if given is None:
        return own
    if not isinstance(given, ThresholdsForm):
        _check_threshold("thresholds", given, None, limits)
        return resolve_thresholds(given, own)
    changed: dict[str, Any] = given.model_dump(exclude_none=True)
    for kind, known in (("entity", extractor.schema.entity_types), ("relation", extractor.schema.relation_types)):
        for label in changed.get(f"{kind}_types", {}):
            if label not in known:
                raise unprocessable(
                    f"thresholds.{kind}_types: there is no {kind} type {label!r}", did_you_mean(label, known)
                )
    for name, value in changed.items():
        usual = getattr(own, name)
        if isinstance(value, dict):
            for label, threshold in value.items():
                _check_threshold(f"thresholds.{name}", threshold, usual.get(label), limits)
        elif name != "relation":  # a low value cannot let more relations through than the other thresholds do
            _check_threshold(f"thresholds.{name}", value, usual, limits)
    return resolve_thresholds(changed, own)


def _check_threshold(name: str, value: float, usual: float | None, limits: Limits) -> None:
    """Refuse a threshold that is below both the limit and the model's own value."""
    lowest = limits.threshold if usual is None else min(limits.threshold, usual)
    if value < lowest:
        raise unprocessable(f"{name}: {value:g} is below the lowest allowed threshold, {lowest:g}", "Use a higher one")


def _entities_by_text(body: ExtractRequest | DrawRequest, n_texts: int) -> list[GivenEntities]:
    if body.entities is None:
        return [None] * n_texts
    flat = [entity for entity in body.entities if isinstance(entity, GivenEntity)]
    if len(flat) == len(body.entities) and (flat or n_texts != len(body.entities)) and body.text is not None:
        return [flat]
    given: list[GivenEntities] = [entity for entity in body.entities if not isinstance(entity, GivenEntity)]
    if flat or len(given) != n_texts:
        raise unprocessable(
            f"entities: the request has {len(body.entities)} lists for {n_texts} texts",
            "Send one list for each text, or null for texts whose entities the model should find",
        )
    return given


def _check_limit(found: str, number: int, limit: int, hint: str) -> None:
    if number > limit:
        raise unprocessable(f"{found}, but the limit is {limit:,}", hint)
