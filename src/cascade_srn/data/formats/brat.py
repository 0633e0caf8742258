"""Writing brat standoff: a new folder of ``.txt`` and ``.ann`` files, or one such pair."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from cascade_srn.data.alignment import WordMap
from cascade_srn.data.formats.base import Format, ReadContext, Refused
from cascade_srn.data.formats.builder import Draft, Placed, check_text, word_offsets
from cascade_srn.data.formats.files import BYTE_ORDER_MARK, decoded, is_stream, read_once, replacing, whole_bytes
from cascade_srn.data.formats.records import Value
from cascade_srn.data.reports import Occurrence, Place
from cascade_srn.errors import DataError, shown
from cascade_srn.storage.atomic import AtomicFolder
from cascade_srn.storage.files import files_below, is_hidden, written_names
from cascade_srn.types import Document, Span

ONE_LINE = str.maketrans("\n\r\t", "   ")
"""An annotation is one line: what would break it stands as a space in the text of an entity."""


def write(documents: Iterable[Document], path: Path) -> None:
    """Write a folder with files named by the documents' ids; or one document where ``path`` ends in ``.ann``.

    Words, sentences and scores are not held by the format. A folder must be new or empty, so that documents
    of two corpora are never mixed; it appears when all documents are written.
    """
    if path.suffix == ".ann":
        _write_one(documents, path)
        return
    with _new_folder(path) as folder:
        seen: set[str] = set()
        for document in documents:
            _check_id(document.id, seen)
            stem = folder / document.id
            try:
                stem.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise DataError(
                    f"document {document.id!r} cannot be written to {path} ({error.strerror}); rename it"
                ) from error
            _write_pair(document, stem.with_name(f"{stem.name}.ann"))


def _write_one(documents: Iterable[Document], path: Path) -> None:
    given = iter(documents)
    first = next(given, None)
    if first is None or next(given, None) is not None:
        raise DataError(
            f"{path} holds one document, but {'none' if first is None else 'several'} were given; give the "
            "path of a folder to write any number"
        )
    _write_pair(first, path)


def _write_pair(document: Document, path: Path) -> None:
    lines = list(_annotation_lines(document))
    if document.text.startswith("\ufeff"):
        raise DataError(
            f"the text of document {document.id!r} starts with a byte-order mark, which brat cannot "
            "keep; remove it, or write jsonl"
        )
    beside = path.with_name(f"{path.name.removesuffix('.ann')}.txt")
    with replacing(beside) as text, replacing(path) as annotations:  # so that neither is there without the other
        text.write(document.text.encode())
        annotations.write("".join(lines).encode())


def _annotation_lines(document: Document) -> Iterator[str]:
    numbers: dict[tuple[int, Span], int] = {}
    entities = iter(document.entities)
    for at, sentence in enumerate(document.sentences):
        for span, entity in zip(sentence.entities, entities, strict=False):
            numbers[at, span] = len(numbers) + 1
            label = _label(span.label, document)
            text = entity.text.translate(ONE_LINE)
            yield f"T{len(numbers)}\t{label} {entity.start} {entity.end}\t{text}\n"
    n_relations = 0
    for at, sentence in enumerate(document.sentences):
        for triple in sentence.triples:
            n_relations += 1
            label = _label(triple.label, document)
            head, tail = numbers[at, triple.head], numbers[at, triple.tail]
            yield f"R{n_relations}\t{label} Arg1:T{head} Arg2:T{tail}\n"


def can_hold(label: str) -> bool:
    """Whether a label is one word, as the lines of brat need it."""
    return label.split() == [label]


def _label(label: str, document: Document) -> str:
    if not can_hold(label):
        raise DataError(
            f"the label {label!r} in document {document.id!r} has a space in it, which brat cannot hold; "
            "rename it, or write another format"
        )
    return label


def _check_id(id: str, seen: set[str]) -> None:
    plain = PurePosixPath(id)
    hidden = any(part.startswith(".") for part in plain.parts)
    if not id or str(plain) != id or plain.is_absolute() or hidden or "\\" in id or "\0" in id:
        raise DataError(
            f"the document id {id!r} is no name for a file, but brat files are named by it; give each "
            "document an id such as 'a' or 'news/a'"
        )
    if id in seen:
        raise DataError(f"the document id {id!r} is given twice, but brat files are named by it; rename one")
    seen.add(id)


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill, which becomes ``path`` when the block ends well, and else is removed."""
    target = AtomicFolder(path)
    try:
        yield target.folder
        target.commit()
    except BaseException:
        target.discard()
        raise


IGNORED = {
    "E": "event",
    "A": "attribute",
    "M": "modification",
    "N": "normalization",
    "#": "note",
    "*": "equivalence",
}
_ENTITY = re.compile(r"(T\S+)\t(\S+) (-?[0-9]{1,15}) (-?[0-9]{1,15})(?:\t(.*))?", re.DOTALL)
_DISCONTINUOUS = re.compile(r"T\S+\t\S+ [0-9]+ [0-9]+(;[0-9]+ [0-9]+)+(\t.*)?", re.DOTALL)
_RELATION = re.compile(r"R\S+\t(\S+) (\S+):(\S+) (\S+):(\S+)\s*")


def sniff(head: str, path: Path) -> bool:
    """Whether the path is an ``.ann`` file or a folder that holds one."""
    if path.is_dir():
        return next(files_below(path, lambda member: member.suffix == ".ann"), None) is not None
    return path.suffix == ".ann"


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """The documents in and below a folder, in the order of their ids; or the one of an ``.ann`` file."""
    if path.is_dir():
        stems, folder = _stems(path, context), path
    elif path.suffix == ".ann":
        stems, folder = [path.name.removesuffix(".ann")], path.parent
    else:
        raise DataError(
            f"{path} is no .ann file, but one was expected, or a folder; give the .ann file beside the text"
        )
    for stem, id in zip(stems, written_names(stems), strict=True):
        document = context.attempt("document", _document, folder / stem, id, context)
        if document is not None:
            yield document


def _stems(folder: Path, context: ReadContext) -> list[str]:
    """What the ids of a folder's documents are made of: paths from the folder on, without the ending."""
    stems: set[str] = set()
    n_annotated = 0
    for path in files_below(folder, lambda path: path.suffix in (".ann", ".txt")):
        if is_hidden(path, folder):
            context.report.note("hidden file not read", Occurrence(Place(str(path)), "", shown(path.name)))
            continue
        stems.add(path.relative_to(folder).as_posix()[: -len(".ann")])
        n_annotated += path.suffix == ".ann"
    if not n_annotated:
        raise DataError(
            f"{folder} holds no .ann file, but pairs of .txt and .ann files were expected; give the folder "
            "that has them, or pass another format"
        )
    return sorted(stems)


def _document(stem: Path, id: str, context: ReadContext) -> Document:
    data, place = _bytes(stem, id, ".txt")
    if data is None:
        raise Refused(
            "missing text file",
            f"{place}: there is an .ann file for {id!r} but no {place.file}, in which its text was expected; "
            "add the text, or remove the .ann file",
            Occurrence(place, "", repr(id)),
        )
    text = decoded(data.removeprefix(BYTE_ORDER_MARK), place)
    made = Value(context.segment(text), place, "words made by the segmenter")
    offsets = word_offsets(made, text, context)
    words = WordMap(text, offsets, document=id, made=True)
    annotations = _Annotations(words, Draft(context, len(offsets), made=True), data.startswith(BYTE_ORDER_MARK))
    for line in _lines(stem, id, context):
        annotations.take(line)
    annotations.take_relations()
    return annotations.draft.document(text, offsets, id)


def _bytes(stem: Path, id: str, ending: str) -> tuple[bytes | None, Place]:
    path = stem.with_name(f"{stem.name}{ending}")
    place = Place(str(path), document=id)
    if not os.path.exists(path):
        return None, place
    if is_stream(path):
        # Opening a pipe that nobody writes to would wait forever.
        raise read_once(path)
    return whole_bytes(path), place


def _lines(stem: Path, id: str, context: ReadContext) -> list[Value]:
    data, place = _bytes(stem, id, ".ann")
    if data is None:
        context.report.note("text without an .ann file", Occurrence(place, "", repr(id)))
        return []
    lines = decoded(data.removeprefix(BYTE_ORDER_MARK), place).split("\n")
    return [
        Value(line.removesuffix("\r"), replace(place, where=f"line {number}"), line.partition("\t")[0])
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]


class _Annotations:
    """The lines of one ``.ann`` file on their way into a document."""

    def __init__(self, words: WordMap, draft: Draft, had_mark: bool) -> None:
        self.words = words
        self.draft = draft
        self.had_mark = had_mark
        self.placed: dict[str, Placed | None] = {}
        self.relations: list[Value] = []  # which may stand before their entities

    def take(self, line: Value) -> None:
        """Take an entity, keep a relation for later, count a line of another kind."""
        context = self.draft.context
        kind = line.raw[0]
        if kind == "T":
            placed = context.attempt("entity", self.entity, line)
            self.placed.setdefault(line.path, placed)
        elif kind == "R":
            self.relations.append(line)
        elif kind in IGNORED:
            context.report.note(f"{IGNORED[kind]} line not read", line.example())
        else:
            context.attempt("line", self.refuse, line)

    def take_relations(self) -> None:
        """Take the relations, all entities being known."""
        for line in self.relations:
            self.draft.context.attempt("relation", self.relation, line)

    def refuse(self, line: Value) -> None:
        """Refuse a line of a kind that brat does not have."""
        raise line.refuse(
            "unknown line",
            f"but a line that starts with one of T, R, {', '.join(IGNORED)} was expected; remove or mend it",
        )

    def entity(self, line: Value) -> Placed:
        """Take an entity line, ``T1<tab>Label start end<tab>text``."""
        if _DISCONTINUOUS.fullmatch(line.raw):
            raise line.refuse(
                "discontinuous span",
                "but a span in one piece was expected; give one span, or skip it by --skip-malformed of convert, "
                "data.skip_malformed=true of train, or strict=False in Python",
            )
        match = _ENTITY.fullmatch(line.raw)
        if match is None:
            raise line.refuse("malformed line", "but 'T1<tab>Label start end<tab>text' was expected; mend the line")
        id, label, start, end, said = match[1], match[2], int(match[3]), int(match[4]), match[5]
        if id in self.placed:
            raise line.refuse("duplicate id", f"but {id} stands in an earlier line already; number it anew")
        if said is not None and self.had_mark and self._text(start, end) != said.translate(ONE_LINE):
            start, end = start - 1, end - 1  # brat itself counts a byte-order mark as the first character
        line.half_open(start, end, len(self.words.text), "characters in the text")
        if said is not None:
            check_text(line, self._text(start, end), said.translate(ONE_LINE))
        return self.draft.entity_at(line, self.words, start, end, label)

    def _text(self, start: int, end: int) -> str:
        return self.words.text[max(start, 0) : max(end, 0)].translate(ONE_LINE)

    def relation(self, line: Value) -> None:
        """Take a relation line, ``R1<tab>Label Arg1:T1 Arg2:T2``; other roles count in the order given."""
        match = _RELATION.fullmatch(line.raw)
        if match is None:
            raise line.refuse("malformed line", "but 'R1<tab>Label Arg1:T1 Arg2:T2' was expected; mend the line")
        label, *roles = match.groups()
        arguments = [roles[1], roles[3]]
        if [roles[0], roles[2]] == ["Arg2", "Arg1"]:
            arguments.reverse()
        if any(argument.startswith("E") for argument in arguments):
            self.draft.context.report.note("relation between events not read", line.example())
            return
        for argument in arguments:
            if argument not in self.placed:
                raise line.refuse(
                    "missing entity",
                    f"but no line of the file has the id {argument}; add that entity, or remove the relation",
                )
        self.draft.relation(line, self.placed[arguments[0]], label, self.placed[arguments[1]])


BRAT = Format("brat", "brat standoff, a folder of .txt and .ann files", (".ann",), sniff, read, write)
