"""Scores by group: groups of items, and groups that add up to the scores."""

import json

import pytest
from hypothesis import given
from tests.evaluation.strategies import SCHEMA, aligned, any_pairs, policies, sentences, some

from cascade_srn.evaluation import Counts, score
from cascade_srn.evaluation.breakdown import (
    BREAKDOWNS,
    Ranges,
    SeenTexts,
    break_down,
    classify_nesting,
    find_distance_group,
)
from cascade_srn.evaluation.items import RelationItem
from cascade_srn.types import Document, Sentence, Span, Triple


class TestRanges:
    RANGES = Ranges((1, 3, 4, 10))

    def test_names(self):
        assert self.RANGES.names == ("1–2", "3", "4–9", "10+")

    @pytest.mark.parametrize(
        ("number", "name"),
        [(0, "1–2"), (1, "1–2"), (2, "1–2"), (3, "3"), (4, "4–9"), (9, "4–9"), (10, "10+"), (99, "10+")],
    )
    def test_find_name(self, number, name):
        assert self.RANGES.find_name(number) == name


@pytest.mark.parametrize(
    ("one", "other", "group"),
    [
        ((0, 1), (1, 2), "0"), ((0, 1), (2, 3), "1–2"), ((0, 1), (3, 4), "1–2"), ((0, 2), (5, 9), "3–5"),
        ((0, 1), (22, 23), "21+"), ((0, 3), (2, 5), "sharing words"), ((0, 5), (1, 2), "sharing words"),
        ((0, 1), (0, 1), "sharing words"),
    ],
)  # fmt: skip
def test_distances(one, other, group):
    first, second = Span(*one, "A"), Span(*other, "B")
    assert find_distance_group(first, second) == find_distance_group(second, first) == group


class TestNesting:
    OUTER, INNER, ACROSS, APART = Span(0, 4, "A"), Span(1, 3, "A"), Span(3, 6, "A"), Span(7, 8, "A")
    SAME = Span(7, 8, "B")

    @pytest.mark.parametrize(
        ("span", "others", "expected"),
        [
            (OUTER, [INNER], "nested"), (INNER, [OUTER], "nested"), (APART, [SAME], "nested"),
            (OUTER, [ACROSS], "crossing"), (OUTER, [ACROSS, INNER], "nested"), (APART, [OUTER, INNER], "flat"),
            (APART, [], "flat"), (Span(4, 5, "A"), [OUTER], "flat"),
        ],
    )  # fmt: skip
    def test_by_hand(self, span, others, expected):
        assert classify_nesting(span, Sentence.from_words(list("abcdefgh"), [span, *others])) == expected

    def test_a_relation_has_the_first_nesting_of_its_arguments(self):
        triples = [Triple(self.APART, "Directed", self.INNER), Triple(self.APART, "Other", self.APART)]
        gold = Sentence.from_words(list("abcdefgh"), [self.OUTER, self.INNER, self.APART], triples)
        found = broken_down([(gold, gold)])["nesting"].tasks
        assert found["re_strict"] == {"nested": Counts(1, 1, 1), "crossing": Counts(), "flat": Counts(1, 1, 1)}
        assert found["ner"] == {"nested": Counts(2, 2, 2), "crossing": Counts(), "flat": Counts(1, 1, 1)}


class TestSeenTexts:
    TRAIN = Document.from_sentences([Sentence.from_words(["Hidden", "Markov", "models"], [Span(0, 2, "A")])])
    SENTENCE = Sentence.from_words(
        ["hidden", "MARKOV", "hidden"], [Span(0, 2, "A"), Span(0, 2, "B"), Span(1, 2, "A"), Span(2, 3, "A")]
    )

    @pytest.mark.parametrize(
        ("span", "expected"),
        [
            (Span(0, 2, "A"), "seen"),
            (Span(0, 2, "B"), "seen as another type"),
            (Span(1, 2, "A"), "unseen"),
            (Span(0, 3, "A"), "unseen"),
        ],
    )
    def test_entities(self, span, expected):
        assert SeenTexts([self.TRAIN]).find_entity_group(span, self.SENTENCE) == expected

    @pytest.mark.parametrize(
        ("head", "tail", "expected"), [(0, 1, "both seen"), (0, 2, "one seen"), (3, 1, "one seen"), (2, 3, "none seen")]
    )
    def test_relations(self, head, tail, expected):
        item = RelationItem("Directed", self.SENTENCE.entities[head], self.SENTENCE.entities[tail])
        assert SeenTexts([self.TRAIN]).find_relation_group(item, self.SENTENCE) == expected


def broken_down(pairs, **options):
    return {found.name: found for found in break_down(aligned(pairs), schema=SCHEMA, **options)}


def test_by_hand():
    # 12 words; an entity of one word and one of two, with three words between them.
    short, long, wrong = Span(0, 1, "A"), Span(4, 6, "A"), Span(9, 12, "B")
    gold = Sentence.from_words([f"w{i}" for i in range(12)], [short, long], [Triple(short, "Directed", long)])
    other = gold.annotated([short, wrong], [Triple(short, "Directed", wrong)])
    found = broken_down([(gold, other)])
    assert found["sentence_length"].tasks["ner"]["11–20"] == Counts(2, 2, 1)
    assert found["sentence_length"].tasks["re_strict"]["11–20"] == Counts(1, 1, 0)
    sizes = found["entity_length"].tasks
    assert (sizes["ner"]["1"], sizes["ner"]["2"], sizes["ner"]["3"]) == (Counts(1, 1, 1), Counts(1), Counts(0, 1))
    assert (sizes["re_strict"]["2"], sizes["re_strict"]["3"]) == (Counts(1), Counts(0, 1))
    distances = found["argument_distance"].tasks
    assert list(distances) == ["re_strict"]
    assert (distances["re_strict"]["3–5"], distances["re_strict"]["6–10"]) == (Counts(1), Counts(0, 1))
    record = found["argument_distance"].to_dict()
    assert json.loads(json.dumps(record)) == record
    assert [row["group"] for row in record["tasks"]["re_strict"]] == [
        "sharing words", "0", "1–2", "3–5", "6–10", "11–20", "21+",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "group"),
    [("a ( b )", "with brackets"), ("a -LRB- b", "with brackets"), ("f(x) b", "with brackets"),
     ("a ;-) b", "with brackets"), ("a [ b ]", "without brackets"), ("a b", "without brackets")],
)  # fmt: skip
def test_brackets(words, group):
    gold = Sentence.from_words(words.split(), [Span(0, 1, "A"), Span(1, 2, "B")])
    related = gold.annotated(gold.entities, [Triple(*gold.entities[:1], "Directed", gold.entities[1])])
    tasks = broken_down([(related, related)])["brackets"].tasks
    assert tasks["ner"][group] == Counts(2, 2, 2)
    assert tasks["re_strict"][group] == Counts(1, 1, 1)


@some
@given(any_pairs, policies, sentences())
def test_the_groups_add_up_to_the_scores(pairs, symmetric, training):
    whole = score([a for a, _ in pairs], [b for _, b in pairs], schema=SCHEMA, symmetric=symmetric)
    found = broken_down(pairs, symmetric=symmetric, training_documents=[Document.from_sentences([training])])
    assert tuple(found) == BREAKDOWNS
    for breakdown in found.values():
        for task, groups in breakdown.tasks.items():
            assert sum(groups.values(), Counts()) == getattr(whole, task).counts
