import json

import pytest

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.formats.registry import FORMATS, read_documents, write_documents
from cascade_srn.types import Document, Sentence, Span, Triple

DYGIE = {"doc_key": "a", "sentences": [["x"]]}
JSONL = {"id": "a", "text": "x", "sentences": [[[0, 1]]]}
SPERT = [{"tokens": ["x"], "orig_id": "a"}]


@pytest.mark.parametrize(
    ("record", "format"),
    [(DYGIE, "dygie"), (JSONL, "jsonl"), (SPERT, "spert"), ({"text": "", "sentences": []}, "jsonl")],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_the_format_is_guessed_from_the_content(tmp_path, record, format, indent):
    path = tmp_path / "data.json"
    path.write_text("\n" + json.dumps(record, indent=indent))
    assert read_documents(path).format == format


def test_a_quoted_field_name_within_a_text_is_no_clue(tmp_path):
    path = tmp_path / "data.json"
    path.write_text(json.dumps({"text": 'the field "sentences": a list'}))
    assert read_documents(path).format == "jsonl"


def test_a_folder_and_an_ann_file_are_brat(tmp_path):
    (tmp_path / "a.ann").touch()
    (tmp_path / "a.txt").touch()
    assert read_documents(tmp_path).format == read_documents(tmp_path / "a.ann").format == "brat"


@pytest.mark.parametrize(
    ("content", "matches"),
    [
        ('{"sentences": [["x"]], "text": "x"}', "dygie and jsonl"),
        ("John lives in Rome.", ""),
        ('{"tokens": ["x"]}', ""),
    ],
)
def test_what_cannot_be_guessed_lists_the_formats(tmp_path, content, matches):
    path = tmp_path / "data.json"
    path.write_text(content)
    with pytest.raises(DataError, match=rf"data\.json .*{matches}") as caught:
        read_documents(path)
    assert caught.value.option == "format"
    assert all(name in caught.value.hint for name in FORMATS)


def test_a_folder_without_documents_cannot_be_guessed(tmp_path):
    with pytest.raises(DataError) as caught:
        read_documents(tmp_path)
    assert caught.value.option == "format"


@pytest.mark.parametrize(("name", "format"), [("o.jsonl", "jsonl"), ("o.ann", "brat"), ("folder", "brat")])
def test_the_format_to_write_is_guessed_from_the_path(tmp_path, name, format):
    (tmp_path / "folder").mkdir()
    write_documents([Document("", (), "a")], tmp_path / name)
    assert read_documents(tmp_path / name, segmenter=lambda text: []).format == format


@pytest.mark.parametrize("name", ["o.json", "o"])
def test_a_path_to_write_of_no_known_format_lists_the_formats(tmp_path, name):
    with pytest.raises(DataError, match=name) as caught:
        write_documents([], tmp_path / name)
    assert caught.value.option == "format"
    assert all(format in caught.value.hint for format in FORMATS)


@pytest.mark.parametrize("call", [read_documents, lambda path, format: write_documents([], path, format)])
def test_an_unknown_format_is_refused(tmp_path, call):
    (tmp_path / "a").touch()
    with pytest.raises(DataError, match=r"'dygi'.*'dygie'"):
        call(tmp_path / "a", "dygi")


@pytest.mark.parametrize("format", [None, *FORMATS])
def test_a_missing_path_is_refused_at_once(tmp_path, format):
    with pytest.raises(DataError, match=r"nowhere\.json "):
        read_documents(tmp_path / "nowhere.json", format)


@pytest.mark.parametrize("format", ["dygie", "spert", "jsonl"])
def test_a_folder_is_no_file(tmp_path, format):
    with pytest.raises(DataError, match=f"is a folder.*'{format}'"):
        read_documents(tmp_path, format)
    with pytest.raises(DataError, match=f"is a folder.*'{format}'"):
        write_documents([], tmp_path, format)


def test_an_unknown_way_of_aligning_is_refused_at_once(tmp_path):
    with pytest.raises(ConfigError, match=r"'exactly'.*'exact'"):
        read_documents(tmp_path, align="exactly")


def test_a_text_in_place_of_a_path_is_refused(tmp_path):
    with pytest.raises(DataError, match="John lives in Rome"):
        read_documents("John lives in Rome. " * 300)
    with pytest.raises(DataError, match="File name too long"):
        write_documents([], tmp_path / ("x" * 300 + ".jsonl"))


def test_a_stream_can_be_read_again_with_a_fresh_report(lines_file):
    stream = read_documents(lines_file(DYGIE, {"doc_key": "b", "sentences": 3}), strict=False)
    assert list(stream) == list(stream)
    report = stream.report
    assert (report.documents, report.n_skipped) == (1, 1)
    iter(stream)
    assert (stream.report.documents, stream.report.n_skipped, report.documents) == (0, 0, 1)


def test_a_stream_is_lazy(lines_file):
    stream = iter(read_documents(lines_file(DYGIE, {"doc_key": "b", "sentences": 3})))
    assert next(stream).id == "a"
    with pytest.raises(DataError, match="line 2, document 'b'"):
        next(stream)


def test_a_file_that_disappears_between_passes_is_named(lines_file):
    path = lines_file(DYGIE)
    stream = read_documents(path)
    path.unlink()
    with pytest.raises(DataError, match=r"data\.json "):
        list(stream)


def test_a_single_document_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"\[document\]"):
        write_documents(Document("a"), tmp_path / "o.jsonl")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (Document("a", (Sentence(("a", ""), ((0, 1), (1, 1))),), "d"), "document 'd' has an empty word"),
        (Document("\ud800", (Sentence(("\ud800",), ((0, 1),)),), "d"), "document 'd' .*surrogate"),
        (Document.from_sentences([Sentence.from_words(["a"], [Span(0, 1, " ")])], id="d"), "document 'd' .*label"),
    ],
)
@pytest.mark.parametrize("format", FORMATS)
def test_what_could_not_be_read_back_is_not_written(tmp_path, document, message, format):
    if format in ("cas", "spacy"):
        pytest.importorskip({"cas": "cassis"}.get(format, format))
    with pytest.raises(DataError, match=message):
        write_documents([document], tmp_path / "out", format)
    assert list(tmp_path.iterdir()) == []


def corpus():
    """Return documents that no format changes: one sentence, words joined by single spaces."""
    outer, inner, other = Span(0, 3, "Method"), Span(1, 2, "Task"), Span(3, 4, "Métrica")
    triples = [Triple(outer, "Used-for", other), Triple(inner, "Part-of", outer), Triple(inner, "Part-of", outer)]
    first = Sentence.from_words(["Ein", "tiefes", "Netz", "über", "alles"], [other, outer, inner], triples)
    return [Document.from_sentences([first], id="a"), Document.from_words([["nothing", "here"]], id="b")]


# Those that need no suffix and no extra, and hold nested entities. All pairs are in test_matrix.py.
UNNAMED = ("dygie", "spert", "brat", "jsonl", "label-studio", "doccano", "prodigy", "bioc", "pubtator")


@pytest.mark.parametrize("format", UNNAMED)
def test_such_documents_survive_every_format(tmp_path, segmenter, format):
    write_documents(corpus(), tmp_path / "out", format)
    stream = read_documents(tmp_path / "out", segmenter=segmenter)
    assert stream.format == format
    assert list(stream) == corpus()


@pytest.mark.parametrize("call", [read_documents, lambda path: write_documents([], path)])
def test_no_path_is_refused(call):
    with pytest.raises(DataError, match="path is None"):
        call(None)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_another_encoding_is_refused_unless_it_is_named(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes("text,start,end,label\nAda Müller leads.,0,10,Person\n".encode(encoding))
    with pytest.raises(DataError) as caught:
        list(read_documents(path, "table"))
    assert caught.value.option == "encoding"
    (document,) = read_documents(path, encoding=encoding)
    assert [entity.text for entity in document.entities] == ["Ada Müller"]
    with pytest.raises(DataError, match="not in the encoding ascii") as caught:
        list(read_documents(path, "table", encoding="ascii"))
    assert caught.value.option == "encoding"


TEXT_FORMATS = ("dygie", "spert", "brat", "jsonl", "label-studio", "doccano", "prodigy", "bioc", "pubtator", "conll")


@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_every_text_format_has_encodings(tmp_path, format):
    given = [Document.from_sentences([Sentence.from_words(["Ein", "Müller"], [Span(1, 2, "X")])], id="7")]
    path = tmp_path / "in"
    path.mkdir()
    file = path if format == "brat" else path / "a.json"
    write_documents(given, file, format)
    same = [[entity.text for entity in document.entities] for document in read_documents(file, format)]
    for one in path.iterdir():
        one.write_bytes(one.read_text(encoding="utf-8").encode("cp1252"))
    found = read_documents(file, format, encoding="cp1252")
    assert [[entity.text for entity in document.entities] for document in found] == same == [["Müller"]]


@pytest.mark.parametrize("encoding", ["latin-99", "rot13", "base64", 3])
def test_an_unknown_encoding_is_refused(tmp_path, encoding):
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(ConfigError, match="does not exist"):
        read_documents(tmp_path / "a.jsonl", encoding=encoding)


def test_a_byte_order_mark_takes_precedence(tmp_path):
    path = tmp_path / "a.jsonl"
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        path.write_bytes('{"text": "é"}\n'.encode(encoding))
        assert [document.text for document in read_documents(path, encoding="latin-1")] == ["é"]
