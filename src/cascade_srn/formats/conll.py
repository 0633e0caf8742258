"""CoNLL columns: one word per line with a tag in IOB1, IOB2, BIOES or BILOU, and a blank line after each sentence."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from cascade_srn.errors import DataError
from cascade_srn.formats.base import SCORES, Format, ReadContext
from cascade_srn.formats.builder import DocumentBuilder, read_tokens
from cascade_srn.formats.files import (
    open_for_writing,
    read_text_lines,
)
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.reports import LONG_SENTENCE
from cascade_srn.storage.limits import read_limits
from cascade_srn.types import Document, Sentence, Span

_DOCUMENT = "-DOCSTART-"
# Prefix of a tag by its meaning in IOB2.
_PREFIXES = {"B": "B", "I": "I", "E": "E", "L": "E", "S": "S", "U": "S"}
_LONG = 1000  # words of a sentence that is probably a whole file
_SUFFIXES = (".conll", ".iob", ".iob2", ".bio", ".bioes")


def sniff(head: str, path: Path) -> bool:
    """Return whether the first sentences have lines of two or more columns that end in a tag."""
    rows = [line.split() for line in head[:100_000].splitlines()[:200] if line.strip() and not line.startswith("#")]
    rows = [row for row in rows if row[0] != _DOCUMENT]
    return len(rows) > 1 and all(len(row) > 1 and _is_tag(row[-1]) for row in rows[:-1])


def _is_tag(tag: str) -> bool:
    prefix, dash, label = tag.partition("-")
    return tag == "O" or (prefix in _PREFIXES and bool(dash) and bool(label))


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """Read the documents of a file. Without ``-DOCSTART-``, each sentence is a document."""
    sentences: list[Sentence] = []
    marked = False
    number = n_words = 0
    for rows in _blocks(path, context.encoding):
        if rows[0].raw.split()[0] == _DOCUMENT:
            if sentences:
                yield Document.from_sentences(sentences, id=str(number))
            marked, sentences, n_words, number = True, [], 0, number + 1
            rows = rows[1:]
            if not rows:
                continue
        sentence = context.attempt("sentence", _read_sentence, rows, context)
        if sentence is None:
            continue
        if marked:
            sentences.append(sentence)
            n_words += len(sentence)
            read_limits().check_words(n_words, rows[0].place)
        else:
            number += 1
            yield Document.from_sentences([sentence], id=str(number))
    if sentences:
        yield Document.from_sentences(sentences, id=str(number))


def _blocks(path: Path, encoding: str | None) -> Iterator[list[Value]]:
    """Yield the lines of each sentence, without comments."""
    rows: list[Value] = []
    limits = read_limits()
    for text, place in read_text_lines(path, encoding):
        # A comment of CoNLL-U has a space; the word "#" has a column after it.
        if text.strip() and not (text.startswith("# ") and not rows):
            rows.append(Value(text, place, "line"))
            limits.check_words(len(rows), place)
        elif rows and not text.strip():
            yield rows
            rows = []
    if rows:
        yield rows


def _read_sentence(rows: list[Value], context: ReadContext) -> Sentence:
    words, tags = [], []
    for row in rows:
        columns = row.raw.split("\t") if "\t" in row.raw else row.raw.split()
        if len(columns) < 2 or not _is_tag(columns[-1].strip()):
            problem = "but a word and a tag such as O or B-Method were expected"
            raise row.refuse("malformed line", problem, "Fix the line, or name another format", option="format")
        words.append(columns[0].strip())
        tags.append(columns[-1].strip())
    if len(words) > _LONG:
        context.report.note(LONG_SENTENCE, Value(words, rows[0].place, "words").example())
    words, escaped = read_tokens(Value(words, rows[0].place, "words"), context)
    builder = DocumentBuilder(context)
    for start, end, label in read_tags(tags):
        context.attempt("entity", builder.add_entity, rows[start], Span(start, end, label))
    return Sentence.from_words(words, builder.entities[0], escaped=escaped)


def read_tags(tags: Iterable[str]) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and label of each entity of one sentence. All four schemes are read by the same rules."""
    start, label, at = -1, "", -1
    for at, tag in enumerate(tags):
        prefix, _, name = tag.partition("-")
        kind = _PREFIXES.get(prefix, "O")
        if label and (kind in "OBS" or name != label):
            yield start, at, label
            label = ""
        if kind != "O" and not label:
            start, label = at, name
        if kind in "ES" and label:
            yield start, at + 1, label
            label = ""
    if label:
        yield start, at + 1, label


def write(documents: Iterable[Document], path: Path) -> None:
    """Write words and IOB2 tags, with ``-DOCSTART-`` before each document. Relations, ids and scores are lost.

    Raises:
        DataError: Entities overlap, or a word has whitespace in it.
    """
    with open_for_writing(path) as handle:
        for document in documents:
            handle.write(f"{_DOCUMENT} O\n\n".encode())
            for sentence in document.sentences:
                tags = _to_tags(sentence, document.id)
                lines = [f"{word} {tag}\n" for word, tag in zip(sentence.words, tags, strict=True)]
                handle.write(("".join(lines) + "\n").encode())


def _to_tags(sentence: Sentence, id: str) -> list[str]:
    tags = ["O"] * len(sentence)
    for word in sentence.words:
        if word.split() != [word]:
            raise DataError(
                f"the word {word!r} in document {id!r} has whitespace in it, which columns do not allow",
                "Write another format",
            )
    for entity in sentence.entities:
        if any(tag != "O" for tag in tags[entity.start : entity.end]):
            raise DataError(
                f"entities of document {id!r} overlap at word {entity.start} of a sentence, but a word has one tag",
                "Write another format",
            )
        if entity.label.split() != [entity.label]:
            raise DataError(f"the label {entity.label!r} has whitespace in it, which columns do not allow", "Rename it")
        tags[entity.start : entity.end] = [f"B-{entity.label}"] + [f"I-{entity.label}"] * (
            entity.end - entity.start - 1
        )
    return tags


CONLL = Format(
    "conll",
    _SUFFIXES,
    sniff,
    read,
    write,
    loses=("text and offsets", "ids of documents", "relations", *SCORES),
)
