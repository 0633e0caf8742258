"""Shares of sentences in which gold has nothing to find, but something was predicted."""

from tests.evaluation.saved_models import corpus, saved_model
from tests.evaluation.strategies import aligned

from cascade_srn import Sentence, Span, Triple
from cascade_srn.evaluation import count_false_positives
from cascade_srn.evaluation.errors import FALSE_POSITIVES, SentenceShare
from cascade_srn.evaluation.evaluate import evaluate
from cascade_srn.evaluation.options import EvaluateOptions
from cascade_srn.evaluation.text import format_evaluation

A, B = Span(0, 1, "A"), Span(1, 2, "B")
NOTHING = Sentence.from_words(["a", "b"])
ENTITY, ENTITIES = NOTHING.annotated([A], ()), NOTHING.annotated([A, B], ())
RELATION = NOTHING.annotated([A, B], [Triple(A, "Directed", B)])


def test_by_hand():
    pairs = [
        (NOTHING, NOTHING), (NOTHING, ENTITY), (NOTHING, RELATION), (ENTITY, RELATION), (ENTITIES, ENTITIES),
        (ENTITIES, RELATION), (RELATION, RELATION), (RELATION, NOTHING),
    ]  # fmt: skip
    found = count_false_positives(aligned(pairs))
    assert found == {
        "entities": SentenceShare(3, 2),
        "relations": SentenceShare(6, 3),
        "unrelated_entities": SentenceShare(2, 1),
    }
    assert found["relations"].to_dict() == {"n_sentences": 6, "n_predicted": 3, "share": 0.5}


def test_the_share_of_no_sentence_is_not_a_number():
    assert {one.share for one in count_false_positives([]).values()} == {None}


def evaluated(*models, **options):
    return evaluate(EvaluateOptions(models=models, data=corpus(), **{"n_resamples": 100, **options}))


def test_in_the_evaluation():
    found = evaluated(saved_model())
    shares = found.to_dict()["models"][0]["false_positives"]
    assert shares["entities"]["n_sentences"] == 1
    assert shares["relations"]["n_sentences"] == 2
    ((_, analysis),) = found.analyse_models()
    assert analysis.to_dict()["false_positives"] == shares
    lines = format_evaluation(found).splitlines()
    for name, (description, _) in FALSE_POSITIVES.items():
        (line,) = [line for line in lines if line.startswith(f"{description}  ")]
        one = analysis.false_positives[name]
        share = "-" if one.share is None else f"{100 * one.share:.1f}"
        assert line.split()[-3:] == [str(one.n_sentences), str(one.n_predicted), share]


def test_gold_entities_are_no_false_positives():
    found = evaluated(saved_model(), gold_entities=True)
    shares = found.to_dict()["models"][0]["false_positives"]
    ((_, analysis),) = found.analyse_models()
    assert list(shares) == list(analysis.to_dict()["false_positives"]) == ["relations", "unrelated_entities"]
