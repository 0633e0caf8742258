"""Collect the entities, relations and coreference clusters of a document while it is read, and check them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from cascade_srn.errors import AnnotationError, short_repr
from cascade_srn.formats.alignment import MisalignedSpan, WordMap, WordSpan
from cascade_srn.formats.base import MalformedInput, ReadContext
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.reports import ESCAPES, EXPANDED, EXPANDED_MENTION, MERGED
from cascade_srn.text.forms import unescape
from cascade_srn.types import Document, Mention, Offsets, Sentence, Span, Triple


@dataclass(frozen=True, slots=True)
class PlacedEntity:
    """Entity with the number of its sentence."""

    sentence: int
    span: Span


class DocumentBuilder:
    """Entities and relations of a document.

    Repeated entities and relations between sentences are refused. Repeated relations are kept and noted, because
    published corpora contain some. ``made``: the sentences come from a segmenter.
    """

    def __init__(self, context: ReadContext, n_sentences: int = 1, *, made: bool = False) -> None:
        self.context = context
        self.made = made
        self.entities: list[dict[Span, None]] = [{} for _ in range(n_sentences)]
        self.triples: list[list[Triple]] = [[] for _ in range(n_sentences)]
        self._seen: list[set[Triple]] = [set() for _ in range(n_sentences)]
        # Characters of the entities that were read, because several can fall on the same words.
        self._places: set[tuple[int, int, str]] = set()

    def add_entity(self, value: Value, span: Span, sentence: int = 0) -> PlacedEntity:
        """Add an entity given by words."""
        if span in self.entities[sentence]:
            raise value.refuse(
                "duplicate",
                f"which repeats the entity {span.label!r} at words [{span.start}, {span.end}) of sentence {sentence}",
                "Remove the repeat",
            )
        self.entities[sentence][span] = None
        return PlacedEntity(sentence, span)

    def add_entity_at(
        self,
        value: Value,
        words: WordMap,
        start: int,
        end: int,
        label: str,
        score: float | None = None,
        *,
        merge: bool = False,
    ) -> PlacedEntity:
        """Add an entity given by characters. With ``merge``, a repeat is noted and counts as the first entity."""
        found = place_span(value, words, start, end, self.context)
        span = Span(found.start, found.end, label, score)
        if not found.exact:
            self.context.report.note(EXPANDED, value.example())
        is_other = (start, end, label) not in self._places
        if span in self.entities[found.sentence] and (merge or is_other):
            self.context.report.note(MERGED if is_other else "entity repeated", value.example())
            placed = PlacedEntity(found.sentence, span)
        else:
            placed = self.add_entity(value, span, found.sentence)
        self._places.add((start, end, label))
        return placed

    def add_relation(
        self, value: Value, head: PlacedEntity | None, label: str, tail: PlacedEntity | None, score: float | None = None
    ) -> None:
        """Add a relation between two entities; None is an entity that was skipped."""
        if head is None or tail is None:
            role = "head" if head is None else "tail"
            raise value.refuse("needs a skipped entity", f"whose {role} was skipped", "Fix that entity")
        if head.sentence != tail.sentence:
            if self.made:
                # Not a mistake of the data: their authors know nothing of our sentences.
                self.context.report.note("relation across sentences not read", value.example())
                return
            raise value.refuse(
                "crosses a sentence boundary",
                f"whose head is in sentence {head.sentence} and tail in sentence {tail.sentence}",
                "Shorten or remove it, or join the sentences",
            )
        triple = Triple(head.span, label, tail.span, score)
        if triple in self._seen[head.sentence]:
            self.context.report.note("relation repeated", value.example())
        self._seen[head.sentence].add(triple)
        self.triples[head.sentence].append(triple)

    def add_relation_by_index(
        self, item: Value, placed: Sequence[PlacedEntity | None], label: str, score: float | None = None
    ) -> None:
        """Add a relation whose fields ``head`` and ``tail`` are indices of ``placed``."""
        head, tail = (placed[item.field(role).index(len(placed), "entity")] for role in ("head", "tail"))
        self.add_relation(item, head, item.field(label).label(), tail, score)

    def build(
        self, text: str, offsets: Sequence[Offsets], id: str, clusters: tuple[tuple[Mention, ...], ...] = ()
    ) -> Document:
        """Return the document, given its text, the word offsets of each sentence and the coreference clusters."""
        sentences = tuple(
            Sentence(tuple(text[a:b] for a, b in words), tuple(words), tuple(entities), tuple(triples))
            for words, entities, triples in zip(offsets, self.entities, self.triples, strict=True)
        )
        return Document(text, sentences, id, clusters=clusters)


def place_span(value: Value, words: WordMap, start: int, end: int, context: ReadContext) -> WordSpan:
    """Return the words at character offsets, or refuse offsets that do not match words."""
    try:
        return words.place(start, end, align=context.align)
    except MisalignedSpan as error:
        problem = f"{value.place.file}, {value.place.where}: {value.path}: {error.problem}"
        raise value.refuse_saying(error.kind, problem, error.hint, option=error.option, error=AnnotationError) from None


def read_tokens(value: Value, context: ReadContext) -> tuple[list[str], list[str]]:
    """Read a list of tokens. Return the words, and the tokens as they are written if some of them are escaped."""
    tokens = value.words()
    words = tokens if context.keep_escapes else [unescape(token) for token in tokens]
    if words == tokens:
        return words, []
    for number, (word, token) in enumerate(zip(words, tokens, strict=True)):
        if word != token:
            context.report.note(ESCAPES, value.at(number).example())
    return words, tokens


def read_word_offsets(value: Value, text: str, context: ReadContext) -> list[Offsets]:
    """Read the word offsets of each sentence from a list of lists of pairs. A malformed sentence may be skipped."""
    sentences: list[Offsets] = []
    at = 0
    for sentence in value.items():
        offsets = context.attempt("sentence", _read_sentence_offsets, sentence, text, at)
        if offsets is not None:
            sentences.append(offsets)
            at = offsets[-1][1] if offsets else at
    return sentences


def _read_sentence_offsets(value: Value, text: str, at: int) -> Offsets:
    pairs = []
    for number in range(value.length()):
        pair = value.raw[number]
        # Checked without a Value for each word, because a corpus has millions.
        if type(pair) not in (list, tuple) or [type(bound) for bound in pair] != [int, int]:
            raise _refuse_word(value.at(number), len(text), at)
        start, end = pair
        if not at <= start < end <= len(text):
            raise _refuse_word(value.at(number), len(text), at)
        pairs.append((start, end))
        at = end
    return tuple(pairs)


def _refuse_word(word: Value, size: int, at: int) -> MalformedInput:
    start, end = (bound.integer() for bound in word.items(2, 2))
    word.check_half_open(start, end, size, "characters in the text")
    return word.refuse(
        "words out of order",
        f"which starts before the end of the previous word at {at}",
        "List the words in the order of the text",
    )


def read_entity(item: Value, words: WordMap, builder: DocumentBuilder) -> PlacedEntity:
    """Add an entity with the fields ``start``, ``end`` and ``label``, and optionally ``text`` and ``score``."""
    start, end = item.field("start").integer(), item.field("end").integer()
    item.check_half_open(start, end, len(words.text), "characters in the text")
    stated = item.get("text")
    if stated is not None:
        check_text(item, words.text[start:end], stated.string())
    return builder.add_entity_at(item, words, start, end, item.field("label").label(), item.optional_score())


def check_text(value: Value, found: str, stated: str) -> None:
    """Refuse an entity whose stated text is not the text at its offsets."""
    if found != stated:
        raise value.refuse(
            "text mismatch",
            f"which states the text {short_repr(stated)}, but the text at its offsets is {short_repr(found)}",
            "Fix the text or the offsets, which are half-open and count characters",
        )


PlaceMention = Callable[[Value], Mention]
"""Function from a mention of a record to its words. It refuses a malformed one."""


def read_clusters(items: Sequence[Value], place: PlaceMention, context: ReadContext) -> tuple[tuple[Mention, ...], ...]:
    """Read the clusters of a document.

    A mention that is repeated within its cluster is read once and noted, because published corpora contain some. A
    mention in two clusters is refused. Where malformed input is skipped, a cluster is left out with its last mention.
    """
    clusters: list[tuple[Mention, ...]] = []
    owners: dict[Mention, str] = {}
    for item in items:
        cluster = context.attempt("cluster", _read_cluster, item, place, owners, context)
        if cluster:
            clusters.append(cluster)
    return tuple(clusters)


def _read_cluster(
    item: Value, place: PlaceMention, owners: dict[Mention, str], context: ReadContext
) -> tuple[Mention, ...]:
    if not item.length():
        raise item.refuse("empty", "but a list of mentions was expected", "Remove it")
    found: dict[Mention, None] = {}
    for part in item.items():
        mention = context.attempt("mention", _read_mention, part, place, item.path, owners)
        if mention is None:
            continue
        if mention in found:
            context.report.note("mention repeated", part.example())
        found[mention] = None
    return tuple(found)


def _read_mention(item: Value, place: PlaceMention, cluster: str, owners: dict[Mention, str]) -> Mention:
    mention = place(item)
    if owners.setdefault(mention, cluster) != cluster:
        raise item.refuse("in two clusters", f"which is also in {owners[mention]}", "Join the clusters, or remove it")
    return mention


def place_by_characters(words: WordMap, context: ReadContext) -> PlaceMention:
    """Return a function that places mentions given as pairs of half-open character offsets."""
    return partial(_place_by_characters, words, context)


def _place_by_characters(words: WordMap, context: ReadContext, item: Value) -> Mention:
    start, end = (bound.integer() for bound in item.items(2, 2))
    item.check_half_open(start, end, len(words.text), "characters in the text")
    found = place_span(item, words, start, end, context)
    if not found.exact:
        context.report.note(EXPANDED_MENTION, item.example())
    return Mention(found.sentence, found.start, found.end)


def clusters_field(document: Document) -> dict[str, Any]:
    """Return the field ``clusters`` with character offsets; nothing for a document without clusters."""
    if not document.clusters:
        return {}
    return {"clusters": [[list(document.locate(mention)) for mention in cluster] for cluster in document.clusters]}
