"""Draw the evidence of an edge on the page of the PDF that it was extracted from."""

import os
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

from cascade_srn.errors import DataError
from cascade_srn.inputs.find import find_inputs
from cascade_srn.text.pdf import MAX_BYTES, Colour, PagePicture, PdfText, parse_pdf, render_page
from cascade_srn.text.pdf_layout import KEEPABLE, Box

Offsets = tuple[int, int]
COLOURS: dict[str, Colour] = {"sentence": (255, 246, 176), "head": (150, 200, 255), "tail": (160, 230, 150)}
_MAX_CACHED = 16


class PdfPages:
    """PDF files of the documents of a graph. They stay where they are, and their text is compared with the graph's.

    Args:
        folder: Folder with the PDF files that were extracted from. The id of a document is the name of its file.

    Raises:
        DataError: The folder does not exist or has no PDF.
    """

    def __init__(self, folder: str | Path) -> None:
        found = find_inputs([str(folder)], ("pdf",), ("pdf",))
        # Compressed files are read by extraction, but not shown.
        self._paths = {name: path for name, path in found.items() if path and path.lower().endswith(".pdf")}
        self._read: dict[str, tuple[tuple[int, int], PdfText]] = {}

    def has(self, document_id: str | None) -> bool:
        """Return whether there is a file with the name of a document."""
        return document_id in self._paths

    def draw(self, document_id: str, text: str, places: Mapping[str, Offsets]) -> PagePicture:
        """Draw the page of an entity or a sentence.

        Args:
            document_id: Id of the document, for which :meth:`has` is true.
            text: Its text in the graph.
            places: Offsets of the "sentence", the "head" and the "tail". The page is that of the head.

        Raises:
            DataError: The file has another text, so that the graph was not built from it, or cannot be read.
        """
        path = self._paths[document_id]
        try:
            with open(path, "rb") as handle:
                data = handle.read(MAX_BYTES + 1)
                stat = os.fstat(handle.fileno())
        except OSError as error:
            raise DataError(f"{path} cannot be read ({error.strerror})", "Restore it") from error
        pdf = self._parse(document_id, data, (stat.st_size, stat.st_mtime_ns), text)
        found = pdf.locate(*places["head"]) or pdf.locate(*places["sentence"])
        if not found:
            raise DataError(f"{path} has no such place", "Build the graph again")
        page = found[0].page
        boxes = {name: _boxes_on(pdf, page, offsets) for name, offsets in places.items()}
        return render_page(data, path, page, [(COLOURS[name], boxes[name]) for name in COLOURS if name in boxes])

    def _parse(self, document_id: str, data: bytes, version: tuple[int, int], text: str) -> PdfText:
        known = self._read.get(document_id)
        if known is not None and known[0] == version and known[1].text == text:
            return known[1]
        # The graph does not say which parts of the PDF were kept.
        for n_kept in range(len(KEEPABLE) + 1):
            for keep in combinations(KEEPABLE, n_kept):
                pdf = parse_pdf(data, self._paths[document_id], keep)
                if pdf.text == text:
                    while len(self._read) >= _MAX_CACHED:
                        self._read.pop(next(iter(self._read)), None)
                    self._read[document_id] = version, pdf
                    return pdf
        path = self._paths[document_id]
        raise DataError(f"the text of {path} is not the one in the graph", "Restore the file, or build the graph again")


def _boxes_on(pdf: PdfText, page: int, offsets: Offsets) -> Sequence[Box]:
    return [box for place in pdf.locate(*offsets) if place.page == page for box in place.boxes]
