import bz2
import gzip
import lzma

import pytest

from cascade_srn.errors import DataError
from cascade_srn.formats.registry import read_documents, read_schema, write_documents
from cascade_srn.types import Document

GOOD = b'{"id": "g", "text": "ab", "sentences": [[[0, 2]]]}\n'


@pytest.fixture
def data(tmp_path):
    def make(content, name="data.jsonl"):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return make


LINE_FAULTS = [
    (b'{"id": "x", "text": "a', "not valid JSON", r"\(it ends too early\)"),
    (b'{"id": "x", "text": "a"', "not valid JSON", r"\(it ends too early\)"),
    (b"{'id': 1}", "not valid JSON", r"\(Expecting property name"),
    (b'{"text": "a", "score": NaN}', "not valid JSON", r"\(NaN "),
    (b'{"text": ' + b"9" * 5000 + b"}", "not valid JSON", r"\(Exceeds the limit"),
    (b"[" * 100_000, "not valid JSON", ""),
    (b'{"text": "caf\xe9"}', "not UTF-8", r"0xe9 at position 13"),
    (b'{"text": "a", "text": "b"}', "repeated key", "'text'"),
    (b'{"text": "a", "entities": [{"start": 0, "label": "A", "label": "B"}]}', "repeated key", "'label'"),
    (b"[1]", "wrong type", r"\[1\]"),
    (b'"text"', "wrong type", "'text'"),
]


@pytest.mark.parametrize(("line", "kind", "mentioned"), LINE_FAULTS)
@pytest.mark.parametrize("format", ["jsonl", "dygie"])
def test_a_bad_line_is_refused_or_skipped(data, lenient, line, kind, mentioned, format):
    good = GOOD if format == "jsonl" else b'{"doc_key": "g", "sentences": [["ab"]]}\n'
    path = data(good + line + b"\n" + good)
    with pytest.raises(DataError, match=r"data.jsonl, line 2: .*" + mentioned):
        list(read_documents(path, format))
    documents, report = lenient(path, format)
    assert [document.id for document in documents] == ["g", "g"]
    assert report.skipped == {f"document: {kind}": 1}


def test_line_numbers_count_blank_lines(data):
    with pytest.raises(DataError, match="line 4: "):
        list(read_documents(data(b"\n" + GOOD + b"  \r\n{"), "jsonl"))


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(data):
    path = data(b"\xef\xbb\xbf" + GOOD.replace(b"\n", b"\r\n") * 2)
    assert [document.id for document in read_documents(path)] == ["g", "g"]


def test_a_byte_order_mark_before_an_array_is_accepted(data):
    path = data(b'\xef\xbb\xbf[{"tokens": ["a"], "orig_id": "s"}]')
    assert [document.id for document in read_documents(path)] == ["s"]


def test_line_separators_within_a_text_do_not_end_a_line(data):
    path = data('{"text": "a\u2028b\x85c"}\n'.encode())
    (document,) = read_documents(path, segmenter=lambda text: [])
    assert document.text == "a\u2028b\x85c"


@pytest.mark.parametrize("format", [None, "jsonl", "dygie", "spert"])
@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b" \n\n"])
@pytest.mark.parametrize("strict", [True, False])
def test_an_empty_file_is_refused(data, format, content, strict):
    with pytest.raises(DataError, match=r"data.jsonl is empty"):
        list(read_documents(data(content), format, strict=strict))


@pytest.mark.parametrize("content", [b'[{"tokens": ["a"', b'[{"tokens": ["\xff"]}]'])
@pytest.mark.parametrize("strict", [True, False])
def test_an_array_that_cannot_be_parsed_is_refused_whole(data, content, strict):
    with pytest.raises(DataError, match=r"data.json: "):
        list(read_documents(data(content, "data.json"), strict=strict))


def test_a_repeated_key_of_an_array_is_refused_with_its_line(data):
    path = data(b'[{"tokens": ["a"]},\n{"tokens": ["[", ","]},\n\n {"tokens": ["b"],\n "tokens": ["c"]}]')
    with pytest.raises(DataError, match=r"data\.jsonl, line 4: .*'tokens'"):
        list(read_documents(path, "spert"))
    with pytest.raises(DataError, match=r"types\.json: .*'entities'"):
        read_schema(data(b'{"entities": {}, "entities": {}}', "types.json"))


PACKED = [(".gz", gzip), (".xz", lzma), (".bz2", bz2), (".GZ", gzip)]


@pytest.mark.parametrize(("ending", "packer"), PACKED)
@pytest.mark.parametrize("format", ["jsonl", "dygie", "spert"])
def test_compressed_files_are_read_and_written(tmp_path, format, ending, packer):
    documents = [Document.from_words([["a", "é"]], id=str(number)) for number in range(3)]
    plain, packed = tmp_path / "plain.json", tmp_path / f"packed.json{ending}"
    write_documents(documents, plain, format)
    write_documents(documents, packed, format)
    assert packer.decompress(packed.read_bytes()) == plain.read_bytes()
    first = packed.read_bytes()
    stream = read_documents(packed)
    assert stream.format == format
    assert list(stream) == list(stream) == documents
    write_documents(stream, packed, format)  # from itself, and byte for byte the same
    assert packed.read_bytes() == first


def test_the_ending_before_that_of_the_compression_tells_the_format(tmp_path):
    write_documents([Document.from_words([["a"]])], tmp_path / "out.jsonl.gz")
    assert gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).startswith(b'{"id"')
    for name in ("out.gz", "out.json.xz"):
        with pytest.raises(DataError, match=name) as caught:
            write_documents([], tmp_path / name)
        assert caught.value.option == "format"


def test_brat_is_not_compressed(tmp_path):
    with pytest.raises(DataError, match=r"out\.gz .*brat"):
        write_documents([Document.from_words([["a"]], id="a")], tmp_path / "out.gz", "brat")
    assert list(tmp_path.iterdir()) == []


def test_lines_of_a_compressed_file_have_their_numbers(data):
    path = data(gzip.compress(b"\xef\xbb\xbf" + GOOD + b"\n" + b"[1]\n"), "data.jsonl.gz")
    with pytest.raises(DataError, match=r"data\.jsonl\.gz, line 3: .*\[1\]"):
        list(read_documents(path))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (GOOD, "Not a gzipped file"),
        (gzip.compress(GOOD)[:-12], "ended before the end-of-stream marker"),
        (gzip.compress(GOOD, mtime=0)[:10] + b"\xff" * 40, "Error -3"),
    ],
    ids=["plain", "cut off", "damaged"],
)
@pytest.mark.parametrize("format", [None, "jsonl", "spert"])
def test_a_compressed_file_that_is_none_or_is_not_whole(data, content, reason, format):
    with pytest.raises(DataError, match=rf"data\.jsonl\.gz: .*\(.*{reason}"):
        list(read_documents(data(content, "data.jsonl.gz"), format))


def test_writing_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("old")

    def documents():
        yield Document("a")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        write_documents(documents(), path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]


def test_writing_streams_and_replaces_at_the_end(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("old")
    seen = []

    def documents():
        for id in ("a", "b"):
            seen.append(path.read_text())
            yield Document("", (), id)

    write_documents(documents(), path)
    assert seen == ["old", "old"]
    assert [document.id for document in read_documents(path)] == ["a", "b"]


def test_a_file_can_be_rewritten_from_itself(data):
    path = data(GOOD * 3)
    before = list(read_documents(path))
    write_documents(read_documents(path), path)
    assert list(read_documents(path)) == before


def test_permissions_follow_the_umask(tmp_path):
    (tmp_path / "plain").touch()
    write_documents([Document("")], tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").stat().st_mode == (tmp_path / "plain").stat().st_mode
