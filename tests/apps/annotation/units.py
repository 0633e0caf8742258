"""Units with given words and decisions, and random ones for hypothesis."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from cascade_srn.apps.annotation.units import Decision, Unit
from cascade_srn.types import Document


def make_unit(text: str, *decisions: Decision, place: int = 0) -> Unit:
    """Return a sentence with decisions."""
    return Unit(Document.from_words([text.split()]), 0, 0, place, decisions)


def texts(units: Sequence[Unit]) -> list[str]:
    """Return the texts of units."""
    return [unit.document.text for unit in units]


_DECISIONS = st.builds(
    Decision,
    st.sampled_from(("Task", "Metric", "used-for")),
    st.sampled_from(("tagging", "parsing", "speed")),
    st.floats(0, 1),
    st.booleans(),
)
_WORDS = st.lists(st.sampled_from(("a", "fast", "tagger", "parses", "text", "12")), min_size=1, max_size=8)


@st.composite
def units(draw: st.DrawFn) -> list[Unit]:
    """Return up to 12 units of few different words, all at different places."""
    found = draw(st.lists(st.tuples(_WORDS, st.lists(_DECISIONS, max_size=4)), min_size=1, max_size=12))
    return [make_unit(" ".join(words), *own, place=place) for place, (words, own) in enumerate(found)]
