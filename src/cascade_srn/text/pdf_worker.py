"""Script that prints the text of a PDF with its positions. :mod:`cascade_srn.text.pdf` runs it as a process of its own.

It reads the PDF from standard input and prints one JSON value per line: a list of ``[text, x, y, size]`` for each page,
in the order in which the page draws them, or an object with the ``error`` that ended it. It imports nothing else of the
package, so that it starts fast.
"""

import faulthandler
import io
import json
import math
import sys
from typing import Any

Piece = tuple[str, float, float, float]
MAX_MEMORY = 4 << 30
# pypdf recurses into nested objects of a PDF.
_MAX_DEPTH = 3000
TOO_SLOW = 1
"""Exit code if a page took too long. It is that of :func:`faulthandler.dump_traceback_later`."""


def main(max_pages: int, max_characters: int, max_seconds: float) -> None:
    """Print the pieces of all pages. The error is ``pages`` or ``characters`` if there are more than the maximum.

    The process ends if opening the file or one page takes more than ``max_seconds``.
    """
    sys.setrecursionlimit(_MAX_DEPTH)
    _limit_memory()
    try:
        data = sys.stdin.buffer.read()
        faulthandler.dump_traceback_later(max_seconds, exit=True)
        _print_pages(data, max_pages, max_characters, max_seconds)
    except Exception as error:  # a damaged PDF makes pypdf raise anything
        _print({"error": "damaged", "detail": f"{type(error).__name__}: {error}"})


def _print_pages(data: bytes, max_pages: int, max_characters: int, max_seconds: float) -> None:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError

    try:
        reader = PdfReader(io.BytesIO(data))
        # Many PDFs are encrypted with an empty password, only to forbid printing.
        if reader.is_encrypted and not reader.decrypt(""):
            return _print({"error": "encrypted"})
        n_pages = len(reader.pages)
    except FileNotDecryptedError:
        return _print({"error": "encrypted"})
    except DependencyError:
        return _print({"error": "cryptography"})
    if n_pages > max_pages:
        return _print({"error": "pages", "detail": n_pages})
    for page in reader.pages:
        faulthandler.dump_traceback_later(max_seconds, exit=True)
        pieces = _read_page(page)
        max_characters -= sum(len(piece[0]) for piece in pieces)
        if max_characters < 0:
            return _print({"error": "characters"})
        _print(pieces)
    _print({"end": n_pages})


def _read_page(page: Any) -> list[Piece]:
    """Return the pieces in the direction that most of the text of a page has, as if it were upright."""
    from pypdf import Transformation

    directions: dict[int, list[Piece]] = {}
    sizes: dict[int, int] = {}
    last = 0

    def visit(text: str, cm: Any, tm: Any, font: Any, size: float) -> None:
        nonlocal last
        matrix = Transformation(tm).transform(Transformation(cm)).ctm
        if text.strip() and all(map(math.isfinite, (*matrix, size))):
            a, b, c, d, e, f = matrix
            last = round(math.degrees(math.atan2(b, a)) / 90) % 4
            x, y = ((e, f), (f, -e), (-e, -f), (-f, e))[last]
            piece = text, round(x, 2), round(y, 2), round(size * math.hypot(c, d), 2)
        elif text:
            piece = text, 0.0, 0.0, 0.0
        else:
            return
        directions.setdefault(last, []).append(piece)
        sizes[last] = sizes.get(last, 0) + len(text.strip())

    page.extract_text(visitor_text=visit)
    return directions[max(sizes, key=lambda direction: sizes[direction])] if sizes else []


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


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
