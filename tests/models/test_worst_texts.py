"""The texts that cost most per character: the result stays within the limits of the search, whatever the thresholds."""

import pytest

from cascade_srn import Extractor
from cascade_srn.config import SearchLimits
from cascade_srn.text.segment import LONGEST_SENTENCE

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:some sentences have more candidate")]

LIMITS = SearchLimits()
N_CHARACTERS = 600
# Found by a search for the largest CPU time and memory per character, compared with ordinary prose.
TEXTS = {
    "keyword list with line breaks": "\nSVM,HMM,CRF,LSTM,BERT,",
    "keyword list and table": "SVM,HMM,CRF,LSTM,BERT,| 0.91 | 0.87 | SVM | \n",
    "keyword list": "SVM,HMM,CRF,LSTM,bert,",
    "table": "| 0.91 | 0.87 | SVM | \n",
    "right to left": "שלום עולם مرحبا بالعالم ",
    "nested quotes": "\"'“‘a’”'\" ",
    "apostrophes": "n't'",
    "hyphens": "a-",
    "periods in a word": "a.b.",
    "brackets and periods": "(a.b.",
    "CJK": "自然言語処理研究解析器翻訳認識構文意味抽出関係知識学習",
}


@pytest.fixture(scope="module")
def extractor():
    return Extractor.from_pretrained()


@pytest.mark.parametrize("unit", TEXTS.values(), ids=TEXTS.keys())
def test_the_result_is_within_the_limits(extractor, unit):
    text = (unit * N_CHARACTERS)[:N_CHARACTERS]
    document = extractor.extract(text, thresholds={"entity": 0.01, "subject": 0.01, "object": 0.01}, overlaps="all")
    assert document.text == text
    assert 0 < sum(map(len, document.sentences)) <= N_CHARACTERS
    for sentence in document.sentences:
        n_words = len(sentence)
        assert n_words <= LONGEST_SENTENCE
        assert len(sentence.entities) <= LIMITS.max_entities(n_words)
        assert len(sentence.triples) <= LIMITS.max_relations(n_words)
        arguments = {(span.start, span.end) for t in sentence.triples for span in (t.head, t.tail)}
        assert len(arguments) <= LIMITS.max_spans(n_words)
        assert all(entity.end - entity.start <= LIMITS.entity_words for entity in sentence.entities)
