"""How close our words and sentences are to those of SciERC, where the corpus stands beside the checkout.

Its abstracts are published as words only, so a text is made of them first, as a person would have written it.
"""

import json
import os
from pathlib import Path

import pytest

from cascade_srn.text.segment import segment

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data" / "scierc"
SCIERC = BESIDE if BESIDE.is_dir() else Path(os.environ.get("CASCADE_SRN_SCIERC", "nowhere"))

pytestmark = pytest.mark.skipif(not SCIERC.is_dir(), reason="SciERC is not here; set CASCADE_SRN_SCIERC to its folder")

BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": "“", "''": "”"}
CLOSING = {*",.;:?!)]}%”", "'s", "'", "n't", "'re", "'ve", "'ll", "'d", "'m", "..."}
OPENING = {*"([{“$#"}


def written(sentences):
    """The text of tokenized sentences, and the offsets of their words in it."""
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
            text, gold = written(record["sentences"])
            spans = [span[:2] for sentence in record["ner"] for span in sentence]
            found.append((text, gold, segment(text), spans))
    assert len(found) == 500
    return found


def f1(pairs):
    """Of sets of what is found and what is right."""
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


def test_entities_begin_and_end_where_words_do_and_stay_in_their_sentences(abstracts):
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
