"""Make the PDFs of this folder: ``python tests/text/pdf/make.py``. Needs chromium, and pypdf for ``encrypted.pdf``."""

import subprocess
import sys
from pathlib import Path

from cascade_srn.evaluation.noise_pdf import write_pdf

HERE = Path(__file__).parent
# The hyphens of "clas-sified" and "opti-mise" come at the end of lines of the columns.
PARAGRAPHS = (
    "The parser reads a sentence from left to right and keeps a stack of partial trees. Each transition is scored by "
    "a feed-forward network, whose input is the embedding of the topmost words.",
    "Difficult affixes are efficiently clas-sified by the final layer: the coefficients of five filters are defined "
    "offline. The flow of information is sufficient for the benchmark.",
    "Named entity recognition finds names of persons, organisations and locations. A convolutional encoder reads "
    "characters, and the decoder predicts a label sequence.",
    "Training takes four hours. We opti-mise the likelihood of the annotated sentences, and stop as soon as the "
    "development score has not improved for ten epochs.",
)
STYLE = """
@page { size: A5; margin: 16mm 13mm; @top-center { content: "Proceedings of the Workshop on Parsing"; font-size: 7pt; }
  @bottom-center { content: counter(page); font-size: 7pt; } }
body { font: 8.5pt/1.3 'DejaVu Serif', serif; margin: 0; text-align: justify; }
h1 { font-size: 13pt; font-weight: normal; text-align: center; margin: 0 0 3mm; }
h2 { font-size: 10pt; font-weight: normal; margin: 2mm 0 1mm; text-align: left; }
.columns { column-count: 2; column-gap: 6mm; column-fill: auto; }
p { margin: 0; text-indent: 3mm; } table { margin: 2mm 0; } td { padding: 0 2mm 0 0; }
.note { font-size: 6.5pt; text-indent: 0; margin: 2mm 0; } sup { font-size: 5.5pt; }
"""
TABLE = "<table><tr><td>CRF<td>81.2<td>79.9</tr><tr><td>Parser<td>84.0<td>83.5</tr></table>"
NOTE = "<p>See the appendix<sup>1</sup> for details.</p><p class=note><sup>1</sup> It is on the last page.</p>"


def make_columns(path):
    """Print a paper of two columns with headers, page numbers, ligatures, hyphens, a table and a footnote."""
    sections = []
    for number in range(1, 6):
        paragraphs = "".join(f"<p>{text}</p>" for text in PARAGRAPHS)
        sections.append(f"<h2>{number} Section of the Paper</h2>{paragraphs}{TABLE + NOTE if number == 2 else ''}")
    title = "<h1>Parsing with a Stack of Partial Trees</h1>"
    html = path.with_suffix(".html")
    html.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><style>{STYLE}</style>"
        f"{title}<div class=columns>{''.join(sections)}</div>",
        encoding="utf-8",
    )
    options = ["--headless", "--no-sandbox", "--no-pdf-header-footer", "--disable-pdf-tagging"]
    subprocess.run(["chromium", *options, f"--print-to-pdf={path}", html], check=True)
    html.unlink()


def make_rows(path):
    """Draw two columns row by row, with spaces as gaps between words, as some programs do."""
    text = (
        " ".join(PARAGRAPHS[at % 4] for at in range(16)).replace("clas-s", "class").replace("opti-m", "optim").split()
    )
    lines, line = [], ""
    for word in text:
        if len(line) + len(word) >= 42:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    lines.append(line)
    pages = []
    for start in range(0, len(lines), 30):
        page = [(200, 570, 6, "A header of all pages"), (205, 20, 6, str(len(pages) + 1))]
        members = lines[start : start + 30]
        if not pages:
            page.append((60, 540, 11, "A title across both columns of the page"))
        for row in range(15):
            page += [
                (30 + column * 190, 500 - 10 * row, 7, members[at])
                for column, at in enumerate((row, row + 15))
                if at < len(members)
            ]
        pages.append(page)
    path.write_bytes(draw_pdf(pages))


def draw_pdf(pages, matrix="", *, raw=False):
    """Return a PDF with texts in Courier at given places.

    Args:
        pages: Texts of each page, as x, y, size and text.
        matrix: Text matrix instead of the places.
        raw: The texts are operators of PDF.
    """
    return write_pdf(
        ["\n".join(_draw_text(*text, matrix, raw) for text in page) for page in pages], "Courier", (420, 595)
    )


def _draw_text(x, y, size, text, matrix, raw):
    if raw:
        return f"BT /F {size} Tf 1 0 0 1 {x} {y} Tm {text} ET"
    escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    # A gap instead of a character, as LaTeX writes a space.
    return f"BT /F {size} Tf {matrix or f'1 0 0 1 {x} {y}'} Tm [({') -600 ('.join(escaped.split())})] TJ ET"


def make_encrypted(path, source):
    """Encrypt a PDF with the password ``secret``."""
    from pypdf import PdfWriter

    writer = PdfWriter(clone_from=source)
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(path)


if __name__ == "__main__":
    make_columns(HERE / "columns.pdf")
    make_rows(HERE / "rows.pdf")
    make_encrypted(HERE / "encrypted.pdf", HERE / "rows.pdf")
    sys.stdout.write("".join(f"{path.name} {path.stat().st_size}\n" for path in sorted(HERE.glob("*.pdf"))))
