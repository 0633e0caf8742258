"""DyGIE++ / SciERC JSON lines: one document a line, spans as inclusive word indices over the document.

This is also what the usual preprocessing of ACE05 gives. Relations name spans, not typed entities.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cascade_srn.data.formats.base import Format, ReadContext
from cascade_srn.data.formats.builder import Draft, Placed
from cascade_srn.data.formats.files import json_lines, to_json, writing
from cascade_srn.data.formats.records import Value
from cascade_srn.errors import DataError
from cascade_srn.types import Document, Sentence, Span

FIELDS = ("doc_key", "sentences", "ner", "relations")
_KEY = re.compile(r'(?<!\\)"sentences"\s*:')


def sniff(head: str, path: Path) -> bool:
    """Whether the text starts with an object that has a field ``sentences``."""
    return head.lstrip().startswith("{") and _KEY.search(head) is not None


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """The documents of a file, line by line."""
    return json_lines(path, context, _document)


def _document(record: Value, context: ReadContext) -> Document:
    record = record.identified("doc_key")
    sentences = record.field("sentences").items()
    ner, relations = (_per_sentence(record, name, len(sentences)) for name in ("ner", "relations"))
    record.note_unread(FIELDS, context)
    found, first = [], 0
    n_words = sum(sentence.length() for sentence in sentences)
    for number, words in enumerate(sentences):
        window = _Window(number, first, first + words.length(), n_words)
        sentence = context.attempt("sentence", _sentence, words, ner[number], relations[number], window, context)
        if sentence is not None:
            found.append(sentence)
        first = window.end
    return Document.from_sentences(found, id=record.place.document)


def _per_sentence(record: Value, name: str, n_sentences: int) -> Sequence[Value | None]:
    value = record.get(name)
    if value is None:
        return [None] * n_sentences
    items = value.items()
    if len(items) != n_sentences:
        raise value.refuse(
            "wrong length",
            f"a list of {len(items)}, but one list for each of the {n_sentences} sentences was expected; "
            "give an empty list for a sentence without any",
        )
    return items


@dataclass(frozen=True, slots=True)
class _Window:
    """The words ``[start, end)`` of a document that make up one of its sentences."""

    number: int
    start: int
    end: int
    n_words: int

    def span(self, item: Value, start: Value, end: Value) -> tuple[int, int]:
        """Inclusive indices over the document as half-open ones of the sentence."""
        first, last = start.integer(), end.integer()
        if last < first:
            raise item.refuse(
                "end before start",
                f"which ends at word {last}, before its start {first}; give inclusive indices, start <= end",
            )
        if first < 0 or last >= self.n_words:
            raise item.refuse(
                "index out of range",
                f"but indices of the document's {self.n_words} words were expected; give inclusive indices, "
                "counted from 0 over the whole document",
            )
        if first < self.start or last >= self.end:
            raise item.refuse(
                "crosses a sentence boundary",
                f"but sentence {self.number} has the words {self.start} to {self.end - 1} of the document; "
                "list it with its sentence, or remove it where it crosses sentences",
            )
        return first - self.start, last + 1 - self.start


def _sentence(
    words: Value, ner: Value | None, relations: Value | None, window: _Window, context: ReadContext
) -> Sentence:
    given = words.words()
    entities = ner.items() if ner else []
    triples = relations.items() if relations else []
    draft = Draft(context)
    by_span: dict[tuple[int, int], list[Placed]] = {}
    for item in entities:
        placed = context.attempt("entity", _entity, item, window, draft)
        if placed is not None:
            by_span.setdefault((placed.span.start, placed.span.end), []).append(placed)
    for item in triples:
        context.attempt("relation", _relation, item, window, by_span, draft)
    return Sentence.from_words(given, draft.entities[0], draft.triples[0])


def _entity(item: Value, window: _Window, draft: Draft) -> Placed:
    start, end, label, *scores = item.items(3, 5)
    return draft.entity(item, Span(*window.span(item, start, end), label.label(), _score(scores)))


def _relation(item: Value, window: _Window, by_span: dict[tuple[int, int], list[Placed]], draft: Draft) -> None:
    *bounds, label = item.items(5, 7)[:5]
    scores = item.items()[5:]
    ends, ambiguous = [], False
    for role, (start, end) in (("head", bounds[:2]), ("tail", bounds[2:])):
        candidates = by_span.get(window.span(item, start, end))
        if not candidates:
            raise item.refuse(
                "missing entity",
                f"whose {role}, words {start.raw} to {end.raw}, is none of the sentence's entities; add it "
                "to 'ner', or remove the relation",
            )
        ambiguous = ambiguous or len(candidates) > 1
        ends.append(candidates[0])
    draft.relation(item, ends[0], label.label(), ends[1], _score(scores))
    if ambiguous:
        draft.context.report.note("relation ambiguous: several entities share a span", item.example())


def _score(scores: list[Value]) -> float | None:
    """DyGIE++ ends a prediction with its raw score and its probability: the last is the score.

    One number alone may be either: what cannot be a probability is a raw score, and tells nothing.
    """
    numbers = [score.number() for score in scores]
    if not numbers or (len(numbers) == 1 and not 0 <= numbers[0] <= 1):
        return None
    return scores[-1].score()


def write(documents: Iterable[Document], path: Path) -> None:
    """Write one line a document, without text, offsets and scores, which the format does not hold."""
    with writing(path) as handle:
        for document in documents:
            handle.write(f"{to_json(_record(document))}\n".encode())


def _record(document: Document) -> dict[str, object]:
    first, ner, relations = 0, [], []
    for number, sentence in enumerate(document.sentences):
        by_span: dict[tuple[int, int], Span] = {}
        for entity in sentence.entities:
            by_span.setdefault((entity.start, entity.end), entity)
        for argument in (a for triple in sentence.triples for a in (triple.head, triple.tail)):
            if by_span[argument.start, argument.end] != argument:
                raise DataError(
                    f"document {document.id!r}, sentence {number}: a relation holds of the entity "
                    f"{argument.label!r} at words [{argument.start}, {argument.end}), where "
                    f"{by_span[argument.start, argument.end].label!r} is listed first, and DyGIE relations "
                    "name spans without types; list it first, or write jsonl or spert"
                )
        ner.append([[first + e.start, first + e.end - 1, e.label] for e in sentence.entities])
        relations.append(
            [
                [
                    first + t.head.start,
                    first + t.head.end - 1,
                    first + t.tail.start,
                    first + t.tail.end - 1,
                    t.label,
                ]
                for t in sentence.triples
            ]
        )
        first += len(sentence)
    words = [list(sentence.words) for sentence in document.sentences]
    return {"doc_key": document.id, "sentences": words, "ner": ner, "relations": relations}


DYGIE = Format("dygie", "DyGIE++ / SciERC JSON lines, a document a line", (), sniff, read, write)
