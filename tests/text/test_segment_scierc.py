"""Agreement of the segmenter with the words and sentences of SciERC, if the corpus is available.

SciERC publishes words only. The tests first restore the text as a person would have written it.
"""

import json
import os
from pathlib import Path

import pytest

from cascade_srn.text.segment import segment

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data" / "scierc"
SCIERC = BESIDE if BESIDE.is_dir() else Path(os.environ.get("CASCADE_SRN_SCIERC", "nowhere"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SCIERC.is_dir(), reason="SciERC is missing; set CASCADE_SRN_SCIERC to its folder"),
]

BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": "“", "''": "”"}
CLOSING = {*",.;:?!)]}%”", "'s", "'", "n't", "'re", "'ve", "'ll", "'d", "'m", "..."}
OPENING = {*"([{“$#"}


def restore_text(sentences):
    """Return the text of tokenized sentences, and the offsets of their words."""
    text, offsets = "", []
    for sentence in sentences:
        places, before = [], None
        for word in (BRACKETS.get(word, word) for word in sentence):
            if text and before not in OPENING and not (places and word in CLOSING):
                text += " "
            places.append((len(text), len(text) + len(word)))
            text += word
            before = word
        offsets.append(places)
    return text, offsets


@pytest.fixture(scope="module")
def abstracts():
    found = []
    for split in ("train", "dev", "test"):
        for line in (SCIERC / "dygie" / f"{split}.json").read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            text, gold = restore_text(record["sentences"])
            spans = [span[:2] for sentence in record["ner"] for span in sentence]
            found.append((text, gold, segment(text), spans))
    assert len(found) == 500
    return found


def f1(pairs):
    """Return the micro F1 of pairs of a predicted set and a gold set."""
    pairs = list(pairs)
    right = sum(len(found & gold) for found, gold in pairs)
    return 2 * right / sum(len(found) + len(gold) for found, gold in pairs)


def words_of(sentences):
    return {word for sentence in sentences for word in sentence}


def test_words(abstracts):
    assert f1((words_of(found), words_of(gold)) for _, gold, found, _ in abstracts) > 0.999


def test_sentences(abstracts):
    starts = (({s[0][0] for s in found}, {s[0][0] for s in gold}) for _, gold, found, _ in abstracts)
    assert f1(starts) > 0.995


def test_entities_stay_at_word_boundaries_and_within_sentences(abstracts):
    n_entities = n_kept = 0
    for _, gold, found, spans in abstracts:
        flat = [word for sentence in gold for word in sentence]
        starts = {word[0]: number for number, sentence in enumerate(found) for word in sentence}
        ends = {word[1]: number for number, sentence in enumerate(found) for word in sentence}
        for first, last in spans:
            n_entities += 1
            n_kept += starts.get(flat[first][0], -1) == ends.get(flat[last][1], -2)
    assert n_entities == 8094
    assert n_kept / n_entities > 0.999
