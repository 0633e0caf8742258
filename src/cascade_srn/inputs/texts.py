"""Read raw text for training: paragraphs of plain text, and one field of JSON lines."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

from cascade_srn.errors import DataError
from cascade_srn.inputs.fields import BadValueError, read_text
from cascade_srn.inputs.find import TEXT_FORMATS, find_files, find_format, is_remote, real_address
from cascade_srn.inputs.open import OpenFile
from cascade_srn.inputs.records import JsonLines, LineReader, Record, decode

# A paragraph ends with its line after this many characters, so that a file without blank lines is not one document.
_LONG_PARAGRAPH = 1 << 20


def find_texts(paths: Sequence[str | Path]) -> list[Path]:
    """Return local files of plain text and JSON lines, and those in folders and of patterns, in order, each once."""
    found: dict[str, Path] = {}
    for address in map(str, paths):
        if is_remote(address):
            raise DataError(f"{address} is not a local path", "Download the text first")
        for file in find_files(address, TEXT_FORMATS, named=TEXT_FORMATS):
            found.setdefault(real_address(file), Path(file))
    return list(found.values())


def read_texts(paths: Sequence[Path], *, field: str = "text", encoding: str | None = None) -> Iterator[str]:
    """Yield the documents of files: paragraphs of plain text, and one field of each JSON line.

    ``encoding`` is None for UTF-8, or that of a byte-order mark.

    Raises:
        DataError: A file or a record cannot be read.
    """
    for path in map(str, paths):
        with OpenFile(path, encoding=encoding) as file:
            yield from _read_json_lines(file, field) if find_format(path) == "jsonl" else _read_paragraphs(file)


def _read_json_lines(file: OpenFile, field: str) -> Iterator[str]:
    records = JsonLines(file, field)
    for record in records:
        try:
            text = read_text(records.parse(record), field)
        except BadValueError as error:
            raise error.at(f"{file.address}, line {record.line}") from None
        if text.strip():
            yield text


def _read_paragraphs(file: OpenFile) -> Iterator[str]:
    reader = LineReader(file)
    lines: list[str] = []
    size = 0
    while True:
        start = reader.offset
        line, problem = reader.read()
        if reader.offset == start:
            break
        try:
            text = decode(Record(reader.number, 0, line, problem), "text")
        except BadValueError as error:
            raise error.at(f"{file.address}, line {reader.number}") from None
        if text.strip():
            lines.append(text)
            size += len(text)
        if lines and (not text.strip() or size > _LONG_PARAGRAPH):
            yield "".join(lines)
            lines, size = [], 0
    if lines:
        yield "".join(lines)


def sentence_key(words: Iterable[str]) -> bytes:
    """Return a hash of a sentence that ignores whitespace and case. Annotated text is often tokenized."""
    plain = "".join("".join(words).split()).casefold()
    return blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=16).digest()
