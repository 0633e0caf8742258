"""Triples without offsets, as CasRel, NYT and WebNLG files have them and language models return them.

``{"text": ..., "triples": [["CRF", "used-for", "NER"]]}``, with or without types. The strings are located in the text:
exactly, by normalised text, or by a fuzzy match. Triples that are not found, or found at several places, are noted and
left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any

from cascade_srn.formats.base import SCORES, Format, ReadContext
from cascade_srn.formats.builder import DocumentBuilder, PlacedEntity
from cascade_srn.formats.files import read_head, read_json, read_json_lines, write_json_lines
from cascade_srn.formats.json_records import Value, number_values
from cascade_srn.formats.standoff import first_records
from cascade_srn.text.forms import model_form
from cascade_srn.types import Document, Offsets, Span

EXACT, NORMALISED, FUZZY = 0, 1, 2
# Lowest similarity of two words, and fewest letters of both. "NER" is one letter away from "NEL".
_MIN_SIMILARITY = 0.85
_MIN_WORD = 4
# Shorter strings have no fuzzy match.
_MIN_FUZZY = 6
_IGNORED = re.compile(r"[\s\-‐‑‒–—'\"]+")
_ARTICLES = frozenset(("a", "an", "the"))
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Match:
    """Words ``[start, end)`` of a sentence, and how they were found (``EXACT``, ``NORMALISED``, ``FUZZY``)."""

    sentence: int
    start: int
    end: int
    how: int

    def overlaps(self, other: Match) -> bool:
        """Return whether two matches share words."""
        return self.sentence == other.sentence and self.start < other.end and other.start < self.end


class Locator:
    """Places of strings in one document.

    Args:
        text: Text of the document.
        sentences: Half-open offsets of the words of each sentence.
        names: All strings that are looked for. An occurrence inside that of a longer name is not taken if the string
            also occurs elsewhere.
    """

    def __init__(self, text: str, sentences: Sequence[Offsets], names: Iterable[str] = ()) -> None:
        self._words = [[text[start:end] for start, end in sentence] for sentence in sentences]
        self._text = text
        self._sentences = sentences
        self._names = sorted(set(names), key=len, reverse=True)
        self._found: dict[tuple[str, bool], list[Match]] = {}

    def find(self, name: str, *, all_ways: bool = False) -> list[Match]:
        """Return the places of a string, found by the strictest way that finds any, or by all ways."""
        matches = self._find_all(name, all_ways)
        if len(matches) > 1:
            outside = [match for match in matches if not self._is_inside(match, name)]
            matches = outside or matches
        return matches

    def find_pairs(self, head: str, tail: str) -> list[tuple[Match, Match]]:
        """Return the pairs of places of two strings that are in one sentence and not the same words.

        If one string is not in the text, both may have been changed. All similar places are then returned: a string
        that was changed can be equal to words at another place.
        """
        places = self.find(head), self.find(tail)
        if any(match.how for found in places for match in found):
            places = self.find(head, all_ways=True), self.find(tail, all_ways=True)
        return [
            (first, second)
            for first in places[0]
            for second in places[1]
            if first.sentence == second.sentence and (first.start, first.end) != (second.start, second.end)
        ]

    def _find_all(self, name: str, all_ways: bool = False) -> list[Match]:
        if (name, all_ways) not in self._found:
            ways = (self._find_exactly, self._find_normalised, self._find_fuzzily)
            found: list[Match] = []
            for way in ways:
                more = [self._with_quotes(match, name) for match in way(name)]
                # The same words, without an article, are not another place.
                found += [match for match in more if not any(map(match.overlaps, found))]
                if found and not all_ways:
                    break
            self._found[name, all_ways] = found
        return self._found[name, all_ways]

    def _with_quotes(self, match: Match, name: str) -> Match:
        """Return a match with the quotes around it if the string has them, since quotes are not compared."""
        name = " ".join(_without_article(name)) if match.how else name
        words, (start, end) = self._words[match.sentence], (match.start, match.end)
        if match.how and not _normalise(name[:1]) and start and not _normalise_word(words[start - 1]):
            start -= 1
        if match.how and not _normalise(name[-1:]) and end < len(words) and not _normalise_word(words[end]):
            end += 1
        return replace(match, start=start, end=end)

    def _is_inside(self, match: Match, name: str) -> bool:
        """Return whether a match is within that of a longer name."""
        for other in self._names:
            if len(other) <= len(name):
                return False
            for around in self._find_all(other):
                longer = around.end - around.start > match.end - match.start
                covers = around.start <= match.start and match.end <= around.end
                if longer and covers and around.sentence == match.sentence:
                    return True
        return False

    def _find_exactly(self, name: str) -> list[Match]:
        name = name.strip()
        found = []
        for number, sentence in enumerate(self._sentences):
            starts = {start: n for n, (start, _) in enumerate(sentence)}
            ends = {end: n + 1 for n, (_, end) in enumerate(sentence)}
            for start, first in starts.items():
                end = start + len(name)
                if self._text.startswith(name, start) and end in ends:
                    found.append(Match(number, first, ends[end], EXACT))
        return found

    def _find_normalised(self, name: str) -> list[Match]:
        wanted = _normalise(name)
        if not wanted:
            return []
        found = []
        for number, words in enumerate(self._words):
            normal = [_normalise_word(word) for word in words]
            for first in range(len(words)):
                joined, last = "", first
                while last < len(words) and len(joined) < len(wanted):
                    joined += normal[last]
                    last += 1
                if joined == wanted and normal[first] and normal[last - 1]:
                    found.append(Match(number, first, last, NORMALISED))
        return found

    def _find_fuzzily(self, name: str) -> list[Match]:
        """Return the one place whose words are all similar, with the same numbers."""
        wanted = [part for word in _without_article(name) for part in _split_word(word)]
        if sum(map(len, wanted)) < _MIN_FUZZY:
            return []
        found = []
        for number, words in enumerate(self._words):
            # Pieces of words, with the position of the word.
            pieces = [(piece, at) for at, word in enumerate(words) for piece in _split_word(word)]
            for first in range(len(pieces) - len(wanted) + 1):
                window = pieces[first : first + len(wanted)]
                after = pieces[first + len(wanted)][1] if first + len(wanted) < len(pieces) else -1
                is_whole = (not first or pieces[first - 1][1] != window[0][1]) and after != window[-1][1]
                if is_whole and all(map(_is_similar, wanted, (piece for piece, _ in window))):
                    found.append(Match(number, window[0][1], window[-1][1] + 1, FUZZY))
        return found


@cache
def _is_similar(first: str, second: str) -> bool:
    """Return whether two words differ in an ending or a typing error: not in their first letter, not in a number."""
    if first == second:
        return True
    if min(len(first), len(second)) < _MIN_WORD or first[0] != second[0]:
        return False
    if _NUMBER.findall(first) != _NUMBER.findall(second):
        return False
    return SequenceMatcher(None, first, second, autojunk=False).ratio() >= _MIN_SIMILARITY


@cache
def _normalise_word(word: str) -> str:
    """Return a word in lower case with natural characters, without hyphens and quotes."""
    return _IGNORED.sub("", model_form(word)).casefold()


def _split_word(word: str) -> list[str]:
    """Return the parts of a word between hyphens, normalised."""
    return [part for part in map(_normalise_word, _IGNORED.split(model_form(word))) if part]


def _without_article(name: str) -> list[str]:
    words = name.split()
    return words[1:] if len(words) > 1 and words[0].casefold() in _ARTICLES else words


def _normalise(name: str) -> str:
    """Return a string as :func:`_normalise_word` does, without a leading article."""
    return "".join(map(_normalise_word, _without_article(name)))


DEFAULT_TYPE = "Entity"
"""Type of entities that have none."""
# Names of the same field in published files.
_TEXTS = ("text", "sentText", "sentence")
_LISTS = ("triples", "triple_list", "relationMentions", "spo_list", "relations")
_ENTITY_LISTS = ("entities", "entityMentions")
_HEADS = ("head", "subject", "em1Text", "source")
_TAILS = ("tail", "object", "em2Text", "target")
_LABELS = ("relation", "predicate", "label", "type")
_WAYS = {NORMALISED: "normalised text", FUZZY: "fuzzy match"}
_TYPES = ("{}_type", "{}Type", "{}_label")


def sniff(head: str, path: Path) -> bool:
    """Return whether a record has a text, and triples whose head and tail are strings."""
    return any(map(_is_record, first_records(head)))


def _is_record(record: dict[str, Any]) -> bool:
    lists = [record[name] for name in _LISTS if isinstance(record.get(name), list)]
    return any(name in record for name in _TEXTS) and any(_is_triple(item) for items in lists for item in items[:1])


def _is_triple(item: Any) -> bool:
    if isinstance(item, list):
        return len(item) == 3 and all(isinstance(part, str) for part in item)
    return isinstance(item, dict) and all(
        any(isinstance(item.get(name), str) for name in names) for names in (_HEADS, _TAILS, _LABELS)
    )


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """Read the records of JSON lines or of a JSON array."""
    if not read_head(path, 4096, context.encoding).lstrip().startswith("["):
        yield from read_json_lines(path, context, _read_document)
        return
    values = (item.raw for item in read_json(path, context.encoding).items())
    yield from context.read_each(number_values(path, "record", values), _read_document)


@dataclass(frozen=True, slots=True)
class _Name:
    """Text of an entity, and its type."""

    text: str
    label: str


def _read_document(record: Value, context: ReadContext) -> Document:
    record = record.with_document_id("id")
    text = _first(record, _TEXTS).string()
    record.note_unread(("id", *_TEXTS, *_LISTS, *_ENTITY_LISTS), context)
    offsets = [tuple(sentence) for sentence in context.segment(text, record.place)]
    listed = [item for name in _ENTITY_LISTS for item in record.get_items(name)]
    entities = [context.attempt("entity", _read_name, item) for item in listed]
    types = {name.text: name.label for name in entities if name is not None}
    items = [item for name in _LISTS for item in record.get_items(name)]
    triples = [(item, context.attempt("relation", _read_triple, item, types)) for item in items]
    known = [name.text for _, triple in triples if triple is not None for name in (triple[0], triple[2])]
    locator = Locator(text, offsets, (*known, *types))
    placing = _Placing(locator, DocumentBuilder(context, len(offsets), made=True), context)
    for item, triple in triples:
        if triple is not None:
            placing.add_triple(item, *triple)
    for item, name in zip(listed, entities, strict=True):
        if name is not None:
            placing.add_name(item, name)
    return placing.builder.build(text, offsets, record.place.document)


def _first(item: Value, names: Iterable[str]) -> Value:
    """Return the first field that exists; the first name is the one that an error names."""
    names = tuple(names)
    found = next((value for name in names if (value := item.get(name)) is not None), None)
    return item.field(names[0]) if found is None else found


def _read_name(item: Value) -> _Name:
    if isinstance(item.raw, str):
        return _Name(item.string(), DEFAULT_TYPE)
    label = next((value.label() for name in ("type", "label") if (value := item.get(name)) is not None), DEFAULT_TYPE)
    return _Name(_first(item, ("text", "name")).string(), label)


def _read_triple(item: Value, types: dict[str, str]) -> tuple[_Name, str, _Name]:
    if isinstance(item.raw, list):
        head, label, tail = item.items(3, 3)
        given: dict[str, str | None] = {"head": None, "tail": None}
    else:
        head, label, tail = (_first(item, names) for names in (_HEADS, _LABELS, _TAILS))
        given = {"head": _find_type(item, _HEADS), "tail": _find_type(item, _TAILS)}
    names = []
    for role, value in (("head", head), ("tail", tail)):
        text = value.string()
        if not text.strip():
            raise item.refuse(f"blank {role}", f"whose {role} is blank", "Remove the triple")
        names.append(_Name(text, given[role] or types.get(text, DEFAULT_TYPE)))
    return names[0], label.label(), names[1]


def _find_type(item: Value, roles: Iterable[str]) -> str | None:
    names = [pattern.format(role.removesuffix("Text")) for role in roles for pattern in _TYPES]
    found = next((value for name in names if (value := item.get(name)) is not None), None)
    return None if found is None else found.label()


class _Placing:
    """Entities and relations of one document at the places where their strings are found."""

    def __init__(self, locator: Locator, builder: DocumentBuilder, context: ReadContext) -> None:
        self.builder = builder
        self._locator = locator
        self._context = context
        self._names: set[_Name] = set()

    def add_triple(self, item: Value, head: _Name, label: str, tail: _Name) -> None:
        """Add a triple if there is exactly one place for it."""
        pairs = self._locator.find_pairs(head.text, tail.text)
        if len(pairs) != 1:
            problem = "at several places" if pairs else "whose head and tail are in no sentence together"
            self._context.report.note(f"triple {problem} left out", item.example())
            return
        first, second = pairs[0]
        if how := max(first.how, second.how):
            self._context.report.note(f"triple located by {_WAYS[how]}", item.example())
        ends = [self._add(match, name) for match, name in ((first, head), (second, tail))]
        self.builder.add_relation(item, ends[0], label, ends[1])

    def add_name(self, item: Value, name: _Name) -> None:
        """Add an entity of a list, unless a triple placed it."""
        if name in self._names:
            return
        matches = self._locator.find(name.text)
        if len(matches) == 1:
            self._add(matches[0], name)
        else:
            problem = "at several places" if matches else "not found"
            self._context.report.note(f"entity {problem} left out", item.example())

    def _add(self, match: Match, name: _Name) -> PlacedEntity:
        span = Span(match.start, match.end, name.label)
        self.builder.entities[match.sentence].setdefault(span, None)
        self._names.add(name)
        return PlacedEntity(match.sentence, span)


def write(documents: Iterable[Document], path: Path) -> None:
    """Write one record for each document. Offsets, words, scores, and entities at several places, are lost."""
    write_json_lines(map(_to_record, documents), path)


def _to_record(document: Document) -> dict[str, Any]:
    triples = [
        {
            "head": relation.head.text,
            "head_type": relation.head.label,
            "relation": relation.label,
            "tail": relation.tail.text,
            "tail_type": relation.tail.label,
        }
        for relation in document.relations
    ]
    related = {end for relation in document.relations for end in (relation.head, relation.tail)}
    others = [{"text": e.text, "type": e.label} for e in document.entities if e not in related]
    return {"id": document.id, "text": document.text, "triples": triples, "entities": others}


TRIPLES = Format(
    "triples",
    (),
    sniff,
    read,
    write,
    loses=("places of entities", "words and sentences", *SCORES),
)
