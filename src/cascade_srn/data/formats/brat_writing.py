"""Writing brat standoff: a new folder of ``.txt`` and ``.ann`` files, or one such pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from cascade_srn.data.atomic import AtomicFolder
from cascade_srn.data.formats.files import replacing
from cascade_srn.errors import DataError
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
    lines = list(_lines(document))
    if document.text.startswith("\ufeff"):
        raise DataError(
            f"the text of document {document.id!r} starts with a byte-order mark, which brat cannot "
            "keep; remove it, or write jsonl"
        )
    beside = path.with_name(f"{path.name.removesuffix('.ann')}.txt")
    with replacing(beside) as text, replacing(path) as annotations:  # so that neither is there without the other
        text.write(document.text.encode())
        annotations.write("".join(lines).encode())


def _lines(document: Document) -> Iterator[str]:
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
