"""Size limits of input: decompression bombs, long lines, large files."""

import bz2
import gzip
import io
import json
import lzma
import os
import re
import tracemalloc

import pytest

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.formats.registry import read_documents
from cascade_srn.inputs.sources import Sources, Unreadable
from cascade_srn.inputs.texts import read_texts
from cascade_srn.storage import limits

MEGABYTE = 1 << 20
SIZE = 64 * MEGABYTE


@pytest.fixture(scope="module", params=[gzip, lzma, bz2], ids=["gz", "xz", "bz2"])
def bomb(request, tmp_path_factory):
    """Compressed file of 64 MB of zeros, with every suffix of texts and corpora."""
    ending = {gzip: "gz", lzma: "xz", bz2: "bz2"}[request.param]
    folder = tmp_path_factory.mktemp("bomb")
    path = folder / f"bomb.{ending}"
    # All three formats allow several streams in one file.
    path.write_bytes(request.param.compress(bytes(SIZE // 16)) * 16)
    assert path.stat().st_size < SIZE // 500
    for kind in ("txt", "jsonl", "json"):
        os.link(path, folder / f"bomb.{kind}.{ending}")
    return lambda kind: folder / f"bomb.{kind}.{ending}"


def refused(read):
    """Return the message of the error, after checking that little memory was used."""
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as failure:
            read()
        assert tracemalloc.get_traced_memory()[1] < 48 * MEGABYTE
    finally:
        tracemalloc.stop()
    return str(failure.value)


def test_a_bomb_is_found_by_its_ratio(bomb, monkeypatch):
    monkeypatch.setenv(limits.RATIO_VARIABLE, "500")
    expected = limits.RATIO_VARIABLE
    assert expected in refused(lambda: list(read_documents(bomb("json"), "spert")))
    assert expected in refused(lambda: list(read_documents(bomb("jsonl"), "jsonl")))
    assert expected in refused(lambda: list(read_texts([bomb("txt")])))
    assert expected in refused(lambda: list(read_texts([bomb("jsonl")])))


def test_a_bomb_is_found_by_its_size(bomb, monkeypatch):
    monkeypatch.setenv(limits.RATIO_VARIABLE, "1000000000")
    monkeypatch.setenv(limits.FILE_VARIABLE, str(8 * MEGABYTE))
    monkeypatch.setenv(limits.LINE_VARIABLE, str(4 * MEGABYTE))
    whole, line = f"{8 * MEGABYTE} bytes", f"{4 * MEGABYTE} bytes"
    assert whole in refused(lambda: list(read_documents(bomb("json"), "spert")))
    assert line in refused(lambda: list(read_documents(bomb("jsonl"), "jsonl")))
    assert line in refused(lambda: list(read_texts([bomb("txt")])))
    assert [type(found) for found in Sources([str(bomb("txt")), str(bomb("jsonl"))])] == [Unreadable, Unreadable]
    first, second = Sources([str(bomb("txt")), str(bomb("jsonl"))])
    assert whole in first.reason
    assert line in second.reason


def test_a_large_file_of_short_lines_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv(limits.FILE_VARIABLE, "100")
    monkeypatch.setenv(limits.LINE_VARIABLE, "20")
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "a b."}\n' * 1000))
    assert len(list(read_documents(path))) == 1000
    assert sum(isinstance(found, Unreadable) for found in Sources([str(path)])) == 0


def test_a_line_of_exactly_the_limit_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv(limits.LINE_VARIABLE, "5")
    path = tmp_path / "a.txt"
    path.write_bytes(b"abcd\nabcd\n")
    assert list(read_texts([path])) == ["abcd\nabcd\n"]
    path.write_bytes(b"abcd\nabcde\n")
    with pytest.raises(DataError, match=rf"a\.txt, line 2: .* 5 bytes.*{limits.LINE_VARIABLE}"):
        list(read_texts([path]))


def test_files_of_brat_are_limited(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("x" * 200)
    (tmp_path / "a.ann").touch()
    monkeypatch.setenv(limits.FILE_VARIABLE, "100")
    with pytest.raises(DataError, match=rf"a\.txt: .* 100 bytes.*{limits.FILE_VARIABLE}"):
        list(read_documents(tmp_path))


@pytest.mark.parametrize("words", [None, [[[at, at + 1] for at in range(0, 22, 2)]]])
def test_words_of_a_document_are_limited(tmp_path, monkeypatch, words):
    monkeypatch.setenv(limits.WORDS_VARIABLE, "10")
    record = {"text": "a " * 11} | ({} if words is None else {"sentences": words})
    (tmp_path / "a.jsonl").write_text(json.dumps(record))
    with pytest.raises(DataError, match=rf"more than 10 words.*{limits.WORDS_VARIABLE}"):
        list(read_documents(tmp_path / "a.jsonl", "jsonl"))
    (tmp_path / "a.jsonl").write_text('{"text": "%s"}' % ("a " * 10))
    assert len(list(read_documents(tmp_path / "a.jsonl", "jsonl"))) == 1


def test_characters_of_a_document_are_limited(tmp_path, monkeypatch):
    monkeypatch.setenv(limits.WORDS_VARIABLE, "10")
    expected = rf"101 characters.* 100\b.*{limits.WORDS_VARIABLE}"
    (tmp_path / "a.jsonl").write_text('{"text": "%s"}' % ("x" * 101))
    with pytest.raises(DataError, match=expected):
        list(read_documents(tmp_path / "a.jsonl", "jsonl"))
    (tmp_path / "a.txt").write_text("x" * 101)
    (tmp_path / "a.csv").write_text("text\n" + "x" * 101)
    for name in ("a.jsonl", "a.txt", "a.csv"):
        (found,) = Sources([str(tmp_path / name)])
        assert re.search(expected, found.reason)


def test_limits_of_a_block(monkeypatch):
    own = limits.ReadLimits(1, 2, 3, 4, hint="Send less")
    with limits.reading_within(own):
        assert limits.read_limits() is own
        with pytest.raises(DataError) as refused:
            own.check_words(5, "a.txt")
        assert refused.value.hint == "Send less"
    assert limits.read_limits().line_bytes == 256 << 20


def test_standard_input_is_limited(monkeypatch):
    monkeypatch.setenv(limits.LINE_VARIABLE, "100")
    (found,) = Sources(["-"], per="line", stdin=io.BytesIO(b"x" * 200))
    assert "standard input, line 1: " in found.reason
    assert "100 bytes" in found.reason


def test_short_files_compress_by_any_ratio(tmp_path, monkeypatch):
    monkeypatch.setenv(limits.RATIO_VARIABLE, "2")
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"line\n" * 10000))
    assert list(read_texts([path])) == ["line\n" * 10000]


@pytest.mark.parametrize("given", ["x", "-1", "0", "1.5", "1" * 30])
def test_invalid_limits_are_refused(monkeypatch, given):
    monkeypatch.setenv(limits.LINE_VARIABLE, given)
    with pytest.raises(ConfigError, match=limits.LINE_VARIABLE):
        limits.read_limits()
