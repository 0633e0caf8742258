"""Draw paragraphs as a PDF with two columns, as a publisher does: justified, with headers and page numbers."""

import zlib
from collections.abc import Iterator, Sequence

_SIZE, _LEADING = 9.0, 11.0
_WIDTH, _HEIGHT = 595, 842
_COLUMN_WIDTH = 218.0
_LEFTS = (68.0, 306.0)
_TOP, _LINES = 740.0, 58
_MIN_GAP = 0.2 * _SIZE
_HEADER = "Proceedings of the Workshop on Noise"
# Widths of the characters of Helvetica from the space to the tilde, in thousandths of the size.
_WIDTHS = (
    *(278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, *(556,) * 10, 278, 278, 584, 584),
    *(584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667),
    *(611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222),
    *(222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584),
)


def printable(text: str) -> str:
    """Replace characters that the font lacks."""
    return text.encode("cp1252", "replace").decode("cp1252")


def draw_columns(paragraphs: Sequence[Sequence[str]]) -> bytes:
    """Return a PDF of paragraphs, which are lists of lines."""
    lines = [
        (line.split(), at < len(paragraph)) for paragraph in paragraphs for at, line in enumerate(paragraph, 1) if line
    ]
    pages = []
    for number, first in enumerate(range(0, len(lines), 2 * _LINES), 1):
        page = [_show(_LEFTS[0], 790, 7, _HEADER), _show(_WIDTH / 2, 50, 7, str(number))]
        for at, (words, is_justified) in enumerate(lines[first : first + 2 * _LINES]):
            page += _draw_line(words, _LEFTS[at // _LINES], _TOP - at % _LINES * _LEADING, is_justified)
        pages.append("\n".join(page))
    return write_pdf(pages, "Helvetica", (_WIDTH, _HEIGHT))


def _draw_line(words: Sequence[str], left: float, y: float, is_justified: bool) -> Iterator[str]:
    widths = [_SIZE * sum(map(_width, word)) / 1000 for word in words]
    gap = 0.278 * _SIZE
    if is_justified and len(words) > 1:
        gap = max(_MIN_GAP, (_COLUMN_WIDTH - sum(widths)) / (len(words) - 1))
    for word, width in zip(words, widths, strict=True):
        yield _show(left, y, _SIZE, word)
        left += width + gap


def _width(char: str) -> int:
    return _WIDTHS[ord(char) - 32] if " " <= char <= "~" else 556


def _show(x: float, y: float, size: float, text: str) -> str:
    escaped = printable(text).replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return f"BT /F {size:g} Tf 1 0 0 1 {x:.2f} {y:.2f} Tm ({escaped}) Tj ET"


def write_pdf(pages: Sequence[str], font: str, size: tuple[int, int]) -> bytes:
    """Return a PDF with pages of PDF operators, in which the font is ``/F``."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{' '.join(f'{4 + 2 * at} 0 R' for at in range(len(pages)))}] "
        f"/Count {len(pages)} >>".encode(),
        f"<< /Type /Font /Subtype /Type1 /BaseFont /{font} /Encoding /WinAnsiEncoding >>".encode(),
    ]
    for at, page in enumerate(pages):
        content = zlib.compress(page.encode("cp1252"), 9)
        objects += [
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Resources << /Font << /F 3 0 R >> >> "
            b"/Contents %d 0 R >>" % (*size, 5 + 2 * at),
            b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(content), content),
        ]
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(data))
    return data + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + trailer
