import json

import pytest

from cascade_srn.errors import AnnotationError, ConfigError, SchemaError
from cascade_srn.evaluation import SYMMETRIC_POLICIES, TASKS, Counts, score, score_documents
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span, Triple

SCHEMA = Schema(("Method", "Metric", "Task"), ("Compare", "Part-of", "Used-for"), symmetric=frozenset({"Compare"}))
WORDS = tuple(f"w{number}" for number in range(10))

# A sentence's gold: four entities, one inside another, and three relations, one of them symmetric.
CRF = Span(0, 2, "Method")
HMM = Span(3, 4, "Method")
NER = Span(5, 8, "Task")
NESTED = Span(6, 8, "Task")
USED_FOR = Triple(CRF, "Used-for", NER)
COMPARE = Triple(CRF, "Compare", HMM)
PART_OF = Triple(NESTED, "Part-of", NER)


def sentence(entities=(), triples=(), words=WORDS):
    return Sentence.from_words(words, entities, triples)


GOLD = sentence([CRF, HMM, NER, NESTED], [USED_FOR, COMPARE, PART_OF])


def counts(scores):
    return [(t.n_gold, t.n_predicted, t.n_correct) for t in (scores.ner.counts, *relation_counts(scores))]


def relation_counts(scores):
    return scores.re_boundaries.counts, scores.re_strict.counts


def score_one(gold, predicted, symmetric="directed"):
    return score([gold], [predicted], schema=SCHEMA, symmetric=symmetric)


class TestCounts:
    def test_by_hand(self):
        found = Counts(n_gold=8, n_predicted=5, n_correct=4)
        assert found.precision == 4 / 5
        assert found.recall == 4 / 8
        assert found.f1 == 8 / 13

    def test_undefined_is_zero(self):
        assert (Counts().precision, Counts().recall, Counts().f1) == (0.0, 0.0, 0.0)


class TestByHand:
    def test_a_wrong_argument_type_is_right_for_boundaries_and_wrong_for_strict(self):
        wrong = Span(5, 8, "Metric")
        predicted = sentence([CRF, wrong], [Triple(CRF, "Used-for", wrong)])
        assert counts(score_one(GOLD, predicted)) == [(4, 2, 1), (3, 1, 1), (3, 1, 0)]

    def test_right_start_words_are_not_enough(self):
        # A score that compares the start words of the arguments only (as PFN's does) would call this correct.
        short = Span(5, 7, "Task")
        predicted = sentence([CRF, short], [Triple(CRF, "Used-for", short)])
        assert counts(score_one(GOLD, predicted)) == [(4, 2, 1), (3, 1, 0), (3, 1, 0)]

    def test_a_wrong_relation_type(self):
        predicted = sentence([CRF, NER], [Triple(CRF, "Part-of", NER)])
        assert counts(score_one(GOLD, predicted)) == [(4, 2, 2), (3, 1, 0), (3, 1, 0)]

    def test_the_inner_of_two_nested_entities_is_another_entity(self):
        predicted = sentence([CRF, NESTED], [Triple(CRF, "Used-for", NESTED)])
        assert counts(score_one(GOLD, predicted)) == [(4, 2, 2), (3, 1, 0), (3, 1, 0)]

    def test_two_labels_on_the_same_words_are_two_entities(self):
        both = [Span(0, 1, "Method"), Span(0, 1, "Task")]
        assert counts(score_one(sentence(both), sentence(both[:1])))[0] == (2, 1, 1)

    def test_two_labels_on_the_same_words_are_one_argument_for_boundaries(self):
        method, task, tail = Span(0, 1, "Method"), Span(0, 1, "Task"), Span(2, 3, "Task")
        gold = sentence([method, task, tail], [Triple(method, "Used-for", tail), Triple(task, "Used-for", tail)])
        assert counts(score_one(gold, gold)) == [(3, 3, 3), (1, 1, 1), (2, 2, 2)]

    @pytest.mark.parametrize(
        ("gold", "predicted", "expected"),
        [
            (sentence(), GOLD, [(0, 4, 0), (0, 3, 0), (0, 3, 0)]),
            (GOLD, sentence(), [(4, 0, 0), (3, 0, 0), (3, 0, 0)]),
            (sentence(), sentence(), [(0, 0, 0)] * 3),
        ],
        ids=["empty gold", "empty prediction", "both empty"],
    )
    def test_empty(self, gold, predicted, expected):
        scores = score_one(gold, predicted)
        assert counts(scores) == expected
        for task in (scores.ner, scores.re_boundaries, scores.re_strict):
            assert (task.counts.precision, task.counts.recall, task.counts.f1) == (0, 0, 0)
            assert (task.macro_precision, task.macro_recall, task.macro_f1) == (0, 0, 0)

    def test_the_same_annotation_in_another_sentence_is_no_match(self):
        scores = score([GOLD, sentence()], [sentence(), GOLD], schema=SCHEMA)
        assert counts(scores) == [(4, 4, 0), (3, 3, 0), (3, 3, 0)]

    def test_per_label_and_macro(self):
        # Method 2 gold, 1 predicted, 1 correct: F1 2/3. Task 2, 2, 1: F1 1/2. Metric 0, 1, 0: F1 0.
        predicted = sentence([CRF, NER, Span(9, 10, "Task"), Span(8, 9, "Metric")])
        ner = score_one(GOLD, predicted).ner
        assert ner.per_label == {"Method": Counts(2, 1, 1), "Metric": Counts(0, 1, 0), "Task": Counts(2, 2, 1)}
        assert list(ner.per_label) == ["Method", "Metric", "Task"]
        assert ner.macro_precision == pytest.approx((1 + 0 + 1 / 2) / 3)
        assert ner.macro_recall == pytest.approx((1 / 2 + 0 + 1 / 2) / 3)
        assert ner.macro_f1 == pytest.approx((2 / 3 + 0 + 1 / 2) / 3)
        assert ner.counts == Counts(4, 4, 2)

    def test_a_label_on_neither_side_is_no_part_of_the_macro_average(self):
        scores = score_one(GOLD, GOLD)
        assert "Metric" not in scores.ner.per_label
        assert scores.ner.macro_f1 == 1


class TestSymmetricPolicies:
    FLIPPED = sentence([CRF, HMM], [Triple(HMM, "Compare", CRF)])

    @pytest.mark.parametrize(
        ("symmetric", "expected"), [("directed", (3, 1, 0)), ("canonical", (3, 1, 1)), ("doubled", (4, 2, 2))]
    )
    def test_a_flipped_symmetric_relation(self, symmetric, expected):
        assert counts(score_one(GOLD, self.FLIPPED, symmetric))[1:] == [expected, expected]

    @pytest.mark.parametrize("symmetric", SYMMETRIC_POLICIES)
    def test_a_flipped_directed_relation_is_wrong_everywhere(self, symmetric):
        flipped = sentence([CRF, NER], [Triple(NER, "Used-for", CRF)])
        n_gold = 4 if symmetric == "doubled" else 3
        assert counts(score_one(GOLD, flipped, symmetric))[1:] == [(n_gold, 1, 0)] * 2

    @pytest.mark.parametrize(("symmetric", "n"), [("directed", 2), ("canonical", 1), ("doubled", 2)])
    def test_both_directions_in_the_data(self, symmetric, n):
        both = sentence([CRF, HMM], [COMPARE, Triple(HMM, "Compare", CRF)])
        assert counts(score_one(both, both, symmetric))[1:] == [(n, n, n)] * 2

    def test_canonical_order_of_arguments_on_the_same_words(self):
        method, task = Span(0, 1, "Method"), Span(0, 1, "Task")
        one = sentence([method, task], [Triple(method, "Compare", task)])
        other = sentence([method, task], [Triple(task, "Compare", method)])
        assert counts(score_one(one, other, "canonical"))[1:] == [(1, 1, 1)] * 2

    @pytest.mark.parametrize("symmetric", SYMMETRIC_POLICIES)
    def test_a_relation_of_an_entity_with_itself_is_one_relation(self, symmetric):
        own = sentence([CRF], [Triple(CRF, "Compare", CRF)])
        assert counts(score_one(own, own, symmetric))[1:] == [(1, 1, 1)] * 2

    def test_unknown_policy(self):
        with pytest.raises(ConfigError, match="symmetric.*'directd'.*'directed'"):
            score_one(GOLD, GOLD, "directd")


class TestAlignment:
    def test_another_number_of_sentences(self):
        with pytest.raises(AnnotationError, match="2 gold sentences.* 1 predicted.* sentence 1 "):
            score([GOLD, GOLD], [GOLD], schema=SCHEMA)

    def test_another_word(self):
        other = sentence(words=(*WORDS[:4], "x", *WORDS[5:]))
        with pytest.raises(AnnotationError, match="sentence 1 .*word 4.*'w4'.*'x'"):
            score([GOLD, GOLD], [GOLD, other], schema=SCHEMA)

    def test_fewer_words(self):
        with pytest.raises(AnnotationError, match="sentence 0 .*10 words.* 9 "):
            score([sentence()], [sentence(words=WORDS[:9])], schema=SCHEMA)

    def test_a_label_the_schema_does_not_hold(self):
        other = sentence([Span(0, 1, "Tsk")])
        with pytest.raises(SchemaError, match="predicted sentence 0.*'Tsk'.*'Task'"):
            score([GOLD], [other], schema=SCHEMA)


class TestDocuments:
    def test_as_their_sentences(self):
        document = Document.from_sentences([GOLD, sentence(), GOLD])
        expected = score([GOLD, sentence(), GOLD], [GOLD, sentence(), sentence()], schema=SCHEMA)
        blank = Document.from_sentences([GOLD, sentence(), sentence()])
        assert score_documents([document], [blank], schema=SCHEMA) == expected

    def test_sentences_are_compared_by_document(self):
        one, two = Document.from_sentences([GOLD], id="{a}"), Document.from_sentences([GOLD, GOLD], id="b")
        with pytest.raises(AnnotationError, match=r"sentence 1 of document 0 \('\{a\}'\)"):
            score_documents([one, two], [two, one], schema=SCHEMA)

    def test_another_number_of_documents(self):
        with pytest.raises(AnnotationError, match="0 gold documents.* 1 predicted.* document 0 "):
            score_documents([], [Document.from_sentences([GOLD])], schema=SCHEMA)


class TestFormats:
    PREDICTED = sentence([CRF, HMM, NER], [USED_FOR, Triple(HMM, "Compare", CRF)])

    def test_to_dict(self):
        record = score_one(GOLD, self.PREDICTED, "canonical").to_dict()
        assert json.loads(json.dumps(record)) == record
        assert record["symmetric"] == "canonical"
        assert set(record) == {"symmetric", *TASKS}
        assert record["ner"]["micro"] == {
            "precision": 1.0,
            "recall": 0.75,
            "f1": 6 / 7,
            "n_gold": 4,
            "n_predicted": 3,
            "n_correct": 3,
        }
        assert record["re_strict"]["macro"] == {
            "precision": pytest.approx(2 / 3),
            "recall": pytest.approx(2 / 3),
            "f1": pytest.approx(2 / 3),
            "n_labels": 3,
        }
        assert record["re_strict"]["per_label"]["Part-of"]["n_gold"] == 1

    def test_table(self):
        scores = score_one(GOLD, self.PREDICTED)
        assert str(scores).splitlines() == [
            "protocol                        precision  recall    F1  gold  predicted  correct",
            "ner, micro                          100.0    75.0  85.7     4          3        3",
            "ner, macro                          100.0    75.0  83.3",
            "re_boundaries, directed, micro       50.0    33.3  40.0     3          2        1",
            "re_boundaries, directed, macro       33.3    33.3  33.3",
            "re_strict, directed, micro           50.0    33.3  40.0     3          2        1",
            "re_strict, directed, macro           33.3    33.3  33.3",
        ]

    def test_table_by_label(self):
        lines = score_one(GOLD, self.PREDICTED, "doubled").table(per_label=True).splitlines()
        [compare] = [line for line in lines if line.startswith("re_strict, doubled, label Compare")]
        assert compare.split()[-6:] == ["100.0", "100.0", "100.0", "2", "2", "2"]
