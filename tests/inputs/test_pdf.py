import gzip
import io
import json
import shutil
from pathlib import Path

import pytest
from tests.apps.extract.models import model_folder
from tests.cli.conftest import run
from tests.text.pdf.make import draw_pdf

from cascade_srn.errors import ConfigError
from cascade_srn.inputs.sources import Sources, Text, Unreadable
from cascade_srn.text.pdf import has_pdfium

FILES = Path(__file__).parents[1] / "text" / "pdf"
PDF = draw_pdf([[(50, 500, 10, "Ada Berg leads Norlux in Oslo.")]])
TEXT = "Ada Berg leads Norlux in Oslo."
needs_pdfium = pytest.mark.skipif(not has_pdfium(), reason="the extra pdf is not installed")


@pytest.fixture
def folder(tmp_path):
    """A folder with a text and two PDFs, one of them compressed, and one that is encrypted."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.PDF").write_bytes(PDF)
    (tmp_path / "in" / "b.pdf.gz").write_bytes(gzip.compress(PDF))
    (tmp_path / "in" / "c.txt").write_text(TEXT, encoding="utf-8")
    shutil.copy(FILES / "encrypted.pdf", tmp_path / "in" / "d.pdf")
    return tmp_path / "in"


@needs_pdfium
def test_in_a_folder_with_other_texts(folder, capsys):
    assert run("extract", folder, "--model", model_folder(), "--device", "cpu", "--per", "line") == 1
    shown = capsys.readouterr()
    records = [json.loads(line) for line in shown.out.splitlines()]
    # A PDF is one document for every unit.
    assert [(record["id"], record["text"]) for record in records] == [("a", TEXT), ("b", TEXT), ("c-1", TEXT)]
    assert all(TEXT[entity["start"] : entity["end"]] == entity["text"] for entity in records[0]["entities"])
    assert shown.err.startswith(f"Note: {folder / 'd.pdf'}: the PDF is encrypted")


@needs_pdfium
def test_parts_that_are_left_out(tmp_path, capsys):
    bodies = ("Ada Berg leads Norlux.", "Norlux is in Oslo.", "References")
    pages = [[(200, 570, 6, "A header"), (50, 500, 10, body)] for body in bodies]
    pages[2].append((50, 480, 10, "[1] A. Author. Title."))
    path = tmp_path / "a.pdf"
    path.write_bytes(draw_pdf(pages))
    notes = []
    (found,) = Sources([str(path)], tell=notes.append)
    assert found.text == "Ada Berg leads Norlux.\n\nNorlux is in Oslo."
    parts = "headers, footers and page numbers (3 lines) and references (2 lines)"
    assert notes == [f"{path}: left out {parts}; --keep-parts keeps them"]
    assert run("extract", path, "--model", model_folder(), "--device", "cpu", "--keep-parts", "references") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["text"].endswith("[1] A. Author. Title.")
    assert "(3 lines); --keep-parts" in shown.err
    with pytest.raises(ConfigError, match="not one of headers, references"):
        Sources([str(path)], keep_parts=["figures"])


@needs_pdfium
def test_patterns_and_positions(folder):
    found = list(Sources([str(folder / "[ab].*")], per="record"))
    assert [text.text for text in found] == [TEXT, TEXT]
    assert found[-1].position == sum(path.stat().st_size for path in folder.glob("[ab].*"))


@needs_pdfium
def test_from_standard_input():
    assert list(Sources(["-"], stdin=io.BytesIO(PDF))) == [Text("stdin", TEXT, "standard input")]


def test_a_file_that_is_no_pdf(tmp_path, capsys):
    path = tmp_path / "a.pdf"
    path.write_text(TEXT, encoding="utf-8")
    (found,) = Sources([str(path)])
    assert isinstance(found, Unreadable)
    assert run("extract", path, "--model", model_folder(), "--device", "cpu") == 2
    assert "the file is not a PDF" in capsys.readouterr().err


def test_without_the_extra(folder, monkeypatch):
    monkeypatch.setattr("cascade_srn.text.pdf.has_pdfium", lambda: False)
    found = list(Sources([str(folder)]))
    assert [type(text) for text in found] == [Unreadable, Unreadable, Text, Unreadable]
    assert "cascade-srn[pdf]" in found[0].error.hint
