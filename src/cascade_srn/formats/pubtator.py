"""PubTator: title and abstract of an article, entities by character offsets, relations by concept id.

A relation names two concepts, not two mentions. It is read as a relation between the nearest mentions of both in each
sentence that has both.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cascade_srn.errors import DataError
from cascade_srn.formats.base import SCORES, Format, ReadContext
from cascade_srn.formats.files import (
    open_for_writing,
    read_text_lines,
)
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.jsonl import index_relations
from cascade_srn.formats.reports import Place
from cascade_srn.formats.standoff import Link, StandoffEntity, StandoffReader
from cascade_srn.storage.limits import read_limits
from cascade_srn.types import Document

_TEXT = re.compile(r"([^|\t]+)\|([ta])\|(.*)", re.DOTALL)


def sniff(head: str, path: Path) -> bool:
    """Return whether the first line is the title of an article, ``id|t|title``."""
    match = _TEXT.fullmatch(head.lstrip().partition("\n")[0].rstrip("\r"))
    return match is not None and match[2] == "t"


@dataclass
class _Article:
    """Lines of one article."""

    place: Place
    id: str
    title: str = ""
    abstract: str = ""
    rows: list[Value] = field(default_factory=list)

    @property
    def text(self) -> str:
        return f"{self.title} {self.abstract}" if self.abstract else self.title


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """Read the articles of a file, which blank lines separate."""
    return context.read_each(_read_articles(path, context.encoding), _read_document)


def _read_articles(path: Path, encoding: str | None) -> Iterator[_Article]:
    article: _Article | None = None
    limits = read_limits()
    for text, place in read_text_lines(path, encoding):
        match = _TEXT.fullmatch(text)
        id = match[1] if match else text.partition("\t")[0]
        if article is not None and (not text.strip() or id != article.id):
            yield article
            article = None
        if not text.strip():
            continue
        if article is None:
            article = _Article(Place(place.file, place.where, id), id)
        if match is None:
            article.rows.append(Value(text, Place(place.file, place.where, id), "line"))
            limits.check_words(len(article.rows), article.place, "lines")
        elif match[2] == "t":
            article.title = match[3]
        else:
            article.abstract = match[3]
    if article is not None:
        yield article


def _read_document(article: _Article, context: ReadContext) -> Document:
    record = Value({}, article.place)
    if not article.text:
        raise article.rows[0].refuse("no text", "but the article has no line with its title", "Add 'id|t|title'")
    mentions = [row for row in article.rows if _is_mention(row)]
    links = [row for row in article.rows if not _is_mention(row)]
    reader = _RowReader(context, article, mentions)
    return StandoffReader(record, article.text, context).build(mentions, reader.mention, links, reader.links)


def _is_mention(row: Value) -> bool:
    columns = row.raw.split("\t")
    return len(columns) >= 5 and columns[1].isdecimal() and columns[2].isdecimal()


class _RowReader:
    """Reader of the rows of one article. The key of an entity is its row."""

    def __init__(self, context: ReadContext, article: _Article, mentions: list[Value]) -> None:
        self._context = context
        self._sentences = [
            (words[0][0], words[-1][1]) for words in context.segment(article.text, article.place) if words
        ]
        self._concepts: dict[str, list[tuple[int, int, str]]] = {}
        for row in mentions:
            columns = row.raw.split("\t")
            # A mention of several concepts has their ids with separators.
            for concept in re.split(r"[;|,]", columns[5]) if len(columns) > 5 else ():
                self._concepts.setdefault(concept.strip(), []).append(
                    (int(columns[1]), int(columns[2]), row.place.where)
                )

    def mention(self, row: Value) -> StandoffEntity:
        _, start, end, text, label = row.raw.split("\t")[:5]
        if not label.strip():
            raise row.refuse("blank label", "which has no type")
        return StandoffEntity(row.place.where, int(start), int(end), label, text)

    def links(self, row: Value) -> Iterator[Link]:
        columns = row.raw.split("\t")
        if len(columns) < 4 or not all(column.strip() for column in columns[1:4]):
            problem = "but an entity of six columns or a relation of four was expected"
            raise row.refuse("malformed line", problem, "Separate columns by tabs")
        _, label, head, tail = columns[:4]
        for concept in (head, tail):
            if concept not in self._concepts:
                problem = f"but no entity has the concept {concept!r}"
                raise row.refuse("missing entity", problem, "Add that entity, or remove the relation")
        found = list(self._nearest(head, tail))
        if not found:
            self._context.report.note("relation of concepts that share no sentence left out", row.example())
        elif len(found) > 1 or max(len(self._concepts[head]), len(self._concepts[tail])) > 1:
            self._context.report.note("relation of concepts read as that of their nearest mentions", row.example())
        for first, second in found:
            yield Link(first, label, second)

    def _nearest(self, head: str, tail: str) -> Iterator[tuple[str, str]]:
        """Yield the keys of the nearest mentions of two concepts in each sentence that has both."""
        for start, end in self._sentences:
            pairs = [
                (abs(first[0] - second[0]), first, second)
                for first in self._concepts[head]
                for second in self._concepts[tail]
                if start <= first[0] < end and start <= second[0] < end and first[2] != second[2]
            ]
            if pairs:
                _, first, second = min(pairs)
                yield first[2], second[2]


def write(documents: Iterable[Document], path: Path) -> None:
    """Write one article for each document. Words and scores are lost; line breaks and tabs become spaces.

    Every entity gets a concept of its own, so that relations keep their mentions.
    """
    with open_for_writing(path) as handle:
        for document in documents:
            handle.write(("".join(_to_lines(document)) + "\n").encode())


def _to_lines(document: Document) -> Iterator[str]:
    id = document.id or "0"
    labels = {e.label for e in document.entities} | {r.label for r in document.relations}
    if any(char in part for part in (id, *labels) for char in "|\t\r\n"):
        raise DataError(
            f"the id or a label of document {id!r} has a tab, a line break or '|', which PubTator does not allow",
            "Rename it",
        )
    text = re.sub(r"[\t\r\n\v\f\x85\u2028\u2029]", " ", document.text)
    at = _title_end(document, text)
    yield f"{id}|t|{text[:at]}\n{id}|a|{text[at + 1 :]}\n"
    for number, entity in enumerate(document.entities):
        yield f"{id}\t{entity.start}\t{entity.end}\t{text[entity.start : entity.end]}\t{entity.label}\tE{number}\n"
    for triple, head, tail in index_relations(document):
        yield f"{id}\t{triple.label}\tE{head}\tE{tail}\n"


def _title_end(document: Document, text: str) -> int:
    """Return the end of the first sentence if one space and more text follow, else that of the text."""
    if len(document.sentences) > 1 and document.sentences[0].offsets:
        end = document.sentences[0].offsets[-1][1]
        if text[end : end + 1] == " " and end + 1 < len(text):
            return end
    return len(text)


PUBTATOR = Format(
    "pubtator",
    (".pubtator",),
    sniff,
    read,
    write,
    loses=("words and sentences", *SCORES),
)
