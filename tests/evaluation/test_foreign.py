import json
from pathlib import Path

import pytest
from tests.evaluation.saved_models import corpus, saved_model

from cascade_srn import Document, Extractor, Sentence, Span, Triple
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.evaluation.errors import SentenceShare
from cascade_srn.evaluation.foreign import count_findings, evaluate_foreign
from cascade_srn.evaluation.options import ForeignOptions
from cascade_srn.inputs.texts import read_texts


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("A tagger helps parsing. Taggers win.\n\nThis is not about anything.\n", encoding="utf-8")
    return str(path)


def test_by_hand():
    spans = [Span(0, 1, "A"), Span(1, 2, "B")]
    sentence = Sentence.from_words(["a", "b"], spans, [Triple(spans[0], "r", spans[1])])
    bare = sentence.annotated((), ())
    found = count_findings([Document.from_sentences([sentence, bare]), Document.from_sentences([bare, bare])])
    assert found["entities"].per_label == {"A": 1, "B": 1}
    assert (found["entities"].n, found["entities"].per_100_sentences) == (2, 50.0)
    assert found["relations"].sentences == found["entities"].sentences == SentenceShare(4, 1)
    assert found["relations"].to_dict()["per_100_sentences"] == 25.0


def test_counts_are_those_of_the_extractor(texts):
    found = evaluate_foreign(ForeignOptions((saved_model(), saved_model(1)), (texts,)))
    for name, seed in (("…/seed-0-0/best", 0), ("…/seed-1-0/best", 1)):
        expected = list(Extractor.from_pretrained(saved_model(seed)).stream(read_texts([Path(texts)])))
        assert found.findings[name] == count_findings(expected)
        assert found.findings[name]["entities"].n
    record = found.to_dict()
    assert json.loads(json.dumps(record)) == record
    assert (record["condition"], record["data"]["n_texts"]) == ("foreign text", 2)
    assert record["models"][0]["entities"]["sentences"]["n_sentences"] == 3
    table = found.table(per_label=True)
    assert "…/seed-1-0/best, relations" in table
    assert "…/seed-1-0/best, relations, label compare" in table


def test_no_text(tmp_path):
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    with pytest.raises(DataError):
        evaluate_foreign(ForeignOptions((saved_model(),), (str(tmp_path / "empty.txt"),)))


def test_annotated_data_is_not_a_model(texts):
    with pytest.raises(ConfigError):
        evaluate_foreign(ForeignOptions((saved_model(), corpus()), (texts,)))


@pytest.mark.parametrize(
    "options", [{"models": ()}, {"texts": ()}, {"models": ("m", "./m")}, {"precision": "half"}, {"batch_words": 0}]
)
def test_errors(options):
    with pytest.raises(ConfigError):
        ForeignOptions(**{"models": ("m",), "texts": ("t",), **options})
