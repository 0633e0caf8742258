"""DyGIE++ / SciERC JSON lines: one document per line, spans as inclusive word indices over the document.

The usual preprocessing of ACE05 also produces this format. Relations refer to spans, not to typed entities.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any

from cascade_srn.errors import DataError
from cascade_srn.formats.base import SCORES, Format, MalformedInput, ReadContext
from cascade_srn.formats.builder import DocumentBuilder, PlacedEntity, read_clusters, read_tokens
from cascade_srn.formats.files import read_head, read_json_lines, write_json_lines
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.reports import WITHOUT_ENTITY
from cascade_srn.types import Document, Mention, Sentence, Span

FIELDS = ("doc_key", "sentences", "ner", "relations", "clusters")
_KEY = re.compile(r'(?<!\\)"sentences"\s*:')
_WORDS = re.compile(r'(?<!\\)"sentences"\s*:\s*\[\s*\[\s*"')
_TEXT = re.compile(r'(?<!\\)"text"\s*:')

EntitiesBySpan = dict[tuple[int, int], list[PlacedEntity]]


def sniff(head: str, path: Path) -> bool:
    """Return whether the text starts with an object that has sentences of words, or sentences but no text."""
    if not head.lstrip().startswith("{"):
        return False
    # With a text, sentences of the package's JSON have offsets.
    return _WORDS.search(head) is not None or (_KEY.search(head) is not None and _TEXT.search(head) is None)


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """Read the documents of a file line by line."""
    return read_json_lines(path, context, read_record)


def read_record(
    record: Value, context: ReadContext, ner_field: str = "ner", relations_field: str = "relations"
) -> Document:
    """Read one document. Predictions have fields of other names."""
    record = record.with_document_id("doc_key")
    sentences = record.field("sentences").items()
    ner, relations = (_get_per_sentence(record, name, len(sentences)) for name in (ner_field, relations_field))
    record.note_unread((*FIELDS, ner_field, relations_field), context)
    found: list[Sentence] = []
    windows: list[_Window] = []
    first = 0
    kept: dict[int, int] = {}  # new positions of the sentences that are not skipped
    n_words = sum(sentence.length() for sentence in sentences)
    for number, words in enumerate(sentences):
        window = _Window(number, first, first + words.length(), n_words)
        sentence = context.attempt("sentence", _read_sentence, words, ner[number], relations[number], window, context)
        if sentence is not None:
            kept[number] = len(found)
            found.append(sentence)
        windows.append(window)
        first = window.end
    clusters = read_clusters(record.get_items("clusters"), partial(_place_mention, windows, kept), context)
    return Document.from_sentences(found, id=record.place.document, clusters=clusters)


def _place_mention(windows: list["_Window"], kept: dict[int, int], item: Value) -> Mention:
    """Return the mention at inclusive word indices of the document."""
    start, end = item.items(2, 2)
    at = bisect_right(windows, start.integer(), key=lambda window: window.start) - 1
    window = windows[max(at, 0)] if windows else _Window(0, 0, 0, 0)
    first, last = window.to_sentence(item, start, end)
    if window.number not in kept:
        raise item.refuse("needs a skipped sentence", f"but sentence {window.number} was skipped", "Fix that sentence")
    return Mention(kept[window.number], first, last)


def _get_per_sentence(record: Value, name: str, n_sentences: int) -> Sequence[Value | None]:
    value = record.get(name)
    if value is None:
        return [None] * n_sentences
    items = value.items()
    if len(items) != n_sentences:
        raise value.refuse(
            "wrong length",
            f"a list of {len(items)}, but one list for each of the {n_sentences} sentences was expected",
            "Add an empty list for a sentence without annotations",
        )
    return items


@dataclass(frozen=True, slots=True)
class _Window:
    """The words ``[start, end)`` of a document that form one sentence."""

    number: int
    start: int
    end: int
    n_words: int

    def to_sentence(self, item: Value, start: Value, end: Value) -> tuple[int, int]:
        """Convert inclusive indices of the document to half-open ones of the sentence."""
        first, last = start.integer(), end.integer()
        if last < first:
            raise item.refuse(
                "end before start",
                f"which ends at word {last}, before its start {first}",
                "Use inclusive indices with start <= end",
            )
        if first < 0 or last >= self.n_words:
            raise item.refuse(
                "index out of range",
                f"but the document has {self.n_words} words",
                "Use inclusive indices that count from 0 over the whole document",
            )
        if first < self.start or last >= self.end:
            raise item.refuse(
                "crosses a sentence boundary",
                f"but sentence {self.number} has the words {self.start} to {self.end - 1} of the document",
                "Move it to its sentence, or remove it if it crosses sentences",
            )
        return first - self.start, last + 1 - self.start


def _read_sentence(
    words: Value, ner: Value | None, relations: Value | None, window: _Window, context: ReadContext
) -> Sentence:
    given, escaped = read_tokens(words, context)
    entities = ner.items() if ner else []
    triples = relations.items() if relations else []
    builder = DocumentBuilder(context)
    by_span: EntitiesBySpan = {}
    for item in entities:
        placed = context.attempt("entity", _read_entity, item, window, builder)
        if placed is not None:
            by_span.setdefault((placed.span.start, placed.span.end), []).append(placed)
    for item in triples:
        context.attempt("relation", _read_relation, item, window, by_span, builder)
    return Sentence.from_words(given, builder.entities[0], builder.triples[0], escaped=escaped)


def _read_entity(item: Value, window: _Window, builder: DocumentBuilder) -> PlacedEntity:
    start, end, label, *scores = item.items(3, 5)
    return builder.add_entity(item, Span(*window.to_sentence(item, start, end), label.label(), _read_score(scores)))


def _read_relation(item: Value, window: _Window, by_span: EntitiesBySpan, builder: DocumentBuilder) -> None:
    *bounds, label = item.items(5, 7)[:5]
    scores = item.items()[5:]
    ends, ambiguous = [], False
    for role, (start, end) in (("head", bounds[:2]), ("tail", bounds[2:])):
        candidates = by_span.get(window.to_sentence(item, start, end))
        if not candidates:
            raise item.refuse(
                "missing entity",
                f"whose {role}, words {start.raw} to {end.raw}, is not an entity of the sentence",
                "Add it to 'ner', or remove the relation",
            )
        ambiguous = ambiguous or len(candidates) > 1
        ends.append(candidates[0])
    builder.add_relation(item, ends[0], label.label(), ends[1], _read_score(scores))
    if ambiguous:
        builder.context.report.note("relation ambiguous: several entities share a span", item.example())


def _read_score(scores: list[Value]) -> float | None:
    """Return the probability of a prediction.

    DyGIE++ appends the raw score and the probability. A single number that is not a probability is a raw score.
    """
    numbers = [score.number() for score in scores]
    if not numbers or (len(numbers) == 1 and not 0 <= numbers[0] <= 1):
        return None
    return scores[-1].score()


def write(documents: Iterable[Document], path: Path) -> None:
    """Write one document per line. Text, offsets and scores are lost."""
    write_json_lines(map(_to_record, documents), path)


def _to_record(document: Document) -> dict[str, object]:
    first, ner, relations = 0, [], []
    for number, sentence in enumerate(document.sentences):
        by_span: dict[tuple[int, int], Span] = {}
        for entity in sentence.entities:
            by_span.setdefault((entity.start, entity.end), entity)
        for argument in (a for triple in sentence.triples for a in (triple.head, triple.tail)):
            if by_span[argument.start, argument.end] != argument:
                raise DataError(
                    f"document {document.id!r}, sentence {number}: a relation has the entity {argument.label!r} at "
                    f"words [{argument.start}, {argument.end}), but {by_span[argument.start, argument.end].label!r} is "
                    "listed first, and relations of this format refer to spans without types",
                    "List the entity first, or write jsonl or spert",
                )
        ner.append([[first + e.start, first + e.end - 1, e.label] for e in sentence.entities])
        relations.append(
            [
                [*(bound for e in (t.head, t.tail) for bound in (first + e.start, first + e.end - 1)), t.label]
                for t in sentence.triples
            ]
        )
        first += len(sentence)
    words = [list(sentence.words) for sentence in document.sentences]
    record: dict[str, object] = {"doc_key": document.id, "sentences": words, "ner": ner, "relations": relations}
    if document.clusters:
        firsts = list(accumulate(map(len, document.sentences), initial=0))
        record["clusters"] = [
            [[firsts[m.sentence] + m.start, firsts[m.sentence] + m.end - 1] for m in cluster]
            for cluster in document.clusters
        ]
    return record


DYGIE = Format("dygie", (), sniff, read, write, loses=("text and offsets", *SCORES), keeps_clusters=True)


NER, RELATIONS, PAIRED_RELATIONS = "predicted_ner", "predicted_relations", "predicted_re"
_PREDICTION_KEY = re.compile(rf'(?<!\\)"(?:{NER}|{RELATIONS}|{PAIRED_RELATIONS})"\s*:')


def has_predictions(path: Path) -> bool:
    """Return whether the first records of a DyGIE++ file have fields for predictions."""
    return _PREDICTION_KEY.search(read_head(path)) is not None


def prediction_format(*, gold_entities: bool = False) -> Format:
    """Return the format of predictions that DyGIE++, PURE and PL-Marker write beside the gold annotations of a record.

    Entities are in ``predicted_ner``. Relations are in ``predicted_relations``, or in ``predicted_re`` as PL-Marker
    writes them: a pair of the position of a sentence and its relations for each sentence, with the two spans as pairs
    of indices. Gold annotations are ignored.

    With ``gold_entities``, the entities are those of ``ner``, between which the relations were predicted.
    """

    def read(path: Path, context: ReadContext) -> Iterator[Document]:
        def read_predicted(record: Value, context: ReadContext) -> Document:
            return _read_predictions(record, context, "ner" if gold_entities else NER)

        return read_json_lines(path, context, read_predicted)

    return Format(DYGIE.name, (), DYGIE.sniff, read, DYGIE.write)


def _read_predictions(record: Value, context: ReadContext, ner: str) -> Document:
    record = record.with_document_id("doc_key")
    if record.get(ner) is None:
        raise _no_entities(record, ner)
    relations = RELATIONS if record.get(PAIRED_RELATIONS) is None else PAIRED_RELATIONS
    raw = {name: record.raw[name] for name in ("doc_key", "sentences", ner) if name in record.raw}
    n_sentences = record.field("sentences").length()
    if (value := record.get(relations)) is not None:
        if relations == PAIRED_RELATIONS:
            value = Value(_group(value, n_sentences), record.place, relations)
        pairs = zip_longest(value.items(), record.field(ner).items()[: value.length()])
        raw[relations] = [_between_entities(found, entities, context) for found, entities in pairs]
    return read_record(Value(raw, record.place), context, ner, relations)


def _no_entities(record: Value, ner: str) -> MalformedInput:
    if ner == NER and record.get("ner") is not None:
        hint, option = "If the relations were predicted between gold entities, say so", "gold_entities"
    else:
        hint, option = "Write the predicted entities beside the relations", ""
    return record.refuse("missing field", f"which has no field {ner!r}", hint, option=option)


def _group(value: Value, n_sentences: int) -> list[list[Any]]:
    """Convert the relations of PL-Marker to a list for each sentence."""
    grouped: list[list[Any]] = [[] for _ in range(n_sentences)]
    for item in value.items():
        number, relations = item.items(2, 2)
        for relation in relations.items():
            head, tail, label = relation.items(3, 3)
            spans = [bound.raw for span in (head, tail) for bound in span.items(2)[:2]]
            grouped[number.index(n_sentences, "sentence")].append([*spans, label.raw])
    return grouped


def _between_entities(relations: Value, entities: Value | None, context: ReadContext) -> list[Any]:
    """Leave out relations of a span that is not a predicted entity, which DyGIE++ can predict, and note them."""
    found = entities.items() if entities else []
    spans = {tuple(bound.integer() for bound in entity.items(3)[:2]) for entity in found}
    kept = []
    for relation in relations.items():
        bounds = [bound.integer() for bound in relation.items(5)[:4]]
        if {tuple(bounds[:2]), tuple(bounds[2:])} <= spans:
            kept.append(relation.raw)
        else:
            context.report.note(WITHOUT_ENTITY, relation.example())
    return kept
