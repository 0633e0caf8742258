"""Awkward texts: copies of PDF files, lists, tables, markup, code, references, e-mails and more."""

import json
from pathlib import Path

import pytest

from cascade_srn.text.segment import segment

TEXTS = [
    json.loads(line) for line in (Path(__file__).parent / "awkward.jsonl").read_text(encoding="utf-8").splitlines()
]


def show(sentences):
    """Return one line per sentence, with bars between words."""
    return [" ¦ ".join(words).replace("\r", "␍").replace("\n", "⏎") for words in sentences]


@pytest.mark.parametrize("record", TEXTS, ids=lambda record: record["name"])
def test_sentences_and_words(record):
    text, found = record["text"], segment(record["text"])
    assert show([[text[start:end] for start, end in words] for words in found]) == show(record["words"])
    assert [text[words[0][0] : words[-1][1]] for words in found] == record["sentences"]
