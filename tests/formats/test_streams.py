"""Pipes and devices, which can be read once, and stored files that are damaged."""

import os
import threading

import pytest

from cascade_srn.errors import DataError
from cascade_srn.formats.files import read_stored_json
from cascade_srn.formats.registry import read_documents
from cascade_srn.inputs.sources import Sources
from cascade_srn.inputs.texts import find_texts

DEEP = "[" * 100_000
needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such pipes here")


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe.jsonl"
    os.mkfifo(path)
    return path


@needs_pipes
def test_the_format_of_a_pipe_is_not_guessed(pipe):
    with pytest.raises(DataError, match=r"pipe\.jsonl"):
        read_documents(pipe)


@needs_pipes
def test_a_pipe_is_read_once(pipe):
    writer = threading.Thread(target=lambda: pipe.write_text('{"text": "a b."}\n'), daemon=True)
    writer.start()
    documents = read_documents(pipe, "jsonl")
    assert [document.text for document in documents] == ["a b."]
    writer.join()
    with pytest.raises(DataError, match=r"pipe\.jsonl"):
        list(documents)


@needs_pipes
def test_text_that_is_read_twice_is_no_pipe(pipe):
    with pytest.raises(DataError, match=r"pipe\.jsonl"):
        find_texts([pipe])


@needs_pipes
def test_a_pipe_in_place_of_a_brat_text(tmp_path):
    (tmp_path / "a.ann").touch()
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(DataError, match=r"a\.txt"):
        list(read_documents(tmp_path))


@needs_pipes
def test_the_position_in_a_pipe_is_not_asked_for(pipe):
    writer = threading.Thread(target=lambda: pipe.write_text('{"text": "a b."}\n'), daemon=True)
    writer.start()
    assert [text.text for text in Sources([str(pipe)])] == ["a b."]
    writer.join()


@pytest.mark.parametrize("content", [DEEP, '{"a": ', "9" * 5000, "\x00"])
def test_stored_json_that_is_damaged(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match=r"a\.json ") as caught:
        read_stored_json(tmp_path / "a.json", "Make it again")
    assert caught.value.hint == "Make it again"
