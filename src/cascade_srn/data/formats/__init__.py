"""Read and write annotated documents. Each format has its own module; this one has the registry."""

import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from cascade_srn.data.alignment import Align, check_align
from cascade_srn.data.formats.base import Format, ReadContext, Segmenter
from cascade_srn.data.formats.brat import BRAT
from cascade_srn.data.formats.dygie import DYGIE
from cascade_srn.data.formats.files import DocumentStream, empty_file, is_stream, read_head
from cascade_srn.data.formats.jsonl import JSONL
from cascade_srn.data.formats.records import is_encodable
from cascade_srn.data.formats.schema_file import read_schema, write_schema
from cascade_srn.data.formats.spert import SPERT
from cascade_srn.errors import DataError, did_you_mean
from cascade_srn.storage.files import is_compressed, plain_name
from cascade_srn.types import Document, Sentence

__all__ = [
    "FORMATS",
    "DocumentStream",
    "Format",
    "ReadContext",
    "Segmenter",
    "read_documents",
    "read_schema",
    "write_documents",
    "write_schema",
]

FORMATS: dict[str, Format] = {format.name: format for format in (DYGIE, SPERT, BRAT, JSONL)}


def read_documents(
    path: str | Path,
    format: str | None = None,
    *,
    strict: bool = True,
    align: Align = "exact",
    segmenter: Segmenter | None = None,
    keep_escapes: bool = False,
) -> DocumentStream:
    """Read the documents of a file or folder.

    Args:
        path: A file, which may be compressed (``.gz``, ``.xz``, ``.bz2``); for brat, a folder or an ``.ann`` file.
        format: ``dygie``, ``spert``, ``brat`` or ``jsonl``. By default, it is guessed from the content.
        strict: Whether to raise an error at the first malformed part of the input. Otherwise the smallest malformed
            part is skipped and counted in the stream's ``report``.
        align: ``exact`` refuses entities that do not match word boundaries. ``expand`` takes whole words and counts
            them in the report.
        segmenter: Function from a text to its sentences, each the half-open character offsets of its words. It is used
            for brat, and for jsonl without ``words``. By default, the package's own.
        keep_escapes: Read tokens of dygie and spert as they are. By default, escapes of the Penn Treebank such as
            ``-LRB-`` are read as the characters that they stand for, and counted in the report.

    Returns:
        A stream that can be iterated over any number of times.

    Raises:
        DataError: The path does not exist, or its format is unknown. Iteration raises errors in the content.

    Example:
        >>> documents = read_documents("train.json")
        >>> for document in documents:
        ...     print(document.id, len(document.entities))
        d1 3
    """
    path = Path(path)
    check_align(align)
    if not os.path.exists(path):  # unlike Path.exists, False for an invalid path
        raise DataError(f"{path} does not exist", "Check the path and the working folder")
    chosen = _guess_format(path) if format is None else _get_format(format)
    if path.is_dir() and chosen is not BRAT:
        raise DataError(
            f"{path} is a folder, but a document in the format {chosen.name!r} is a file",
            "Pass the path of a file, or use the format 'brat'",
            option="format",
        )
    return DocumentStream(path, chosen, strict=strict, align=align, segmenter=segmenter, keep_escapes=keep_escapes)


def write_documents(
    documents: Iterable[Document], path: str | Path, format: str | None = None, *, keep_escapes: bool = False
) -> None:
    """Write documents to a file or folder, which appears when all of them are written.

    Args:
        documents: Documents to write. Formats other than jsonl lose some information; see the documentation. A warning
            counts coreference clusters that are lost.
        path: A file, which is compressed if it ends in ``.gz``, ``.xz`` or ``.bz2``; for brat, a new or empty folder or
            an ``.ann`` file.
        format: ``dygie``, ``spert``, ``brat`` or ``jsonl``. It may be left out for paths that end in ``.jsonl`` or
            ``.ann``, and for existing folders, which are brat.
        keep_escapes: Write tokens that were read as other characters, such as ``-LRB-``, as their file had them.

    Raises:
        DataError: The format is unknown or cannot represent a document, or the path cannot be written.
    """
    path = Path(path)
    if isinstance(documents, Document):
        raise DataError("documents is a single Document, but a list was expected", "Pass [document]")
    if format is None:
        matches = [format for format in FORMATS.values() if _matches_path(path, format)]
        clue = f"the suffix {path.suffix!r}" if path.suffix else "a path without a suffix"
        chosen = _choose_only(matches, f"the format of {path} is not known", clue)
    else:
        chosen = _get_format(format)
    if os.path.isdir(path) and chosen is not BRAT:
        raise DataError(f"{path} is a folder, but the format {chosen.name!r} is a file", "Pass the path of a file")
    if is_compressed(path) and chosen is BRAT:
        raise DataError(
            f"{path} has the suffix of a compressed file, but brat is a folder of uncompressed files",
            "Choose another name, and compress the folder afterwards",
        )
    checked = _check_documents(map(_with_escapes, documents) if keep_escapes else documents)
    n_clusters = 0

    def count_clusters() -> Iterator[Document]:
        nonlocal n_clusters
        for document in checked:
            n_clusters += len(document.clusters)
            yield document

    chosen.write(count_clusters(), path)
    if n_clusters and not chosen.keeps_clusters:
        warnings.warn(
            f"{n_clusters} coreference clusters were not written, because the format {chosen.name!r} has no place for "
            "them",
            stacklevel=2,
        )


def _with_escapes(document: Document) -> Document:
    """Return a document with the tokens of its file, whose text is the tokens joined by spaces."""
    if not any(sentence.escaped for sentence in document.sentences):
        return document
    sentences = [Sentence.from_words(s.escaped or s.words, s.entities, s.triples) for s in document.sentences]
    return Document.from_sentences(sentences, id=document.id, clusters=document.clusters)


def _matches_path(path: Path, format: Format) -> bool:
    if format is BRAT:  # never compressed
        return path.suffix in format.suffixes or os.path.isdir(path)
    return plain_name(path).suffix in format.suffixes


def _get_format(name: str) -> Format:
    if name not in FORMATS:
        raise DataError(f"the format {name!r} does not exist", did_you_mean(str(name), FORMATS), option="format")
    return FORMATS[name]


def _guess_format(path: Path) -> Format:
    if is_stream(path):
        raise DataError(
            f"the format of {path} cannot be guessed, because a pipe or device can be read only once",
            "Name the format, or write the content to a file",
            option="format",
        )
    head = "" if path.is_dir() else read_head(path)
    matches = [format for format in FORMATS.values() if format.sniff(head, path)]
    if not matches and path.is_file() and not head.strip():
        raise empty_file(path)
    return _choose_only(matches, f"the format of {path} cannot be guessed", "its content")


def _choose_only(matches: list[Format], problem: str, clue: str) -> Format:
    if len(matches) == 1:
        return matches[0]
    fitting = " and ".join(format.name for format in matches) or "no known format"
    raise DataError(f"{problem}: {clue} matches {fitting}", f"Name it: {', '.join(FORMATS)}", option="format")


def _check_documents(documents: Iterable[Document]) -> Iterator[Document]:
    """Yield documents that every reader accepts, and refuse others."""
    for document in documents:
        sentences = document.sentences
        labels = [entity.label for s in sentences for entity in s.entities]
        labels += [triple.label for s in sentences for triple in s.triples]
        if any(start == end for sentence in sentences for start, end in sentence.offsets):
            raise DataError(f"document {document.id!r} has an empty word", "Remove it")
        if not all(label.strip() for label in labels):
            raise DataError(f"document {document.id!r} has a blank label", "Name the type")
        if not all(is_encodable(text) for text in (document.id, document.text, *labels)):
            raise DataError(
                f"document {document.id!r} contains half a surrogate pair, which UTF-8 cannot encode",
                "Write the whole character",
            )
        yield document
