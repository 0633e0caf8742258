"""Script that prints the words of a PDF with their places, or a picture of a page.

:mod:`cascade_srn.text.pdf` runs it as a process of its own.

It reads the PDF from standard input and prints one JSON value per line: ``{"direction": d, "words": [...]}`` for each
page, where a word is ``[text, left, right, baseline, size, style]``, and ``{"end": pages}`` at last, or an object with
the ``error`` that ended it. PDFium is not thread-safe, and a damaged file can make it crash: a process of its own needs
no lock and cannot harm the caller. It imports nothing else of the package, so that it starts fast. With ``--page`` it
prints a PNG instead.
"""

import ctypes
import faulthandler
import json
import math
import struct
import sys
import unicodedata
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

MAX_MEMORY = 4 << 30
TOO_SLOW = 1
"""Exit code if a page took too long. It is that of :func:`faulthandler.dump_traceback_later`."""
BOLD, MATH = 1, 2
"""Styles of words, to be added."""

# Shares of the size of the font. TeX shrinks the space between words to 0.19, and moves letters apart by up to 0.06.
_GAP = 0.13
# PDFium finds spaces in narrow gaps, too. Characters of the file that are spaces count even if the gap is not drawn.
_GAPS = {"": _GAP, "found": 0.04, "drawn": -0.1}
_BACK = 0.8
_RAISED = 0.5
# Fonts of TeX without an encoding have the ligatures at these codes.
_LIGATURES = {11: "ff", 12: "fi", 13: "fl", 14: "ffi", 15: "ffl"}
# PDFium returns these for a hyphen at the end of a line.
_HYPHENS = (0x2, 0xFFFE)
_ACCENTS = {
    "`": "\u0300", "´": "\u0301", "ˆ": "\u0302", "^": "\u0302", "˜": "\u0303", "¯": "\u0304", "˘": "\u0306",
    "˙": "\u0307", "¨": "\u0308", "˚": "\u030a", "˝": "\u030b", "ˇ": "\u030c", "¸": "\u0327",
}  # fmt: skip
_DOTLESS = {"ı": "i", "ȷ": "j"}
_BOLD_NAMES = ("bold", "cmbx", "black", "demi", "heavy", "-bd", "medi")
_MATH_NAMES = ("cmmi", "cmsy", "cmex", "msbm", "msam", "math", "mtmi", "mtsy", "mtex", "symbol", "eufm", "rsfs")
_FORCE_BOLD = 1 << 18
_ENCRYPTED = (4, 5)
_PICTURE_WIDTH, _PICTURE_HEIGHT = 1200, 2400
# Fonts with codes of their own and no table of letters have many control characters, if not only formulas use them.
_MAX_UNKNOWN = 0.1


class _Char(NamedTuple):
    text: str
    left: float
    right: float
    y: float
    size: float
    number: int
    space: str  # before it: none, found by PDFium, or drawn


def main(max_pages: int, max_characters: int, max_seconds: float) -> None:
    """Print the words of all pages. The error is ``pages`` or ``characters`` if there are more than the maximum.

    The process ends if opening the file or one page takes more than ``max_seconds``.
    """
    _limit_memory()
    try:
        data = sys.stdin.buffer.read()
        faulthandler.dump_traceback_later(max_seconds, exit=True)
        _print_pages(data, max_pages, max_characters, max_seconds)
    except Exception as error:
        _print({"error": "damaged", "detail": f"{type(error).__name__}: {error}"})


def _print_pages(data: bytes, max_pages: int, max_characters: int, max_seconds: float) -> None:
    import pypdfium2.raw as pdfium

    pdfium.FPDF_InitLibrary()
    # Many PDFs are encrypted with an empty password, only to forbid printing.
    document = pdfium.FPDF_LoadMemDocument64(data, len(data), None)
    if not document:
        code = pdfium.FPDF_GetLastError()
        return _print({"error": "encrypted" if code in _ENCRYPTED else "damaged", "detail": f"error {code} of PDFium"})
    n_pages = pdfium.FPDF_GetPageCount(document)
    if n_pages > max_pages:
        return _print({"error": "pages", "detail": n_pages})
    n_read = n_characters = n_unknown = 0
    for number in range(n_pages):
        faulthandler.dump_traceback_later(max_seconds, exit=True)
        page = pdfium.FPDF_LoadPage(document, number)
        if not page:  # The text of the other pages is better than none.
            _print({"direction": 0, "words": []})
            continue
        n_read += 1
        text_page = pdfium.FPDFText_LoadPage(page)
        codes = [pdfium.FPDFText_GetUnicode(text_page, i) for i in range(pdfium.FPDFText_CountChars(text_page))]
        n_characters += len(codes)
        if n_characters > max_characters:
            return _print({"error": "characters"})
        unknown = [i for i, code in enumerate(codes) if code < 32 and pdfium.FPDFText_HasUnicodeMapError(text_page, i)]
        n_ligatures = sum(codes[i] in _LIGATURES for i in unknown)
        n_unknown += len(unknown) - n_ligatures
        ligatures = set(unknown) if 2 * n_ligatures > len(unknown) else set()
        _print(_read_page(pdfium, text_page, codes, ligatures))
        pdfium.FPDFText_ClosePage(text_page)
        pdfium.FPDF_ClosePage(page)
    if n_unknown > _MAX_UNKNOWN * n_characters:
        return _print({"error": "fonts"})
    _print({"end": n_pages} if n_read else {"error": "damaged", "detail": "no page can be read"})


def _read_page(pdfium: Any, text_page: Any, codes: list[int], ligatures: set[int]) -> dict[str, object]:
    """Return the words in the direction that most of the text of a page has, as if it were upright."""
    directions: dict[int, list[_Char]] = {}
    for direction, char in _read_chars(pdfium, text_page, codes, ligatures):
        chars = directions.setdefault(direction, [])
        # PDFium returns the letters of a ligature one by one, all at its place.
        if chars and chars[-1][1:5] == char[1:5] and chars[-1].text.isalpha() and not char.space:
            char = char._replace(text=chars.pop().text + char.text)
        chars.append(char)
    if not directions:
        return {"direction": 0, "words": []}
    direction = max(directions, key=lambda each: len(directions[each]))
    words = []
    for chars in _split_words(directions[direction]):
        text = _join_text(chars)
        if text:
            main = max(chars, key=lambda char: char.size)
            numbers = min(c.left for c in chars), max(c.right for c in chars), main.y, main.size
            words.append([text, *(round(n, 2) for n in numbers), _style(pdfium, text_page, main.number)])
    return {"direction": direction, "words": words}


def _read_chars(pdfium: Any, text_page: Any, codes: list[int], ligatures: set[int]) -> Iterator[tuple[int, _Char]]:
    box, matrix = pdfium.FS_RECTF(), pdfium.FS_MATRIX()
    x, y = ctypes.c_double(), ctypes.c_double()
    space = ""
    for index, code in enumerate(codes):
        is_hyphen = code in _HYPHENS and pdfium.FPDFText_IsHyphen(text_page, index)
        if pdfium.FPDFText_IsGenerated(text_page, index) and not is_hyphen:
            space = space or "found"
            continue
        text = "-" if is_hyphen else chr(code) if code < 0x110000 else "\ufffd"
        if index in ligatures:
            text = _LIGATURES.get(code, text)
        if text.isspace():
            space = "drawn"
            continue
        if unicodedata.category(text[0]) in ("Cc", "Cs", "Cn", "Co"):
            text = "\ufffd"
        pdfium.FPDFText_GetLooseCharBox(text_page, index, box)
        pdfium.FPDFText_GetMatrix(text_page, index, matrix)
        pdfium.FPDFText_GetCharOrigin(text_page, index, x, y)
        size = pdfium.FPDFText_GetFontSize(text_page, index) * math.hypot(matrix.c, matrix.d)
        if not all(map(math.isfinite, (x.value, y.value, size, box.left, box.right, box.top, box.bottom))):
            continue
        turn = round(math.degrees(math.atan2(matrix.b, matrix.a)) / 90) % 4
        left, right, base, height = (
            (box.left, box.right, y.value, box.top - box.bottom),
            (box.bottom, box.top, -x.value, box.right - box.left),
            (-box.right, -box.left, -y.value, box.top - box.bottom),
            (-box.top, -box.bottom, x.value, box.right - box.left),
        )[turn]
        if not 0.3 * height < size < 4 * height and height > 0:  # bitmap fonts have any size
            size = 0.8 * height
        yield turn, _Char(text, left, right, base, size, index, space)
        space = ""


def _split_words(chars: list[_Char]) -> Iterator[list[_Char]]:
    for run in _split_runs(chars):
        # Letters that are spaced out, as in some titles, are further apart than the parts of a word.
        gaps = sorted((b.left - a.right) / a.size for a, b in pairwise(run) if a.text.isalpha() and b.text.isalpha())
        spacing = max(0.0, gaps[len(gaps) // 4]) if len(gaps) >= 5 else 0.0
        word = run[:1]
        for before, char in pairwise(run):
            size = max(before.size, char.size)
            limit = spacing + _GAPS["found" if char.space and spacing > _GAP else char.space]
            if char.left - before.right > limit * size:
                yield word
                word = []
            word.append(char)
        yield word


def _split_runs(chars: list[_Char]) -> Iterator[list[_Char]]:
    """Yield the characters that follow each other on a line."""
    run: list[_Char] = []
    for char in chars:
        if run:
            before = run[-1]
            size = max(before.size, char.size)
            if not (-_BACK * size < char.left - before.right < 3 * size and abs(char.y - before.y) < _RAISED * size):
                yield run
                run = []
        run.append(char)
    if run:
        yield run


def _join_text(chars: list[_Char]) -> str:
    """Return the text of a word. An accent that is drawn on a letter becomes part of it."""
    found: list[str] = []
    accent: _Char | None = None
    for char in chars:
        if accent is not None and char.text.isalpha() and char.left < accent.right - 0.2 * accent.size:
            found[-1] = unicodedata.normalize("NFC", _DOTLESS.get(char.text, char.text) + _ACCENTS[accent.text])
        else:
            found.append(char.text)
        accent = char if char.text in _ACCENTS else None
    return "".join(found)


def _style(pdfium: Any, text_page: Any, index: int) -> int:
    name, flags = ctypes.create_string_buffer(128), ctypes.c_int()
    pdfium.FPDFText_GetFontInfo(text_page, index, name, len(name), flags)
    font = name.value.decode("utf-8", "replace").lower()
    is_bold = flags.value & _FORCE_BOLD or any(part in font for part in _BOLD_NAMES)
    return (BOLD if is_bold else 0) + (MATH if any(part in font for part in _MATH_NAMES) else 0)


def print_picture(number: int, marks: list[tuple[list[int], list[list[float]]]], max_seconds: float) -> None:
    """Print a page as PNG, after a line with the highest mark as a share of the height from the top.

    Args:
        number: The page, which counts from 0.
        marks: Colours, as red, green and blue, and the boxes that are tinted with them. The last one counts.
        max_seconds: The process ends if it takes longer.
    """
    import pypdfium2.raw as pdfium

    _limit_memory()
    faulthandler.dump_traceback_later(max_seconds, exit=True)
    data = sys.stdin.buffer.read()
    pdfium.FPDF_InitLibrary()
    page = pdfium.FPDF_LoadPage(pdfium.FPDF_LoadMemDocument64(data, len(data), None), number)
    scale = min(_PICTURE_WIDTH / pdfium.FPDF_GetPageWidthF(page), _PICTURE_HEIGHT / pdfium.FPDF_GetPageHeightF(page))
    width = max(1, round(scale * pdfium.FPDF_GetPageWidthF(page)))
    height = max(1, round(scale * pdfium.FPDF_GetPageHeightF(page)))
    bitmap = pdfium.FPDFBitmap_Create(width, height, 0)
    pdfium.FPDFBitmap_FillRect(bitmap, 0, 0, width, height, 0xFFFFFFFF)
    pdfium.FPDF_RenderPageBitmap(bitmap, page, 0, 0, width, height, 0, pdfium.FPDF_ANNOT)
    stride = pdfium.FPDFBitmap_GetStride(bitmap)
    pixels = ctypes.string_at(pdfium.FPDFBitmap_GetBuffer(bitmap), stride * height)
    rows = [bytearray(3 * width) for _ in range(height)]
    for at, row in enumerate(rows):
        for channel in range(3):  # blue, green, red and nothing
            row[2 - channel :: 3] = pixels[at * stride + channel : at * stride + 4 * width : 4]
    x, y = ctypes.c_int(), ctypes.c_int()
    highest, plain = height, [bytes(row) for row in rows]
    for colour, boxes in marks:
        tables = [bytes(value * part // 255 for value in range(256)) for part in colour]
        for left, bottom, right, top in boxes:
            corners = []
            for point in ((left, bottom), (right, top)):
                pdfium.FPDF_PageToDevice(page, 0, 0, width, height, 0, *point, x, y)
                corners.append((min(max(0, x.value), width), min(max(0, y.value), height)))
            (first, last), (above, below) = (sorted(pair) for pair in zip(*corners, strict=True))
            highest = min(highest, above)
            for row, drawn in zip(rows[above:below], plain[above:below], strict=True):
                for channel, table in enumerate(tables):
                    part = slice(3 * first + channel, 3 * last, 3)
                    row[part] = drawn[part].translate(table)
    sys.stdout.buffer.write(b"%.4f\n" % (highest % height / height) + _to_png(width, rows))


def _to_png(width: int, rows: list[bytearray]) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, len(rows), 8, 2, 0, 0, 0)
    content = zlib.compress(b"".join(b"\0" + row for row in rows), 6)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", content) + chunk(b"IEND", b"")


def _print(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or hard > MAX_MEMORY:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, hard))


if __name__ == "__main__" and sys.argv[1] == "--page":
    print_picture(int(sys.argv[2]), json.loads(sys.argv[3]), float(sys.argv[4]))
elif __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
