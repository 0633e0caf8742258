import random

import pytest

from cascade_srn.network.batch import corrupt
from cascade_srn.types import Span

RNG = random.Random(0)
LABELS = ("Metric", "Task", "Thing")
GOLD = [Span(0, 2, "Task"), Span(3, 4, "Thing"), Span(3, 6, "Metric"), Span(9, 10, "Task")]


def kinds(found):
    """Return which kinds of mistakes can be recognised from the spans."""
    kept = set(found) & set(GOLD)
    words = {(span.start, span.end) for span in GOLD}
    return {
        "missed": len(found) < len(GOLD),
        "retyped": any(span not in kept and (span.start, span.end) in words for span in found),
        "moved": any(
            abs(span.start - gold.start) + abs(span.end - gold.end) == 1 and span.label == gold.label
            for span in found
            for gold in GOLD
        ),
        "invented": len(found) > len(GOLD),
    }


def test_without_mistakes_the_entities_stay():
    assert corrupt(GOLD, 10, LABELS, 0.0, RNG) == sorted(GOLD)


def test_all_kinds_of_mistakes_are_made_and_all_spans_stay_within_the_sentence():
    RNG.seed(0)
    seen = dict.fromkeys(kinds(GOLD), 0)
    for _ in range(200):
        found = corrupt(GOLD, 10, LABELS, 1.0, RNG)
        assert found == sorted(set(found))
        assert all(0 <= span.start < span.end <= 10 and span.label in LABELS for span in found)
        for kind, is_there in kinds(found).items():
            seen[kind] += is_there
    assert all(count > 20 for count in seen.values()), seen


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_the_share_is_that_of_the_entities_with_a_mistake(share):
    RNG.seed(0)
    n = 2000
    kept = sum(len({*corrupt(GOLD[2:3], 10, LABELS, share, RNG)} & {GOLD[2]}) for _ in range(n)) / n
    # A quarter of the mistakes adds an entity and leaves this one; retyping may draw the same type again.
    assert kept == pytest.approx(1 - share * (0.75 - 0.25 / 3), abs=0.03)


def test_an_entity_that_fills_the_sentence_cannot_grow():
    RNG.seed(0)
    for _ in range(50):
        assert all(0 <= s.start < s.end <= 1 for s in corrupt([Span(0, 1, "Task")], 1, LABELS, 1.0, RNG))
