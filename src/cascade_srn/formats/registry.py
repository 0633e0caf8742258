"""Read and write annotated documents. Each format has its own module; this one has the registry."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from cascade_srn.errors import DataError, did_you_mean, short_repr
from cascade_srn.formats.alignment import Align, check_align
from cascade_srn.formats.base import CLUSTERS, LOSSES, Format, ReadContext, Segmenter
from cascade_srn.formats.bioc import BIOC
from cascade_srn.formats.brat import BRAT
from cascade_srn.formats.cas import CAS
from cascade_srn.formats.conll import CONLL
from cascade_srn.formats.datasets import DATASETS
from cascade_srn.formats.doccano import DOCCANO
from cascade_srn.formats.dygie import DYGIE
from cascade_srn.formats.files import DocumentStream, empty_file, is_stream, read_head
from cascade_srn.formats.json_records import is_encodable
from cascade_srn.formats.jsonl import JSONL
from cascade_srn.formats.label_map import LabelMap
from cascade_srn.formats.label_studio import LABEL_STUDIO
from cascade_srn.formats.prodigy import PRODIGY
from cascade_srn.formats.pubtator import PUBTATOR
from cascade_srn.formats.reports import WriteReport
from cascade_srn.formats.schema_file import read_schema, write_schema
from cascade_srn.formats.spacy import SPACY
from cascade_srn.formats.spert import SPERT
from cascade_srn.formats.table import COLUMNS_HINT, TABLE
from cascade_srn.formats.triples import TRIPLES
from cascade_srn.storage.files import check_encoding, is_compressed, plain_name
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

FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        DYGIE,
        SPERT,
        BRAT,
        JSONL,
        LABEL_STUDIO,
        DOCCANO,
        PRODIGY,
        BIOC,
        PUBTATOR,
        CAS,
        CONLL,
        SPACY,
        DATASETS,
        TABLE,
        TRIPLES,
    )
}
# Formats whose records also have fields of jsonl or dygie, and more.
_SPECIFIC = (DOCCANO, PRODIGY, BIOC, TRIPLES)


def read_documents(
    path: str | Path,
    format: str | None = None,
    *,
    strict: bool = True,
    align: Align = "exact",
    segmenter: Segmenter | None = None,
    keep_escapes: bool = False,
    labels: LabelMap | None = None,
    encoding: str | None = None,
) -> DocumentStream:
    """Read the documents of a file or folder.

    Args:
        path: A file, which may be compressed (``.gz``, ``.xz``, ``.bz2``), or a folder for brat, cas and datasets.
        format: Name of a format, such as ``jsonl`` or ``label-studio``. By default, it is guessed from the content.
        strict: Whether to raise an error at the first malformed part of the input. Otherwise the smallest malformed
            part is skipped and counted in the stream's ``report``.
        align: ``exact`` refuses entities that do not match word boundaries. ``expand`` takes whole words and counts
            them in the report.
        segmenter: Function from a text to its sentences, each the half-open character offsets of its words. It is used
            for formats without words, and for jsonl without ``sentences``. By default, the package's own.
        keep_escapes: Read tokens of dygie and spert as they are. By default, escapes of the Penn Treebank such as
            ``-LRB-`` are read as the characters that they stand for, and counted in the report.
        labels: New names of labels, and labels to drop.
        encoding: Encoding of text files, such as ``cp1252``. By default, UTF-8, or that of a byte-order mark. XML,
            spaCy and Parquet have encodings of their own.

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
    path = _to_path(path)
    check_align(align)
    check_encoding(encoding)
    if not os.path.exists(path):  # unlike Path.exists, False for an invalid path
        raise DataError(f"{path} does not exist", "Check the path and the working folder")
    chosen = _guess_format(path, encoding) if format is None else find_format(format)
    if path.is_dir() and not chosen.folder:
        raise DataError(
            f"{path} is a folder, but a document in the format {chosen.name!r} is a file",
            "Pass the path of a file, or name another format",
            option="format",
        )
    return DocumentStream(
        path,
        chosen,
        strict=strict,
        align=align,
        segmenter=segmenter,
        keep_escapes=keep_escapes,
        labels=labels,
        encoding=encoding,
    )


def write_documents(
    documents: Iterable[Document], path: str | Path, format: str | None = None, *, keep_escapes: bool = False
) -> WriteReport:
    """Write documents to a file or folder, which appears when all of them are written.

    Args:
        documents: Documents to write. Formats other than jsonl lose some information; see the documentation.
        path: A file, which is compressed if it ends in ``.gz``, ``.xz`` or ``.bz2``; for brat, cas and datasets, a new
            or empty folder.
        format: Name of a format. It may be left out if the suffix of the path belongs to one format only, and for
            existing folders, which are brat. Formats that find documents by their id name those without one by their
            number, such as ``document-1``.
        keep_escapes: Write tokens that were read as other characters, such as ``-LRB-``, as their file had them.

    Returns:
        The number of documents, and what the format could not represent.

    Raises:
        DataError: The format is unknown or cannot represent a document, or the path cannot be written.
    """
    path = _to_path(path)
    if isinstance(documents, Document):
        raise DataError("documents is a single Document, but a list was expected", "Pass [document]")
    if format is None:
        matches = [format for format in FORMATS.values() if _matches_path(path, format)]
        clue = f"the suffix {path.suffix!r}" if path.suffix else "a path without a suffix"
        chosen = _choose_only(matches, f"the format of {path} is not known", clue)
    else:
        chosen = find_format(format)
    if os.path.isdir(path) and not chosen.folder:
        raise DataError(f"{path} is a folder, but the format {chosen.name!r} is a file", "Pass the path of a file")
    if is_compressed(path) and chosen is BRAT:
        raise DataError(
            f"{path} has the suffix of a compressed file, but brat is a folder of uncompressed files",
            "Choose another name, and compress the folder afterwards",
        )
    report = WriteReport(chosen.name)
    checked = _check_documents(map(_with_escapes, documents) if keep_escapes else documents)
    chosen.write(_count_losses(checked, chosen, report), path)
    return report


def _count_losses(documents: Iterable[Document], format: Format, report: WriteReport) -> Iterator[Document]:
    for document in documents:
        report.documents += 1
        if format.needs_ids and not document.id:
            document = replace(document, id=f"document-{report.documents}")
        kinds = format.loses if format.keeps_clusters else (*format.loses, CLUSTERS)
        report.lost.update({kind: count for kind in kinds if (count := LOSSES[kind](document))})
        yield document


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


def _to_path(path: str | Path) -> Path:
    try:
        return Path(path)
    except TypeError:
        raise DataError(f"path is {short_repr(path)}", "Pass the path of a file or folder") from None


def find_format(name: str) -> Format:
    """Return a format by its name."""
    if f".{name}" in TABLE.suffixes:
        raise DataError(f"the format {name!r} does not exist", f"Use 'table'. {COLUMNS_HINT}", option="format")
    if name not in FORMATS:
        raise DataError(f"the format {name!r} does not exist", did_you_mean(str(name), FORMATS), option="format")
    return FORMATS[name]


def _guess_format(path: Path, encoding: str | None) -> Format:
    if is_stream(path):
        raise DataError(
            f"the format of {path} cannot be guessed, because a pipe or device can be read only once",
            "Name the format, or write the content to a file",
            option="format",
        )
    head = "" if path.is_dir() else read_head(path, encoding=encoding)
    matches = [format for format in FORMATS.values() if format.sniff(head, path)]
    matches = [format for format in matches if format in _SPECIFIC] or matches
    if not matches and path.is_file() and not head.strip():
        raise empty_file(path)
    if head.startswith("#FORMAT=WebAnno TSV"):
        raise DataError(f"{path} is WebAnno TSV, which is not read", "Export it as UIMA CAS, in XMI or JSON")
    problem = f"the format of {path} cannot be guessed"
    if not matches and plain_name(path).suffix in TABLE.suffixes:
        raise DataError(f"{problem}: it lacks columns of a table of annotations", COLUMNS_HINT, option="format")
    return _choose_only(matches, problem, "its content")


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
