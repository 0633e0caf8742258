"""Sentences of an evaluation set do not stay in raw text."""

from cascade_srn.formats.registry import write_documents
from cascade_srn.training.adapt.packing import HeldOutSentences
from cascade_srn.types import Document

HELD = Document.from_words([["We", "train", "a", "parser", ",", "twice", "."], ["It", "works", "."], []])


def test_equal_sentences_are_removed_and_counted():
    held = HeldOutSentences([HELD])
    assert len(held) == 2
    text = "First one. WE train a\n parser, twice. Another one.  It works. We train a parser."
    assert held.remove_from(text) == "First one. Another one. We train a parser."
    assert held.n_removed == 2
    assert held.remove_from("It works.") == ""
    assert held.n_removed == 3


def test_text_without_such_sentences_stays_as_it_is():
    held = HeldOutSentences([HELD])
    text = "  First \n one. It works well.  "
    assert held.remove_from(text) == text
    assert held.n_removed == 0


def test_they_are_read_from_any_format(tmp_path):
    write_documents([HELD], tmp_path / "test.json", "dygie")
    write_documents([Document.from_words([["So", "."]])], tmp_path / "dev.jsonl")
    held = HeldOutSentences.read([tmp_path / "test.json", tmp_path / "dev.jsonl"])
    assert len(held) == 3
    assert held.remove_from("It works. And. So.") == "And."
