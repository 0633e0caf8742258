"""Read and write brat standoff: a folder of ``.txt`` and ``.ann`` files, or one such pair."""

import io
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from cascade_srn.errors import DataError, short_repr
from cascade_srn.formats.alignment import WordMap
from cascade_srn.formats.base import SCORES, Format, MalformedInput, ReadContext
from cascade_srn.formats.builder import DocumentBuilder, PlacedEntity, check_text, read_word_offsets
from cascade_srn.formats.files import (
    BYTE_ORDER_MARK,
    decode_text,
    is_stream,
    read_bytes,
    replacing,
    stream_error,
)
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.reports import Occurrence, Place
from cascade_srn.storage.atomic import AtomicFolder
from cascade_srn.storage.files import encodable_names, files_below, is_hidden
from cascade_srn.storage.limits import read_limits
from cascade_srn.types import Document, Span

ONE_LINE = str.maketrans("\n\r\t", "   ")
"""Line breaks and tabs in the text of an entity become spaces, because an annotation is one line."""


def write(documents: Iterable[Document], path: Path) -> None:
    """Write a new or empty folder with files named by document ids, or one document if ``path`` ends in ``.ann``.

    Words, sentences, scores and coreference clusters are lost. The folder appears when all documents are written.
    """
    if path.suffix == ".ann":
        _write_one(documents, path)
        return
    with new_folder(path) as folder:
        seen: set[str] = set()
        for document in documents:
            check_id(document.id, seen)
            stem = folder / document.id
            try:
                stem.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise DataError(
                    f"document {document.id!r} cannot be written to {path} ({error.strerror})", "Rename it"
                ) from error
            _write_pair(document, stem.with_name(f"{stem.name}.ann"))


def _write_one(documents: Iterable[Document], path: Path) -> None:
    given = iter(documents)
    first = next(given, None)
    if first is None or next(given, None) is not None:
        raise DataError(
            f"{path} is for one document, but {'none was' if first is None else 'several were'} passed",
            "Write several documents to a folder",
        )
    _write_pair(first, path)


def _write_pair(document: Document, path: Path) -> None:
    lines = list(_annotation_lines(document))
    if document.text.startswith("\ufeff"):
        raise DataError(
            f"the text of document {document.id!r} starts with a byte-order mark, which brat cannot keep",
            "Remove it, or write jsonl",
        )
    beside = path.with_name(f"{path.name.removesuffix('.ann')}.txt")
    with replacing(beside) as text, replacing(path) as annotations:  # both or none
        text.write(document.text.encode())
        annotations.write("".join(lines).encode())


def _annotation_lines(document: Document) -> Iterator[str]:
    numbers: dict[tuple[int, Span], int] = {}
    entities = iter(document.entities)
    for at, sentence in enumerate(document.sentences):
        for span, entity in zip(sentence.entities, entities, strict=False):
            numbers[at, span] = len(numbers) + 1
            label = _check_label(span.label, document)
            text = entity.text.translate(ONE_LINE)
            yield f"T{len(numbers)}\t{label} {entity.start} {entity.end}\t{text}\n"
    n_relations = 0
    for at, sentence in enumerate(document.sentences):
        for triple in sentence.triples:
            n_relations += 1
            label = _check_label(triple.label, document)
            head, tail = numbers[at, triple.head], numbers[at, triple.tail]
            yield f"R{n_relations}\t{label} Arg1:T{head} Arg2:T{tail}\n"


def is_brat_label(label: str) -> bool:
    """Return whether a label has no spaces, as brat requires."""
    return label.split() == [label]


def _check_label(label: str, document: Document) -> str:
    if not is_brat_label(label):
        raise DataError(
            f"the label {label!r} in document {document.id!r} has a space, which brat does not allow",
            "Rename it, or write another format",
        )
    return label


def check_id(id: str, seen: set[str]) -> None:
    """Refuse an id that cannot be the name of a file, or was used before."""
    plain = PurePosixPath(id)
    hidden = any(part.startswith(".") for part in plain.parts)
    if not id or str(plain) != id or plain.is_absolute() or hidden or "\\" in id or "\0" in id:
        raise DataError(
            f"the document id {id!r} cannot be a file name, but files are named by it",
            "Use ids such as 'a' or 'news/a'",
        )
    if id in seen:
        raise DataError(f"two documents have the id {id!r}, but files are named by it", "Rename one of them")
    seen.add(id)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a folder to fill, which becomes ``path`` if the block succeeds, and is removed otherwise."""
    target = AtomicFolder(path)
    try:
        yield target.folder
        target.commit()
    except BaseException:
        target.discard()
        raise


IGNORED = {"E": "event", "A": "attribute", "M": "modification", "N": "normalization", "#": "note", "*": "equivalence"}
_ENTITY = re.compile(r"(T\S+)\t(\S+) (-?[0-9]{1,15}) (-?[0-9]{1,15})(?:\t(.*))?", re.DOTALL)
_DISCONTINUOUS = re.compile(r"T\S+\t\S+ [0-9]+ [0-9]+(;[0-9]+ [0-9]+)+(\t.*)?", re.DOTALL)
_RELATION = re.compile(r"R\S+\t(\S+) (\S+):(\S+) (\S+):(\S+)\s*")


def sniff(head: str, path: Path) -> bool:
    """Return whether the path is an ``.ann`` file or a folder that contains one."""
    if path.is_dir():
        return next(files_below(path, lambda member: member.suffix == ".ann"), None) is not None
    return path.suffix == ".ann"


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """Read the documents of a folder and its subfolders, ordered by id, or the document of an ``.ann`` file."""
    if path.is_dir():
        stems, folder = _find_stems(path, context), path
    elif path.suffix == ".ann":
        stems, folder = [path.name.removesuffix(".ann")], path.parent
    else:
        raise DataError(f"{path} is neither an .ann file nor a folder", "Pass the .ann file of the text")
    for stem, id in zip(stems, encodable_names(stems), strict=True):
        document = context.attempt("document", _read_document, folder / stem, id, context)
        if document is not None:
            yield document


def _find_stems(folder: Path, context: ReadContext) -> list[str]:
    """Return the paths of a folder's documents, relative to the folder and without the suffix."""
    stems: set[str] = set()
    n_annotated = 0
    for path in files_below(folder, lambda path: path.suffix in (".ann", ".txt")):
        if is_hidden(path, folder):
            context.report.note("hidden file not read", Occurrence(Place(str(path)), "", short_repr(path.name)))
            continue
        stems.add(path.relative_to(folder).as_posix()[: -len(".ann")])
        n_annotated += path.suffix == ".ann"
    if not n_annotated:
        raise DataError(
            f"{folder} contains no .ann file, but pairs of .txt and .ann files were expected",
            "Pass the folder that contains them, or another format",
            option="format",
        )
    return sorted(stems)


def _read_document(stem: Path, id: str, context: ReadContext) -> Document:
    data, place = _read_part(stem, id, ".txt", context.encoding)
    if data is None:
        failure = DataError(f"{place}: the .ann file has no text file", "Add the text, or remove the .ann file")
        raise MalformedInput("missing text file", failure, Occurrence(place, "", repr(id)))
    text = decode_text(data.removeprefix(BYTE_ORDER_MARK), place)
    made = Value(context.segment(text, place), place, "words made by the segmenter")
    offsets = read_word_offsets(made, text, context)
    words = WordMap(text, offsets, document=id, made=True)
    builder = DocumentBuilder(context, len(offsets), made=True)
    _Annotations(words, builder, data.startswith(BYTE_ORDER_MARK)).read(_read_lines(stem, id, context))
    return builder.build(text, offsets, id)


def _read_part(stem: Path, id: str, suffix: str, encoding: str | None) -> tuple[bytes | None, Place]:
    path = stem.with_name(f"{stem.name}{suffix}")
    place = Place(str(path), document=id)
    if not os.path.exists(path):
        return None, place
    if is_stream(path):
        # Opening a pipe without a writer would block.
        raise stream_error(path)
    return read_bytes(path, encoding), place


def _read_lines(stem: Path, id: str, context: ReadContext) -> list[Value]:
    data, place = _read_part(stem, id, ".ann", context.encoding)
    if data is None:
        context.report.note("text without an .ann file", Occurrence(place, "", repr(id)))
        return []
    lines = io.StringIO(decode_text(data.removeprefix(BYTE_ORDER_MARK), place), newline="\n")
    found, limits = [], read_limits()
    for number, line in enumerate(lines, 1):
        line = line.removesuffix("\n")
        if line.strip():
            where = replace(place, where=f"line {number}")
            found.append(Value(line.removesuffix("\r"), where, line.partition("\t")[0]))
            limits.check_words(len(found), place, "annotations")
    return found


class _Annotations:
    """Reader of the lines of one ``.ann`` file."""

    def __init__(self, words: WordMap, builder: DocumentBuilder, has_mark: bool) -> None:
        self.words = words
        self.builder = builder
        self.context = builder.context
        self.has_mark = has_mark
        self.placed: dict[str, PlacedEntity | None] = {}

    def read(self, lines: list[Value]) -> None:
        """Add entities, then relations, which may come before their entities. Count lines of other kinds."""
        relations = []
        for line in lines:
            kind = line.raw[0]
            if kind == "T":
                placed = self.context.attempt("entity", self._read_entity, line)
                self.placed.setdefault(line.path, placed)
            elif kind == "R":
                relations.append(line)
            elif kind in IGNORED:
                self.context.report.note(f"{IGNORED[kind]} line not read", line.example())
            else:
                self.context.attempt("line", self._refuse_line, line)
        for line in relations:
            self.context.attempt("relation", self._read_relation, line)

    def _refuse_line(self, line: Value) -> None:
        kinds = ", ".join(IGNORED)
        raise line.refuse("unknown line", f"but a line must start with one of T, R, {kinds}", "Fix or remove it")

    def _read_entity(self, line: Value) -> PlacedEntity:
        """Add an entity line, ``T1<tab>Label start end<tab>text``."""
        if _DISCONTINUOUS.fullmatch(line.raw):
            raise line.refuse(
                "discontinuous span", "which is not one contiguous span", "Use one span, or skip malformed annotations"
            )
        match = _ENTITY.fullmatch(line.raw)
        if match is None:
            raise line.refuse("malformed line", "but 'T1<tab>Label start end<tab>text' was expected", "Fix the line")
        id, label, start, end, stated = match[1], match[2], int(match[3]), int(match[4]), match[5]
        if id in self.placed:
            raise line.refuse("duplicate id", f"but an earlier line has the id {id}", "Use another number")
        if stated is not None and self.has_mark and self._get_text(start, end) != stated.translate(ONE_LINE):
            start, end = start - 1, end - 1  # brat counts a byte-order mark as the first character
        line.check_half_open(start, end, len(self.words.text), "characters in the text")
        if stated is not None:
            check_text(line, self._get_text(start, end), stated.translate(ONE_LINE))
        return self.builder.add_entity_at(line, self.words, start, end, label)

    def _get_text(self, start: int, end: int) -> str:
        return self.words.text[max(start, 0) : max(end, 0)].translate(ONE_LINE)

    def _read_relation(self, line: Value) -> None:
        """Add a relation line, ``R1<tab>Label Arg1:T1 Arg2:T2``. Other roles count in their order."""
        match = _RELATION.fullmatch(line.raw)
        if match is None:
            raise line.refuse("malformed line", "but 'R1<tab>Label Arg1:T1 Arg2:T2' was expected", "Fix the line")
        label, *roles = match.groups()
        arguments = [roles[1], roles[3]]
        if [roles[0], roles[2]] == ["Arg2", "Arg1"]:
            arguments.reverse()
        if any(argument.startswith("E") for argument in arguments):
            self.context.report.note("relation between events not read", line.example())
            return
        for argument in arguments:
            if argument not in self.placed:
                problem = f"but no line has the id {argument}"
                raise line.refuse("missing entity", problem, "Add that entity, or remove the relation")
        self.builder.add_relation(line, self.placed[arguments[0]], label, self.placed[arguments[1]])


BRAT = Format(
    "brat",
    (".ann",),
    sniff,
    read,
    write,
    folder=True,
    needs_ids=True,
    loses=("words and sentences", *SCORES),
)
