"""Read the text of PDF files. Needs the extra ``pdf``."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from cascade_srn.errors import DataError
from cascade_srn.text import pdf_worker
from cascade_srn.text.pdf_layout import Piece, join_pages

MAX_BYTES = 256 << 20
MAX_PAGES = 2000
MAX_CHARACTERS = 10_000_000
MAX_SECONDS_PER_PAGE = 60.0
"""Limits of one PDF. They stop damaged and hostile files, and are far above those of a book."""
_MARK = b"%PDF-"
# Readers accept other bytes before the mark.
_MARK_WITHIN = 1024


def read_pdf(path: str | Path) -> str:
    r"""Return the text of a PDF.

    Lines end with a line break, paragraphs with a blank line. Headers, footers and page numbers are removed if they
    repeat on several pages. The text is read in a process of its own, which is stopped if a page takes a minute.

    Args:
        path: The file.

    Raises:
        DataError: The file is no PDF, is damaged, encrypted or too large, or has no text, as a scan.
        OSError: The file cannot be opened.

    Example:
        >>> read_pdf("paper.pdf")[:60]  # doctest: +SKIP
        'Parsing with a Stack of Trees\n\nThe parser reads a sentence f'
    """
    with open(path, "rb") as handle:
        return parse_pdf(handle.read(MAX_BYTES + 1), str(path))


def has_pypdf() -> bool:
    """Return whether the extra ``pdf`` is installed."""
    try:
        return importlib.util.find_spec("pypdf") is not None
    except ValueError:  # imports of it are disabled
        return False


def is_pdf(data: bytes) -> bool:
    """Return whether bytes start as those of a PDF."""
    return data.startswith(_MARK)


def parse_pdf(data: bytes, place: str) -> str:
    """Return the text of a PDF as :func:`read_pdf` does. ``place`` names the file in messages."""
    if len(data) > MAX_BYTES:
        raise DataError(f"{place}: the PDF has more than {MAX_BYTES >> 20} MB", "Split it")
    if _MARK not in data[:_MARK_WITHIN]:
        raise DataError(f"{place}: the file is not a PDF", "Check its content, or rename it")
    if not has_pypdf():
        raise DataError(f"{place}: reading PDF files needs pypdf", "Run pip install 'cascade-srn[pdf]'")
    text = join_pages(_read_pages(data, place))
    if not text:
        raise DataError(
            f"{place}: the PDF contains no text; its pages may be scanned images", "Recognise its text first"
        )
    return text


def _read_pages(data: bytes, place: str) -> list[list[Piece]]:
    # With -P the folder of the script does not come before the standard library.
    limits = map(str, (MAX_PAGES, MAX_CHARACTERS, MAX_SECONDS_PER_PAGE))
    worker = subprocess.run(
        [sys.executable, "-P", pdf_worker.__file__, *limits],
        input=data,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    pages = []
    for line in worker.stdout.splitlines():
        value = json.loads(line)
        if isinstance(value, list):
            pages.append([(text, x, y, size) for text, x, y, size in value])
        elif "end" in value:
            return pages
        else:
            raise _worker_error(place, value["error"], value.get("detail"))
    is_slow = worker.returncode == pdf_worker.TOO_SLOW
    raise _worker_error(place, "slow" if is_slow else "damaged", "its reader stopped")


def _worker_error(place: str, kind: str, detail: object) -> DataError:
    if kind == "encrypted":
        return DataError(f"{place}: the PDF is encrypted", "Save it without a password")
    if kind == "cryptography":
        return DataError(f"{place}: the PDF is encrypted with AES", "Run pip install cryptography to try it")
    if kind == "pages":
        return DataError(f"{place}: the PDF has {detail} pages, more than {MAX_PAGES}", "Split it")
    if kind == "characters":
        return DataError(f"{place}: the PDF has more than {MAX_CHARACTERS:,} characters", "Split it")
    if kind == "slow":
        return DataError(f"{place}: a page of the PDF took more than {MAX_SECONDS_PER_PAGE:g} seconds", "Remove it")
    return DataError(f"{place}: the PDF is damaged ({detail})", "Repair it, or save it again with another program")
