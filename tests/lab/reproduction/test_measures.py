import pytest
from tests.evaluation.saved_models import DOCUMENTS, saved_model
from tests.small_models import SCHEMA

from cascade_srn import Extractor
from cascade_srn.evaluation import analyse
from cascade_srn.lab.reproduction.measures import MEASURES, count_predictions


@pytest.fixture(scope="module")
def predicted():
    return Extractor.from_pretrained(saved_model()).predict(DOCUMENTS)


@pytest.fixture(scope="module")
def counts(predicted):
    return count_predictions(DOCUMENTS, predicted, SCHEMA)


def test_figures_equal_the_evaluation(predicted, counts):
    analysis = analyse(DOCUMENTS, predicted, schema=SCHEMA)
    groups, errors = analysis.in_triples, analysis.to_dict()["relation_errors"]["kinds"]
    expected = {
        "ner": analysis.scores.ner.counts.f1,
        "re": analysis.scores.re_strict.counts.f1,
        "boundaries": analysis.scores.re_boundaries.counts.f1,
        **{f"in_{figure}": getattr(groups.in_triple, figure) for figure in ("precision", "recall", "f1")},
        **{f"out_{figure}": getattr(groups.out_of_triple, figure) for figure in ("precision", "recall", "f1")},
        "ner_precision": analysis.scores.ner.counts.precision,
        "ner_recall": analysis.scores.ner.counts.recall,
        **{kind["kind"]: kind["n"] for kind in errors},
        **{f"{kind['kind']}_share": kind["share"] for kind in errors},
    }
    assert {column: counts.value(column) for column in MEASURES} == pytest.approx(expected)
    # The comparison needs figures that are neither 0 nor 1.
    assert 0 < expected["ner"] < 1
    assert expected["out_recall"] > 0
    assert sum(kind["n"] > 0 for kind in errors) > 2


def test_counts_by_document(counts):
    by_sentence, by_document = (counts.by_unit("ner", unit) for unit in ("sentence", "document"))
    # The first document has two sentences, the others have one.
    assert by_sentence.shape == (6, 3)
    assert by_document.shape == (5, 3)
    assert (by_document[0] == by_sentence[:2].sum(axis=0)).all()
    assert (by_document[1:] == by_sentence[2:]).all()
