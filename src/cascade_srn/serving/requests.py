"""From what a request says to what the model is asked, within the limits of the service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from cascade_srn.config import Thresholds
from cascade_srn.data.alignment import MisalignedSpan, WordMap
from cascade_srn.errors import CascadeError, did_you_mean
from cascade_srn.extractor import Extractor
from cascade_srn.inference.thresholds import chosen_thresholds
from cascade_srn.serving.messages import DocumentForm, DrawRequest, ExtractRequest, GivenEntity, ThresholdsForm, plain
from cascade_srn.serving.queue import Order, RequestTooLarge, prepare
from cascade_srn.serving.refusals import Refusal, unprocessable
from cascade_srn.serving.settings import Limits
from cascade_srn.types import Document, Entity, Sentence

Given = Sequence[GivenEntity] | None

# What can be done about an entity that starts or ends within a word: one given with a text, one of a document.
WHOLE_WORDS = 'mend the offsets, or take whole words by "align": "expand"'
MEND = "mend the offsets"


def orders_of(
    asked: ExtractRequest | DrawRequest, extractor: Extractor, limits: Limits, *, max_cost: int
) -> list[Order]:
    """Split the texts of a request into words.

    Raises:
        Refusal: A text cannot be used. Its position is named.
        RequestTooLarge: The texts cost more than ``max_cost``. Those after the one that exceeds it are not looked at.
    """
    cost = 0
    texts = texts_of(asked)
    given = _given(asked, len(texts))
    thresholds = thresholds_of(asked.thresholds, extractor, limits)
    orders = []
    for position, (text, entities) in enumerate(zip(texts, given, strict=True)):
        _require_annotations(f"text {position}: the entities given", len(entities or ()), limits)
        known = None if entities is None else [Entity(e.start, e.end, e.label) for e in entities]
        try:
            order = prepare(extractor, text, entities=known, thresholds=thresholds, align=asked.align)
        except CascadeError as error:
            raise failed_text(position, error) from error
        _require_sentences(position, order.document, limits)
        _require_given(position, order.document, limits)
        cost += sum(order.costs)
        if cost > max_cost:
            raise RequestTooLarge
        orders.append(order)
    return orders


def texts_of(asked: ExtractRequest | DrawRequest) -> list[str]:
    """The texts of a request."""
    several = asked.texts if isinstance(asked, ExtractRequest) else None
    return list(several) if several is not None else [asked.text or ""]


def n_given(asked: ExtractRequest | DrawRequest) -> int:
    """How many entities are given with the texts of a request, and lists of them."""
    given = asked.entities or []
    return len(given) + sum(len(entities) for entities in given if isinstance(entities, list))


def require_lengths(texts: Sequence[str], limits: Limits) -> None:
    """Refuse too many texts, and texts that are too long."""
    if len(texts) > limits.texts:
        raise unprocessable(
            f"{len(texts)} texts were sent, and {limits.texts} are taken in one request at most; send several requests"
        )
    for position, text in enumerate(texts):
        if len(text) > limits.characters:
            raise unprocessable(
                f"text {position}: it has {len(text):,} characters, and {limits.characters:,} are taken at most; "
                "send it in parts"
            )


def _require_sentences(position: int, document: Document, limits: Limits) -> None:
    longest = max(document.sentences, key=len, default=())
    if len(longest) > limits.sentence_words:
        raise unprocessable(
            f"text {position}: it has a sentence of {len(longest):,} words, and {limits.sentence_words:,} are taken at "
            "most; end sentences by full stops or blank lines"
        )


def _require_given(position: int, document: Document, limits: Limits) -> None:
    most = max((len(sentence.entities) for sentence in document.sentences), default=0)
    if most > limits.sentence_entities:
        raise unprocessable(
            f"text {position}: {most:,} entities are given with one of its sentences, and {limits.sentence_entities:,} "
            "are taken at most; send fewer"
        )


def failed_text(position: int, error: CascadeError) -> Refusal:
    """The refusal of a request for one of its texts."""
    return unprocessable(f"text {position}: {_for_requests(error, WHOLE_WORDS)}")


def _for_requests(error: CascadeError, advice: str) -> str:
    """What an error says; where it names what commands and programs can do about a span, what a request can do."""
    message = str(error)
    usual = _usual_advice()
    return message.removesuffix(usual) + advice if message.endswith(usual) else message


@cache
def _usual_advice() -> str:
    """How the message about a span that starts or ends within a word ends."""
    try:
        WordMap("ab", [((0, 2),)]).place(0, 1)
    except MisalignedSpan as error:
        return str(error).rpartition("; ")[2]
    raise AssertionError("a span that ends within a word was taken")


def document_of(form: DocumentForm, limits: Limits) -> Document:
    """A document that was sent along, checked against its own text."""
    require_lengths([form.text], limits)
    n_annotations = len(form.entities) + len(form.relations)
    _require_annotations("the entities and relations of the document", n_annotations, limits)
    if len(form.sentences) > limits.characters:
        # A sentence may be empty, so that its text alone does not bound how many a document has.
        raise unprocessable(
            f"the document has {len(form.sentences):,} sentences, and {limits.characters:,}, one for each character "
            "that is taken, are taken at most; leave empty ones out"
        )
    try:
        return Document.from_dict(plain(form))
    except CascadeError as error:
        raise unprocessable(_for_requests(error, MEND)) from error


def require_drawable(document: Document, limits: Limits) -> None:
    """Refuse what would be a drawing of many megabytes, or take very long."""
    n_words = n_characters = 0
    for sentence in document.sentences:
        n_arcs = len(set(sentence.triples))
        if n_arcs > limits.sentence_arcs:
            raise unprocessable(
                f"the drawing would have {n_arcs:,} relations over one sentence, and {limits.sentence_arcs:,} are "
                "drawn at most; draw fewer of them"
            )
        for start, end in _covered(sentence):
            n_words += end - start
            n_characters += sentence.offsets[end - 1][1] - sentence.offsets[start][0]
    for number, most, of_what in (
        (n_words, limits.drawn, "words"),
        (n_characters, limits.drawn_characters, "characters"),
    ):
        if number > most:
            raise unprocessable(
                f"the drawing would have {number:,} {of_what} under its bars and arcs, and {most:,} are drawn at "
                "most; draw the text in parts, or less of what was found"
            )


def _covered(sentence: Sentence) -> Iterator[tuple[int, int]]:
    """The words ``[start, end)`` that each bar and each arc of a sentence lies over or under."""
    for entity in sentence.entities:
        yield entity.start, entity.end
    for triple in sentence.triples:
        yield min(triple.head.start, triple.tail.start), max(triple.head.end, triple.tail.end)


def thresholds_of(asked: ThresholdsForm | float | None, extractor: Extractor, limits: Limits) -> Thresholds:
    """The model's thresholds with what was asked for in their place, as an extractor takes them."""
    own = extractor.model.settings.thresholds
    if asked is None:
        return own
    if not isinstance(asked, ThresholdsForm):
        _require_level("thresholds", asked, None, limits)
        return chosen_thresholds(asked, own)
    changed: dict[str, Any] = {key: value for key, value in plain(asked).items() if value is not None}
    for kind, known in (("entity", extractor.schema.entity_types), ("relation", extractor.schema.relation_types)):
        for label in changed.get(f"{kind}_types", {}):
            if label not in known:
                raise unprocessable(f"thresholds.{kind}_types: there is no {label!r}. {did_you_mean(label, known)}")
    for name, value in changed.items():
        usual = getattr(own, name)
        if isinstance(value, dict):
            for label, level in value.items():
                _require_level(f"thresholds.{name}", level, usual.get(label), limits)
        elif name != "relation":  # of relations as a whole there are never more than those that passed the others
            _require_level(f"thresholds.{name}", value, usual, limits)
    return chosen_thresholds(changed, own)


def _require_level(name: str, level: float, usual: float | None, limits: Limits) -> None:
    """Refuse a threshold that is too low; what the model takes without being told may be told."""
    lowest = limits.threshold if usual is None else min(limits.threshold, usual)
    if level < lowest:
        raise unprocessable(
            f"{name}: {level:g} is below {lowest:g}, the lowest threshold that this service takes; give a higher one"
        )


def _given(asked: ExtractRequest | DrawRequest, n_texts: int) -> list[Given]:
    """The given entities of each text."""
    if asked.entities is None:
        return [None] * n_texts
    flat = [entity for entity in asked.entities if isinstance(entity, GivenEntity)]
    if len(flat) == len(asked.entities) and (flat or n_texts != len(asked.entities)) and asked.text is not None:
        return [flat]
    given: list[Given] = [entity for entity in asked.entities if not isinstance(entity, GivenEntity)]
    if flat or len(given) != n_texts:
        raise unprocessable(
            f"entities: {len(asked.entities)} lists were sent for {n_texts} texts; send one for each text, or null for "
            "a text whose entities are to be found"
        )
    return given


def _require_annotations(what: str, number: int, limits: Limits) -> None:
    if number > limits.annotations:
        raise unprocessable(f"{what} are {number:,}, and {limits.annotations:,} are taken at most; send fewer")
