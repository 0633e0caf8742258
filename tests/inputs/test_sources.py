import gzip
import io
import json
import re

import pytest

from cascade_srn import Document
from cascade_srn.errors import ConfigError
from cascade_srn.inputs.sources import Sources, Text, Unreadable


def read(*arguments, **chosen):
    return list(Sources([str(argument) for argument in arguments], **chosen))


def test_given_texts():
    assert read(texts=["one"]) == [Text("text", "one", "text 1")]
    assert [text.id for text in read(texts=["one", "two"])] == ["text-1", "text-2"]


def test_a_file_is_one_document(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffé first\r\n\r\n\x0csecond \u2028 \n".encode())
    assert read(path) == [Text("a", "é first\r\n\r\n\x0csecond \u2028 \n", str(path), path.stat().st_size)]


def test_one_document_per_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one \r\n\n \ntwo\xff\nthree")
    first, second, third = read(path, per="line")
    assert (first.id, first.text, first.place) == ("a-1", "one ", f"{path}, line 1")
    assert second.reason.startswith(f"{path}, line 4: ")
    assert "0xff" in second.reason
    assert (third.id, third.text) == ("a-5", "three")


def test_positions_rise_to_the_size_of_all(tmp_path):
    for name, data in (("a.txt", b"a\nb\n"), ("b.txt.gz", gzip.compress(b"c\nd\n")), ("c.jsonl", b'{"text":"e"}\n')):
        (tmp_path / name).write_bytes(data)
    sources = Sources([str(tmp_path)], per="auto")
    positions = [text.position for text in sources]
    assert positions == sorted(positions)
    assert positions[-1] == sources.n_bytes
    assert Sources(["-"]).n_bytes is None


def records(tmp_path, *lines, **chosen):
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return read(path, **chosen)


def test_records_keep_their_ids(tmp_path):
    found = records(tmp_path, {"id": "x/1", "text": "one"}, {"id": 7, "text": "two"}, {"text": "three"})
    assert [(text.id, text.text) for text in found] == [("x/1", "one"), ("7", "two"), ("r-3", "three")]


def test_other_fields(tmp_path):
    (found,) = records(tmp_path, {"key": "k", "abstract": "one"}, field="abstract", id_field="key")
    assert (found.id, found.text) == ("k", "one")


def test_sentences_and_words_of_records_are_kept(tmp_path):
    sentences, words, none = records(
        tmp_path,
        {"id": "s", "text": ["One. Two", "", "It isn't."]},
        {"id": "w", "text": [["It", "isn't", "."], ["So"]]},
        {"id": "n", "text": []},
    )
    assert sentences.text.text == "One. Two\n\nIt isn't."
    assert [s.words for s in sentences.text.sentences] == [("One", ".", "Two"), (), ("It", "is", "n't", ".")]
    assert words.text == Document.from_words([["It", "isn't", "."], ["So"]], id="w")
    assert none.text == Document("", id="n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "cut', "line 2: .*JSON"),
        ("[1]", r"line 2: .*\[1\]"),
        ({"txt": "x"}, "line 2: .*'text'.*'txt'"),
        ({"text": None}, "line 2: .*'text' is null"),
        ({"text": float("nan")}, "line 2: .*'text' is nan"),
        ({"text": 5}, "line 2: .*'text' is 5"),
        ({"text": ["a", 5]}, r"text\[1\] is 5"),
        ({"text": [["a", ""]]}, r"text\[0\]\[1\] is ''"),
        ({"text": "\ud800"}, "line 2: .*'text' is not valid UTF-8"),
        ({"text": "a", "id": ["x"]}, r"line 2: the id is \['x'\]"),
    ],
)
def test_records_around_a_bad_record_are_read(tmp_path, line, message):
    first, bad, last = records(tmp_path, {"text": "one"}, line, {"text": "two"})
    assert (first.text, last.text) == ("one", "two")
    assert isinstance(bad, Unreadable)
    assert re.search(message, bad.reason)


def test_a_missing_field_names_the_option(tmp_path):
    (bad,) = records(tmp_path, {"abstract": "x"})
    assert bad.error.option == "field"


def test_truncated_files(tmp_path):
    packed = gzip.compress("\n".join(f"line {i * i}" for i in range(5000)).encode())
    (tmp_path / "a.txt.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "b.txt").write_bytes(b"good")
    *_, bad, good = read(tmp_path, per="line")
    assert re.search("a.txt.gz.*line", bad.reason)
    assert good.text == "good"
    bad, good = read(tmp_path)
    assert "a.txt.gz" in bad.reason
    assert good.text == "good"


def test_a_file_that_is_deleted_before_reading(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a")
    (tmp_path / "b.txt").write_bytes(b"b")
    sources = Sources([str(tmp_path)])
    (tmp_path / "a.txt").unlink()
    bad, good = sources
    assert "a.txt" in bad.reason
    assert good.text == "b"


def test_standard_input():
    def piped(data, **chosen):
        return [text.text for text in Sources(["-"], stdin=io.BytesIO(data), **chosen)]

    assert piped(b"one\ntwo\n") == ["one\ntwo\n"]
    assert piped(b"one\ntwo\n", per="line") == ["one", "two"]
    assert piped(b'{"text": "one"}\n', per="record") == ["one"]
    assert piped(b" \n") == []


def test_an_unknown_unit():
    with pytest.raises(ConfigError, match="per is 'lines', .*auto, file, line, record.*'line'"):
        Sources([], per="lines")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-be"])
def test_encodings_that_are_recognised(tmp_path, encoding):
    (tmp_path / "a.txt").write_bytes("Übung 🙂\nzwei\n".encode(encoding))
    assert [text.text for text in Sources([str(tmp_path / "a.txt")])] == ["Übung 🙂\nzwei\n"]
    assert [text.text for text in Sources([str(tmp_path / "a.txt")], per="line")] == ["Übung 🙂", "zwei"]
    stdin = io.BufferedReader(io.BytesIO("Übung".encode(encoding)))
    assert [text.text for text in Sources(["-"], stdin=stdin)] == ["Übung"]


def test_a_named_encoding(tmp_path):
    (tmp_path / "a.txt").write_bytes("Übung\nzwei\n".encode("cp1252"))
    (tmp_path / "b.jsonl").write_bytes('{"text": "Übung"}\n'.encode("cp1252"))
    (tmp_path / "c.csv").write_bytes("id,text\n1,Übung\n".encode("cp1252"))
    paths = [str(tmp_path / name) for name in ("a.txt", "b.jsonl", "c.csv")]
    assert [bad.error.option for bad in Sources(paths)] == ["encoding"] * 3
    assert [text.text for text in Sources(paths, encoding="cp1252")] == ["Übung\nzwei\n", "Übung", "Übung"]
    stdin = io.BufferedReader(io.BytesIO("Übung".encode("cp1252")))
    assert [text.text for text in Sources(["-"], stdin=stdin, encoding="cp1252")] == ["Übung"]
    (tmp_path / "a.txt").write_bytes(b"a" * 300_000 + b"\xff")
    (bad,) = Sources(paths[:1], encoding="ascii")
    assert "a.txt: the text is not in the encoding ascii" in bad.reason
    with pytest.raises(ConfigError, match="'utf-9' does not exist"):
        Sources(paths, encoding="utf-9")
