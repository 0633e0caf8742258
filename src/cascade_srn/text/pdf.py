"""Read the text of PDF files. Needs the extra ``pdf``."""

import importlib.util
import json
import os
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from cascade_srn.config import require_choice
from cascade_srn.errors import DataError
from cascade_srn.text import pdf_worker
from cascade_srn.text.pdf_layout import KEEPABLE, Box, Placed, Word, join_pages

MAX_BYTES = 256 << 20
MAX_PAGES = 2000
MAX_CHARACTERS = 10_000_000
MAX_SECONDS_PER_PAGE = 60.0
"""Limits of one PDF. They stop damaged and hostile files, and are far above those of a book."""
Colour = tuple[int, int, int]
"""Red, green and blue, from 0 to 255."""
_MARK = b"%PDF-"
# Readers accept other bytes before the mark.
_MARK_WITHIN = 1024


class PageBoxes(NamedTuple):
    """Place of a part of the text: a page, counted from 0, and the boxes of its lines there."""

    page: int
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class PdfText:
    """Text of a PDF with the places of its words.

    Attributes:
        text: The text. Lines end with a line break, paragraphs with a blank line, cells of tables with a tab.
        words: Words in the order of the text: offsets, page, counted from 0, and box: left, bottom, right and top in
            points, from the lower left corner of the page.
        left_out: Number of lines of each part that was left out: "headers", "references".

    Example:
        >>> pdf = PdfText.read("paper.pdf")  # doctest: +SKIP
        >>> pdf.locate(0, 7)  # doctest: +SKIP
        [PageBoxes(page=0, boxes=((89.5, 533.4, 139.1, 546.9),))]
    """

    text: str
    words: tuple[Placed, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path, keep: Collection[str] = ()) -> "PdfText":
        """Read a file as :func:`read_pdf` does."""
        with open(path, "rb") as handle:
            return parse_pdf(handle.read(MAX_BYTES + 1), str(path), keep)

    def locate(self, start: int, end: int) -> list[PageBoxes]:
        """Return the pages of the characters ``[start, end)`` of the text, with one box for each line."""
        pages: dict[int, list[Box]] = {}
        at = max(0, bisect_right(self.words, start, key=lambda word: word.start) - 1)
        for word in takewhile(lambda word: word.start < end, self.words[at:]):
            if word.end <= start:
                continue
            boxes = pages.setdefault(word.page, [])
            if boxes and _shares_line(boxes[-1], word.box):
                boxes[-1] = _cover(boxes[-1], word.box)
            else:
                boxes.append(word.box)
        return [PageBoxes(page, tuple(boxes)) for page, boxes in pages.items()]

    def describe_left_out(self) -> str:
        """Return what was left out, as a part of a sentence; empty if all is there."""
        names = {"headers": "headers, footers and page numbers", "references": "references"}
        counts = [f"{names[part]} ({n} line{'' if n == 1 else 's'})" for part, n in self.left_out.items()]
        return " and ".join(counts)


def _shares_line(box: Box, other: Box) -> bool:
    middle = (other[1] + other[3]) / 2
    return box[1] < middle < box[3] and other[0] >= box[0]


def _cover(box: Box, other: Box) -> Box:
    return min(box[0], other[0]), min(box[1], other[1]), max(box[2], other[2]), max(box[3], other[3])


def read_pdf(path: str | Path, keep: Collection[str] = ()) -> str:
    r"""Return the text of a PDF. :meth:`PdfText.read` also returns the places of its words.

    Lines end with a line break, paragraphs with a blank line, cells of tables with a tab. Headers, footers and page
    numbers that repeat on several pages are left out, and so are references. The text is read in a process of its own,
    which is stopped if a page takes a minute.

    Args:
        path: The file.
        keep: Parts to keep: "headers", "references".

    Raises:
        DataError: The file is no PDF, is damaged, encrypted or too large, or has no text, as a scan.
        OSError: The file cannot be opened.

    Example:
        >>> read_pdf("paper.pdf")[:60]  # doctest: +SKIP
        'Parsing with a Stack of Trees\n\nThe parser reads a sentence f'
    """
    return PdfText.read(path, keep).text


def has_pdfium() -> bool:
    """Return whether the extra ``pdf`` is installed."""
    try:
        return importlib.util.find_spec("pypdfium2") is not None
    except ValueError:  # imports of it are disabled
        return False


def is_pdf(data: bytes) -> bool:
    """Return whether bytes start as those of a PDF."""
    return data.startswith(_MARK)


def parse_pdf(data: bytes, place: str, keep: Collection[str] = ()) -> PdfText:
    """Return the text of a PDF as :func:`read_pdf` does. ``place`` names the file in messages."""
    for name in keep:
        require_choice("keep", name, KEEPABLE)
    if len(data) > MAX_BYTES:
        raise DataError(f"{place}: the PDF has more than {MAX_BYTES >> 20} MB", "Split it")
    if _MARK not in data[:_MARK_WITHIN]:
        raise DataError(f"{place}: the file is not a PDF", "Check its content, or rename it")
    if not has_pdfium():
        raise DataError(f"{place}: reading PDF files needs pypdfium2", "Run pip install 'cascade-srn[pdf]'")
    directions, pages = _read_pages(data, place)
    text, words, left_out = join_pages(pages, keep)
    if not text:
        raise DataError(
            f"{place}: the PDF contains no text; its pages may be scanned images", "Recognise its text first"
        )
    placed = (word._replace(box=_turn(word.box, directions[word.page])) for word in words)
    return PdfText(text, tuple(placed), left_out)


def _turn(box: Box, direction: int) -> Box:
    """Return the box on the page of a box whose text was made upright."""
    left, bottom, right, top = box
    return (
        box,
        (-top, left, -bottom, right),
        (-right, -top, -left, -bottom),
        (bottom, -right, top, -left),
    )[direction]


def _read_pages(data: bytes, place: str) -> tuple[list[int], list[list[Word]]]:
    """Return the direction of the text of each page, in quarters of a turn, and its words."""
    worker = _run_worker(data, *map(str, (MAX_PAGES, MAX_CHARACTERS, MAX_SECONDS_PER_PAGE)))
    directions, pages = [], []
    for line in worker.stdout.splitlines():
        value = json.loads(line)
        if "words" in value:
            directions.append(value["direction"])
            pages.append([Word(*word) for word in value["words"]])
        elif "end" in value:
            return directions, pages
        else:
            raise _worker_error(place, value["error"], value.get("detail"))
    is_slow = worker.returncode == pdf_worker.TOO_SLOW
    raise _worker_error(place, "slow" if is_slow else "damaged", "its reader stopped")


class PagePicture(NamedTuple):
    """A page as PNG. ``top`` is the place of its highest mark, as a share of the height from the top."""

    png: bytes
    page: int
    top: float


def render_page(data: bytes, place: str, page: int, marks: Sequence[tuple[Colour, Sequence[Box]]] = ()) -> PagePicture:
    """Draw a page, 1,200 pixels wide, with boxes that are tinted with a colour."""
    worker = _run_worker(data, "--page", str(page), json.dumps(marks), str(MAX_SECONDS_PER_PAGE))
    if worker.returncode or not worker.stdout:
        raise DataError(f"{place}: page {page + 1} of the PDF cannot be drawn", "Open it with another program")
    top, _, png = worker.stdout.partition(b"\n")
    return PagePicture(png, page, float(top))


def _run_worker(data: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    # With -P the folder of the script does not come before the standard library.
    return subprocess.run(
        [sys.executable, "-P", pdf_worker.__file__, *arguments],
        input=data,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )


def _worker_error(place: str, kind: str, detail: object) -> DataError:
    if kind == "encrypted":
        return DataError(f"{place}: the PDF is encrypted", "Save it without a password")
    if kind == "fonts":
        return DataError(
            f"{place}: the fonts of the PDF do not say which letters they draw", "Recognise its text as that of a scan"
        )
    if kind == "pages":
        return DataError(f"{place}: the PDF has {detail} pages, more than {MAX_PAGES}", "Split it")
    if kind == "characters":
        return DataError(f"{place}: the PDF has more than {MAX_CHARACTERS:,} characters", "Split it")
    if kind == "slow":
        return DataError(f"{place}: a page of the PDF took more than {MAX_SECONDS_PER_PAGE:g} seconds", "Remove it")
    return DataError(f"{place}: the PDF is damaged ({detail})", "Repair it, or save it again with another program")
