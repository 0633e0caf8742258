import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.apps.extract.models import model_folder
from tests.cli.conftest import failure, restore_sigint, start
from tests.cli.conftest import run as run_command

from cascade_srn import read_documents
from cascade_srn.apps.corpus.manifest import model_checksum
from cascade_srn.cli import extract as extract_command
from cascade_srn.config import SearchLimits
from cascade_srn.model.model import Model
from cascade_srn.version import __version__

PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
TEXT = "Ada Berg leads Norlux in Oslo."


def run(*arguments):
    return run_command("extract", *arguments, "--model", model_folder(), "--device", "cpu")


def piped(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def process(*arguments, **chosen):
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, **chosen}
    return start("extract", *arguments, "--model", model_folder(), "--device", "cpu", **pipes)


def test_a_text_in_a_pipe_gives_json_lines(capsys):
    assert run("--text", TEXT) == 0
    shown = capsys.readouterr()
    record = json.loads(shown.out)
    assert record["text"] == TEXT
    assert record["id"] == "text"
    assert record["entities"]
    assert all(TEXT[e["start"] : e["end"]] == e["text"] for e in record["entities"])
    assert shown.err == ""


def test_overlaps(capsys):
    def found(*options):
        assert run("--text", TEXT, "--threshold", "0", *options) == 0
        return [(e["start"], e["end"]) for e in json.loads(capsys.readouterr().out)["entities"]]

    flat, everything = found("--overlaps", "flat"), found("--overlaps", "all")
    assert all(end <= start for (_, end), (start, _) in pairwise(flat))
    assert len(flat) < len(found("--overlaps", "nested")) < len(everything)


def test_a_table(capsys):
    assert run("--text", TEXT, "--format", "table") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("text\nentity")
    assert "subject" in shown


def test_files_folders_and_patterns(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "b.jsonl").write_text('{"id": 5, "body": "Tim Falk leads Rivon."}\n', encoding="utf-8")
    assert run(tmp_path / "in", tmp_path / "*.jsonl", "--field", "body", "--threshold", "1") == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["id"] for record in records] == ["a", "5"]


def test_standard_input_is_read_where_nothing_is_named(monkeypatch, capsys):
    piped(monkeypatch, b"Ada Berg\nleads\n")
    assert run("--per", "line", "--threshold", "1") == 0
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == ["stdin-1", "stdin-2"]


def test_a_text_in_another_language_is_noted(tmp_path, capsys):
    german = "Wir stellen ein neues Verfahren vor, das Entitäten und Relationen aus Texten der Informatik liest. " * 3
    (tmp_path / "a.txt").write_text(german, encoding="utf-8")
    assert run_command("extract", tmp_path / "a.txt", "--text", TEXT * 9, "--device", "cpu", "--format", "jsonl") == 0
    (note,) = capsys.readouterr().err.splitlines()
    assert note.startswith(f"Note: {tmp_path / 'a.txt'}: some text is not in English")


def test_segmenters(monkeypatch, capsys):
    piped(monkeypatch, b"Ada Berg, leads.\nNorlux.\n")
    assert run("-", "--segmenter", "spaces", "--threshold", "1") == 0
    assert json.loads(capsys.readouterr().out)["sentences"] == [[[0, 3], [4, 9], [10, 16]], [[17, 24]]]


def test_skipped_parts(capsys):
    text = "Ada Berg.\n```\nlead()\n```\na\tb\nc\td\n\nReferences\n\n[1] Oslo."
    assert run("--text", text, "--skip", "references, code,tables", "--threshold", "1") == 0
    assert json.loads(capsys.readouterr().out)["sentences"] == [[[0, 3], [4, 8], [8, 9]]]


@pytest.mark.parametrize("name", ["found.jsonl", "found.html", "found.txt"])
def test_output_to_a_file_by_its_ending(tmp_path, capsys, name):
    assert run("--text", TEXT, "--output", tmp_path / name) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("1 document, ")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_json_lines_and_brat_are_read_back(tmp_path):
    assert run("--text", TEXT, "--text", "Oslo.", "-o", tmp_path / "a.jsonl") == 0
    assert run("--text", TEXT, "--text", "Oslo.", "-o", tmp_path / "brat", "--format", "brat") == 0
    lines, files = list(read_documents(tmp_path / "a.jsonl")), list(read_documents(tmp_path / "brat"))
    assert [document.id for document in lines] == [document.id for document in files] == ["text-1", "text-2"]
    assert [sorted(document.entities) for document in lines] == [sorted(document.entities) for document in files]


def test_json_lines_name_their_model(tmp_path):
    """The checksum is that of corpus jobs, and a graph has it in its provenance."""
    pytest.importorskip("pyarrow")
    from cascade_srn.apps.graph.load import load
    from cascade_srn.apps.graph.settings import GraphSettings

    path = tmp_path / "a.jsonl"
    assert run("--text", TEXT, "-o", path) == 0
    record = json.loads(path.read_text(encoding="utf-8"))
    assert (record["model"], record["version"]) == (model_checksum(Path(model_folder())), __version__)
    documents = read_documents(path)
    assert len(list(documents)) == 1
    assert not documents.report.noted
    tables = load([path], GraphSettings()).tables
    assert set(tables["entities"]["model"].to_pylist()) == {record["model"]}
    assert set(tables["documents"]["version"].to_pylist()) == {__version__}


def test_unreadable_texts_are_skipped_with_a_note(tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "Oslo."}\n{"text": \n\xff\n{"text": "Bergen."}\n')
    assert run(path) == 1
    shown = capsys.readouterr()
    assert [json.loads(line)["id"] for line in shown.out.splitlines()] == ["a-1", "a-4"]
    first, second, last = shown.err.splitlines()
    assert first.startswith(f"Note: {path}")
    assert second.startswith(f"Note: {path}")
    assert "2 texts" in last


def test_strict_stops_at_the_first_unreadable_text(tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "Oslo."}\n{"text": \n{"text": "Bergen."}\n')
    assert run(path, "--strict", "--output", tmp_path / "found.jsonl") == 2
    shown = capsys.readouterr()
    assert "found.partial.jsonl" in shown.err
    assert shown.err.splitlines()[-1].startswith(f"Error: {path}")
    assert [d.id for d in read_documents(tmp_path / "found.partial.jsonl")] == ["a-1"]
    assert not (tmp_path / "found.jsonl").exists()


def test_nothing_readable(tmp_path, capsys, monkeypatch):
    (tmp_path / "a.txt").write_bytes(b"\xff")
    assert run(tmp_path, "-o", tmp_path / "found.jsonl") == 2
    assert "Error: " in capsys.readouterr().err
    assert not (tmp_path / "found.jsonl").exists()
    piped(monkeypatch, b"")
    assert run() == 2
    assert capsys.readouterr().err.startswith("Error: ")


@pytest.mark.parametrize(
    ("arguments", "data"),
    [
        (["nowhere.txt"], "pass the text itself (--text)"),
        (["--text", "a", "--format", "xml"], "'xml'"),
        (["--text", "a", "--format", "brat"], "--output"),
        (["--text", "a", "--threshold", "Persona=0.5"], "'Person'"),
        (["--text", "a", "--segmenter", "rule"], "'rules'"),
        (["--text", "a", "--skip", "code,table"], "'tables'"),
        (["--text", "a", "--skip", "code", "--segmenter", "lines"], "--skip"),
        (["--text", "a", "--precision", "half"], "'half'"),
        (["--text", "a", "--overlaps", "some"], "'some'"),
        (["--text", "a", "--batch-words", "0"], "batch_words is 0"),
        (["--text", "a", "--encoding", "utf-9"], "'utf-9'"),
        (["--text", "a", "--device", "cuda:99"], "'cuda:99'"),
        (["--text", "a", "--model", "./nowhere"], "'./nowhere'"),
    ],
)
def test_errors_are_one_line(capsys, arguments, data):
    assert data in failure(capsys, "extract", "--model", model_folder(), *arguments)


def test_a_terminal_is_not_read(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert run() == 2
    assert "--text" in capsys.readouterr().err


@pytest.mark.slow
def test_a_closed_pipe_ends_it_without_a_message(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("Oslo. \n" * 400, encoding="utf-8")
    running = process(path, "--per", "line", "--batch-words", 1, stdout=subprocess.PIPE)
    assert b'"id": "a-1"' in running.stdout.readline()  # there before the others are read
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait() == 128 + signal.SIGPIPE


def test_its_own_result_is_not_read(tmp_path, capsys):
    (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
    for _ in range(2):
        assert run(tmp_path, "--output", tmp_path / "found.jsonl") == 0
    assert [document.id for document in read_documents(tmp_path / "found.jsonl")] == ["a"]
    first, note, last = capsys.readouterr().err.splitlines()
    assert note.startswith("Note: ")
    assert str(tmp_path / "found.jsonl") in note
    assert first == last
    assert run(tmp_path / "found.jsonl", "--output", tmp_path / "found.jsonl") == 2
    assert "found.jsonl" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_keeps_the_finished_documents(tmp_path, number, code):
    arguments = ["-", "--per", "line", "--batch-words", 1, "-o", tmp_path / "found.jsonl"]
    running = process(*arguments, preexec_fn=restore_sigint)
    running.stdin.write(b"Ada Berg leads Norlux in Oslo.\n" * 2)
    running.stdin.flush()
    for _ in range(3000):  # until the first document is on the disk
        files = [file for file in tmp_path.rglob("*") if file.is_file()]
        if any(file.stat().st_size for file in files) or running.poll() is not None:
            break
        time.sleep(0.1)
    running.send_signal(number)
    printed = running.communicate()[1].decode()
    assert running.returncode == code
    assert os.listdir(tmp_path) == ["found.partial.jsonl"]
    assert f"{tmp_path}/found.partial.jsonl" in printed
    assert "Traceback" not in printed
    assert [document.id for document in read_documents(tmp_path / "found.partial.jsonl")][:1] == ["stdin-1"]


@pytest.mark.slow
def test_a_warning_is_one_plain_line(tmp_path):
    """The limits of a sentence apply. The warning is given once and without a line of source code."""
    model = Model.load(model_folder())
    replace(model, settings=replace(model.settings, limits=SearchLimits(entities_per_word=1))).save(tmp_path / "model")
    text = "Ada Berg leads Norlux in Oslo , " * 10
    running = start("extract", "--text", text, "--model", tmp_path / "model", **PIPES)
    (line,) = running.communicate()[1].splitlines()
    assert running.returncode == 0
    assert line.startswith("Note: ")


@pytest.mark.parametrize("format", ["jsonl", "brat", "html"])
def test_an_output_that_cannot_be_written_is_found_before_the_model_is_loaded(tmp_path, capsys, format):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    (tmp_path / "fixed").write_text("before")
    (tmp_path / "fixed").chmod(0o444)
    for name in ("nowhere/found", "x" * 300, "folder", "fixed", "fixed/found"):
        arguments = ["--text", TEXT, "--model", "no/model/here", "--format", format, "-o", tmp_path / name]
        printed = failure(capsys, "extract", *arguments)
        assert "model" not in printed
        assert str(tmp_path / name) in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fixed", "folder"]
    assert (tmp_path / "fixed").read_text() == "before"


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="there is no limit to the size of files here")
def test_a_full_disk_keeps_what_was_there(tmp_path):
    import resource

    (tmp_path / "found.jsonl").write_text("before")
    (tmp_path / "long.txt").write_text(f"{TEXT} " * 200)
    limited = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))}
    with process(tmp_path / "long.txt", "-o", tmp_path / "found.jsonl", "--threshold", "1", **limited) as running:
        printed = running.communicate()[1].decode()
    assert running.returncode == 2
    assert printed.splitlines()[-1].startswith(f"Error: {tmp_path / 'found.jsonl'}: File too large")
    assert "Traceback" not in printed
    assert (tmp_path / "found.jsonl").read_text() == "before"
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_table_to_a_table(tmp_path, capsys):
    (tmp_path / "in.csv").write_text(f"doi,body,year\nx,{TEXT},2020\n", encoding="utf-8")
    options = ("--field", "body", "--id-field", "doi", "--keep", "year", "--output", tmp_path / "out.csv")
    assert run(tmp_path / "in.csv", *options) == 0
    header, *rows = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()
    assert header.endswith(",year")
    assert rows
    assert all(row.startswith("x,") and row.endswith(",2020") for row in rows)
    (document,) = read_documents(tmp_path / "out.csv")
    assert document.entities


def test_a_field_that_no_record_has(tmp_path, capsys):
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": TEXT}), encoding="utf-8")
    assert run(tmp_path / "in.jsonl", "--keep", "year") == 0
    assert "'year'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("device", "n_bytes", "given", "expected"),
    [
        ("cuda", 2 << 20, None, 4),
        ("cuda", 2 << 20, 1, 1),
        ("cuda", 1000, None, 0),
        ("cuda", None, None, 0),
        ("cpu", 2 << 20, None, 0),
    ],
)
def test_much_text_for_a_gpu_is_split_ahead(monkeypatch, device, n_bytes, given, expected):
    monkeypatch.setattr(extract_command, "count_cores", lambda: 8)
    extractor = SimpleNamespace(model=SimpleNamespace(device=SimpleNamespace(type=device)))
    sources = SimpleNamespace(n_bytes=n_bytes)
    assert extract_command._choose_split_workers(extractor, sources, given) == expected


def test_labels(capsys):
    assert run("--text", TEXT) == 0
    label = json.loads(capsys.readouterr().out)["entities"][0]["label"]
    assert run("--text", TEXT, "--labels", label) == 0
    assert {entity["label"] for entity in json.loads(capsys.readouterr().out)["entities"]} == {label}


def test_an_unknown_label(tmp_path, capsys):
    chosen = ("--model", model_folder(), "--device", "cpu", "--output", tmp_path / "out.csv")
    assert "--labels" in failure(capsys, "extract", "--text", TEXT, "--labels", "Planet", *chosen)
    assert not list(tmp_path.iterdir())
