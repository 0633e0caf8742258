"""Strategies: what they prefer, and lazy selection against a literal one."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apps.annotation.units import make_unit, texts, units

from cascade_srn.apps.annotation.strategies import NEAR_DUPLICATE, STRATEGIES, NearDuplicates, rank_units
from cascade_srn.apps.annotation.units import Decision, shingles
from cascade_srn.types import Document, Sentence, Span


def best(pool, strategy, n=1, annotated=()):
    return texts([unit for unit, _ in rank_units(pool, strategy, n, annotated)])


def annotated_with(words, *spans):
    return Document.from_sentences([Sentence.from_words(words.split(), spans)])


def too_similar(words, taken):
    own = shingles(words)
    return any(len(own & shingles(t)) >= NEAR_DUPLICATE * len(own | shingles(t)) for t in taken)


@settings(max_examples=10)
@given(name=st.sampled_from(list(STRATEGIES)), pool=units(), n=st.integers(1, 12))
def test_lazy_selection_is_that_of_computing_all_gains_every_time(name, pool, n):
    strategy = STRATEGIES[name](pool)
    rest, expected = list(pool), []
    while rest and len(expected) < n:
        unit = min(rest, key=lambda unit: (-strategy.gain(unit), unit.place))
        rest.remove(unit)
        if strategy.removes_near_duplicates and too_similar(unit.words, [taken.words for taken, _ in expected]):
            continue
        expected.append((unit, strategy.gain(unit)))
        strategy.take(unit)
    ranked = rank_units(pool, name, n)
    assert [unit.place for unit, _ in ranked] == [unit.place for unit, _ in expected]
    assert [gain for _, gain in ranked] == pytest.approx([gain for _, gain in expected])


@settings(max_examples=10)
@given(name=st.sampled_from(list(STRATEGIES)), pool=units())
def test_gains_never_rise(name, pool):
    strategy = STRATEGIES[name](pool)
    for taken in pool:
        before = [strategy.gain(unit) for unit in pool]
        strategy.take(taken)
        assert all(strategy.gain(unit) <= gain + 1e-12 for unit, gain in zip(pool, before, strict=True))


def test_uncertainty_prefers_scores_near_the_threshold():
    sure = make_unit("a sure tagger works", Decision("Task", "tagger", 0.98, True), Decision("Task", "a", 0.01, False))
    unsure = make_unit("an unsure parser works", Decision("Task", "parser", 0.55, True))
    assert best([sure, unsure], "uncertainty", 2) == ["an unsure parser works", "a sure tagger works"]
    (_, gain), _ = rank_units([sure, unsure], "uncertainty", 2)
    assert gain == pytest.approx(0.45 / math.sqrt(4))


def test_length_alone_does_not_help():
    decision = Decision("Task", "tagging", 0.5, True)
    short, long = make_unit("tagging is done", decision), make_unit(" ".join(["tagging"] * 40), decision)
    assert best([long, short], "uncertainty") == [short.document.text]


def test_coverage_prefers_labels_without_annotations():
    frequent = make_unit("the tagger works well", Decision("Task", "tagger", 0.9, True))
    rare = make_unit("the speed is high", Decision("Metric", "speed", 0.5, True))
    assert best([frequent, rare], "coverage") == ["the tagger works well"]
    known = [annotated_with("a parser", Span(1, 2, "Task")) for _ in range(8)]
    assert best([frequent, rare], "coverage", annotated=known) == ["the speed is high"]


def test_coverage_counts_what_is_taken():
    tasks = [make_unit(f"task {number} of many", Decision("Task", f"{number}", 0.9, True)) for number in range(5)]
    metric = make_unit("the speed is high", Decision("Metric", "speed", 0.7, True))
    assert best([*tasks, metric], "coverage", 2)[1] == "the speed is high"


def test_combined_prefers_new_phrases():
    same = [
        make_unit(words, Decision("Task", "tagging", 0.5, True))
        for words in ("we like tagging much", "tagging is what helps")
    ]
    other = make_unit("parsing can be slow", Decision("Task", "parsing", 0.45, False))
    assert best([*same, other], "uncertainty", 2) == texts(same)
    assert best([*same, other], "combined", 2)[1] == "parsing can be slow"


def test_diversity_prefers_words_that_are_frequent_and_not_taken():
    pool = [
        make_unit(words, place=place)
        for place, words in enumerate(
            (
                "xyzzy qux quux corge",
                "the tagger reads news",
                "news the reads tagger",
                "we parse speech",
                "parse speech we",
            )
        )
    ]
    assert best(pool, "diversity", 5) == [*texts(pool[1::2]), *texts(pool[2::2]), pool[0].document.text]


def test_near_duplicates_are_taken_once():
    pool = [
        make_unit("table 1 shows the results of our system", place=1),
        make_unit("table 27 shows the results of our system", place=2),
        make_unit("nothing like the others at all here", place=3),
    ]
    assert len(best(pool, "diversity", 3)) == 2
    assert len(best(pool, "random", 3)) == 3
    known = [annotated_with("Table 3 shows the results of our system")]
    assert best(pool, "diversity", 3, known) == ["nothing like the others at all here"]


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=9), max_size=15))
def test_near_duplicates_are_those_of_comparing_all_pairs(sequences):
    index, taken = NearDuplicates(), []
    for words in sequences:
        new = not too_similar(words, taken)
        assert index.add(words) == new
        if new:
            taken.append(words)
