"""Reading and writing annotated documents; one file for each format, the registry of them here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from cascade_srn.data.alignment import Align, check_align
from cascade_srn.data.formats.base import Format, ReadContext, Segmenter
from cascade_srn.data.formats.brat import BRAT
from cascade_srn.data.formats.dygie import DYGIE
from cascade_srn.data.formats.files import DocumentStream, empty_file, head_text, is_stream
from cascade_srn.data.formats.jsonl import JSONL
from cascade_srn.data.formats.records import encodable
from cascade_srn.data.formats.schema_file import read_schema, write_schema
from cascade_srn.data.formats.spert import SPERT
from cascade_srn.errors import DataError, did_you_mean
from cascade_srn.storage.files import is_packed, plain_name
from cascade_srn.types import Document

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
) -> DocumentStream:
    """The documents of a file or folder, as a stream that can be iterated over any number of times.

    Args:
        path: a file, which may be compressed (``.gz``, ``.xz``, ``.bz2``), or for brat a folder or an ``.ann`` file.
        format: ``dygie``, ``spert``, ``brat`` or ``jsonl``; guessed from the content when left out.
        strict: raise at the first thing that is wrong; with False, skip the smallest thing that is wrong and
            count it in the stream's ``report``.
        align: what to do with character offsets within a word: ``exact`` refuses them, ``expand`` takes the
            whole word and counts it in the report.
        segmenter: a text to its sentences, each the half-open character offsets of its words; used for brat,
            and for jsonl without ``words``. The package's own when left out.
    """
    path = Path(path)
    check_align(align)
    if not os.path.exists(path):  # unlike Path.exists, False for what cannot be a path
        raise DataError(
            f"{path} does not exist, but a file or folder was expected there; check the path and the working folder"
        )
    chosen = _guessed(path) if format is None else _named(format)
    if path.is_dir() and chosen is not BRAT:
        raise DataError(
            f"{path} is a folder, but format {chosen.name!r} is a file; give the path of a file in it, or "
            'pass format="brat"'
        )
    return DocumentStream(path, chosen, strict=strict, align=align, segmenter=segmenter)


def write_documents(documents: Iterable[Document], path: str | Path, format: str | None = None) -> None:
    """Write documents to a file or folder, which appears, or is replaced, when all of them are written.

    ``format`` may be left out where the path tells it: ``.jsonl`` is jsonl, ``.ann`` and folders are brat. Files that
    end in ``.gz``, ``.xz`` or ``.bz2`` are compressed.
    What a format does not hold is listed in ``docs/formats.md``; jsonl holds everything.
    """
    path = Path(path)
    if isinstance(documents, Document):
        raise DataError("a single Document was given, but a list or stream was expected; pass [document]")
    if format is None:
        matches = [format for format in FORMATS.values() if _told(path, format)]
        clue = f"its ending {path.suffix!r}" if path.suffix else "a path without ending"
        chosen = _only(matches, f"the format to write {path} in cannot be told", clue, "--to on the command line")
    else:
        chosen = _named(format)
    if os.path.isdir(path) and chosen is not BRAT:
        raise DataError(f"{path} is a folder, but format {chosen.name!r} is a file; give the path of a file")
    if is_packed(path) and chosen is BRAT:
        raise DataError(
            f"{path} has the ending of a compressed file, but brat is a folder of plain files; give another name, and "
            "compress the folder afterwards"
        )
    chosen.write(_writable(documents), path)


def _told(path: Path, format: Format) -> bool:
    """Whether a path to write says that it is of this format; a pair of brat files is not compressed."""
    if format is BRAT:
        return path.suffix in format.suffixes or os.path.isdir(path)
    return plain_name(path).suffix in format.suffixes


def _named(name: str) -> Format:
    if name not in FORMATS:
        raise DataError(f"there is no format {name!r}. {did_you_mean(str(name), FORMATS)} {_choices()}")
    return FORMATS[name]


def _guessed(path: Path) -> Format:
    if is_stream(path):
        raise DataError(
            f"the format of {path} cannot be guessed, since it is a pipe or a device, which can be read only once; "
            "write its contents to a file, or name the format"
        )
    head = "" if path.is_dir() else head_text(path)
    matches = [format for format in FORMATS.values() if format.sniff(head, path)]
    if not matches and path.is_file() and not head.strip():
        raise empty_file(path)
    options = "--from of convert, data.format= of train or --format of other commands"
    return _only(matches, f"the format of {path} cannot be guessed", "its content", options)


def _only(matches: list[Format], problem: str, clue: str, options: str) -> Format:
    if len(matches) == 1:
        return matches[0]
    fitting = " and ".join(format.name for format in matches)
    reason = f"{clue} fits {fitting}" if matches else f"{clue} fits no known format"
    raise DataError(f"{problem}: {reason}; name it by {options}, or by format= in Python. {_choices()}")


def _choices() -> str:
    return "Formats: " + "; ".join(f"{f.name} ({f.description})" for f in FORMATS.values())


def _writable(documents: Iterable[Document]) -> Iterator[Document]:
    """The documents, each refused if no reader would take it back."""
    for document in documents:
        sentences = document.sentences
        labels = [entity.label for s in sentences for entity in s.entities]
        labels += [triple.label for s in sentences for triple in s.triples]
        if any(start == end for sentence in sentences for start, end in sentence.offsets):
            raise DataError(f"document {document.id!r} has an empty word, which no format holds; remove it")
        if not all(label.strip() for label in labels):
            raise DataError(f"document {document.id!r} has a blank label, which no format holds; name the type")
        if not all(encodable(text) for text in (document.id, document.text, *labels)):
            raise DataError(
                f"document {document.id!r} holds half a surrogate pair, which cannot be written as UTF-8; "
                "write the whole character or leave it out"
            )
        yield document
