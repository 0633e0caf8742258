import json

import pytest
from tests.cli.conftest import failure, run
from tests.twelve_sentences import DOCUMENTS

from cascade_srn import read_documents, write_documents


def _entities(path, format):
    """What every format holds: entities and relations by their text and types; brat orders documents by id."""
    documents = read_documents(path, format)
    return sorted(
        (
            sorted((e.text, e.label) for e in d.entities),
            sorted((r.head.text, r.label, r.tail.text) for r in d.relations),
        )
        for d in documents
    )


# All pairs are in tests/formats/test_matrix.py.
@pytest.mark.parametrize(("source", "target"), [("dygie", "jsonl"), ("jsonl", "brat"), ("table", "bioc")])
def test_there_and_back(source, target, tmp_path, capsys):
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    write_documents(DOCUMENTS, first, format=source)
    assert run("convert", first, second, "--from", source, "--to", target) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"read {len(list(read_documents(first, source)))} documents")
    assert run("convert", second, third, "--from", target, "--to", source) == 0
    assert _entities(third, source) == _entities(first, source)


def test_compressed_files(tmp_path, capsys):
    plain, packed, again = (tmp_path / name for name in ("in.jsonl", "p.jsonl.gz", "again.jsonl"))
    write_documents(DOCUMENTS, plain)
    assert run("convert", plain, packed) == 0
    assert run("convert", packed, again) == 0
    assert again.read_bytes() == plain.read_bytes() != packed.read_bytes()


def test_malformed_input_can_be_skipped(tmp_path, capsys):
    good = json.dumps({"id": "d", "text": "Ada leads.", "entities": [{"start": 0, "end": 3, "label": "Person"}]})
    (tmp_path / "bad.jsonl").write_text(good + '\n{"id": "d", "text": 3}\n', encoding="utf-8")
    assert run("convert", tmp_path / "bad.jsonl", tmp_path / "o.jsonl", "--skip-malformed") == 0
    assert "skipped 1 x document" in capsys.readouterr().err
    assert len(list(read_documents(tmp_path / "o.jsonl"))) == 1


def test_escapes(tmp_path, capsys):
    source = tmp_path / "in.json"
    record = {"doc_key": "d", "sentences": [["A", "-LRB-", "``", "b", "''", "-RRB-"]], "ner": [[]], "relations": [[]]}
    source.write_text(json.dumps(record) + "\n", encoding="utf-8")
    assert run("convert", source, tmp_path / "natural.jsonl") == 0
    assert "noted 4 x escaped token" in capsys.readouterr().err
    assert json.loads((tmp_path / "natural.jsonl").read_text(encoding="utf-8"))["text"] == 'A ( " b " )'
    assert run("convert", source, tmp_path / "kept.json", "--to", "dygie", "--keep-escapes") == 0
    assert "noted 0" in capsys.readouterr().err
    assert json.loads((tmp_path / "kept.json").read_text(encoding="utf-8")) == record


def test_offsets_within_words(tmp_path, capsys):
    record = {"id": "d", "text": "Ada leads.", "entities": [{"start": 1, "end": 3, "label": "Person"}]}
    source, target = tmp_path / "a.jsonl", tmp_path / "o.jsonl"
    source.write_text(json.dumps(record) + "\n", encoding="utf-8")
    assert "a.jsonl" in failure(capsys, "convert", source, target)
    assert run("convert", source, target, "--align", "expand") == 0
    (document,) = read_documents(target)
    assert document.entities[0].text == "Ada"


def test_another_segmenter(tmp_path, capsys):
    text = "Sie kennt Ada Berg.\nVon der Abt. Forschung ist sie."
    start = text.index("Abt")
    entity = {"start": start, "end": start + len("Abt. Forschung"), "label": "Unit"}
    source, target = tmp_path / "a.jsonl", tmp_path / "o.jsonl"
    source.write_text(json.dumps({"id": "d", "text": text, "entities": [entity]}) + "\n", encoding="utf-8")
    assert "a.jsonl" in failure(capsys, "convert", source, target)
    for segmenter, words in (("lines", ["Abt", ".", "Forschung"]), ("spaces", ["Abt.", "Forschung"])):
        assert run("convert", source, target, "--segmenter", segmenter) == 0
        (document,) = read_documents(target)
        assert [entity.text for entity in document.entities] == ["Abt. Forschung"]
        assert len(document.sentences) == 2
        (span,) = document.sentences[1].entities
        assert list(document.sentences[1].words[span.start : span.end]) == words


@pytest.mark.parametrize(
    ("arguments", "data"),
    [
        (["--from", "colln"], "'colln'"),
        (["--to", "jsnl"], "'jsonl'"),
        (["--align", "exactly"], "'exact'"),
        (["--segmenter", "line"], "'lines'"),
    ],
)
def test_unknown_values(arguments, data, tmp_path, capsys):
    write_documents(DOCUMENTS, tmp_path / "a.jsonl")
    assert data in failure(capsys, "convert", tmp_path / "a.jsonl", tmp_path / "b.jsonl", *arguments)


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ('{"text": "Ada leads.", "label": [[0, 3, "Person"]]}\n', ("--from", "jsonl")),
        ('{"text": "Ada leads.", "spans": [{"start": 0, "end": 3, "label": "Person"}]}\n', ("--from", "jsonl")),
        ("[]", ("--from", "spert")),
        ('{"id": 1}\n{"id": 2}\n', ("--from", "jsonl", "--skip-malformed")),
    ],
    ids=["doccano", "prodigy", "empty", "all skipped"],
)
def test_nothing_is_lost_silently(tmp_path, capsys, content, options):
    source, target = tmp_path / "in.json", tmp_path / "out.jsonl"
    source.write_text(content, encoding="utf-8")
    target.write_text("kept", encoding="utf-8")
    assert "in.json" in failure(capsys, "convert", source, target, *options)
    assert target.read_text(encoding="utf-8") == "kept"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"#FORMAT=WebAnno TSV 3.3\n#T_SP=custom.Span|label\n\n#Text=A CRF\n1-1\t0-1\tA\t_\n", "Export it as UIMA CAS"),
        (b'{"text": "CRFs", "label": [[0, 3, "M"]]}\n', "or skip malformed data (--align, --skip-malformed)."),
        (b'{"text": "CRF", "label": [[0, 9, "M"]]}\n', "Fix start or end, or skip malformed data (--skip-malformed)."),
        (
            b'[{"data": {"text": "CRF"}, "annotations": [{"result": [{"type": "rectanglelabels", "value": {"x": 1, '
            b'"width": 9, "rectanglelabels": ["M"]}}]}]}]',
            "which is a region of a picture.",
        ),
        (b'{"text": "CRF", "annotations": [{"label": 1, "user": 2}]}\n', "which is not read. Name the format"),
    ],
)
def test_files_of_other_programs_are_refused_with_advice(tmp_path, capsys, content, message):
    (tmp_path / "in.tsv").write_bytes(content)
    assert message in failure(capsys, "convert", tmp_path / "in.tsv", tmp_path / "out.jsonl")


def test_errors_name_the_options_of_this_command(tmp_path, capsys):
    table, lines, target = (tmp_path / name for name in ("a.csv", "a.jsonl", "o.jsonl"))
    table.write_text("id,text\n1,Ada leads.\n", encoding="utf-8")
    write_documents(DOCUMENTS, lines)
    assert "(--from, " in failure(capsys, "convert", lines, target, "--from", "conll")
    assert "(--to)" in failure(capsys, "convert", lines, tmp_path / "o")
    for arguments in ([table, target], [table, target, "--from", "csv"], [lines, target, "--to", "csv"]):
        message = failure(capsys, "convert", *arguments)
        assert "columns text, start, end and label" in message
        assert "--format" not in message
    assert not target.exists()


def test_losses_that_matter_are_reported_first(tmp_path, capsys):
    write_documents(DOCUMENTS, tmp_path / "a.jsonl")
    assert run("convert", tmp_path / "a.jsonl", tmp_path / "o.json", "--to", "triples") == 0
    assert capsys.readouterr().err.startswith("Note: triples does not hold places of entities")
