"""Sentences that are hard to draw."""

from hypothesis import strategies as st

from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span, Triple

SCHEMA = Schema(("Method", "Task", "Material"), ("USED-FOR", "PART-OF", "COMPARE"), frozenset({"COMPARE"}))


def sentence(words, entities=(), triples=()):
    """Return a sentence of a string, entities (start, end, label) and triples (head position, label, tail position)."""
    spans = [Span(*entity) for entity in entities]
    return Sentence.from_words(words.split(), spans, [Triple(spans[h], r, spans[t], 0.875) for h, r, t in triples])


PLAIN = sentence("We train a CRF for tagging .", [(3, 4, "Method", 0.934), (5, 6, "Task")], [(0, "USED-FOR", 1)])
NESTED = sentence(
    "The University of Berlin in Germany and more",
    [(1, 4, "Method"), (3, 4, "Task"), (1, 4, "Material"), (2, 6, "Task"), (5, 6, "Method")],
    [(0, "PART-OF", 1), (1, "USED-FOR", 4), (0, "USED-FOR", 4), (0, "COMPARE", 4), (0, "PART-OF", 0)],
)
PARALLEL = sentence(
    "a x y z b",
    [(0, 1, "Method"), (4, 5, "Task")],
    [(0, "USED-FOR", 1), (1, "USED-FOR", 0), (0, "PART-OF", 1), (0, "COMPARE", 1)],
)
HOSTILE = sentence(
    '<script>alert(1)</script> & "quoted" </noscript><b>', [(0, 1, "<b>L</b>"), (2, 4, "\"'>Task")], [(0, "<i>rel", 1)]
)
RIGHT_TO_LEFT = sentence(
    "המודל החדש פותח על ידי חוקרים בירושלים ביחד עם IBM",
    [(0, 2, "Method"), (5, 6, "Task"), (6, 7, "Material"), (9, 10, "Method")],
    [(0, "USED-FOR", 1), (2, "PART-OF", 3), (3, "COMPARE", 0)],
)
MIXED = sentence(
    "An English sentence with שלום עולם in the middle and https://example.org/a/very/long/path/that/never/ends/at/all/"
    "and/goes/on/and/on .",
    [(4, 6, "Task"), (10, 11, "Material")],
    [(0, "USED-FOR", 1), (1, "COMPARE", 0)],
)
LONG_ENTITY = sentence(
    "we show " + "long " * 20 + "entities are broken",
    [(2, 22, "Method"), (4, 6, "Task"), (23, 25, "Material")],
    [(0, "USED-FOR", 2), (1, "PART-OF", 0)],
)
EMPTY = Sentence.from_words([])
ALL = (PLAIN, NESTED, PARALLEL, HOSTILE, RIGHT_TO_LEFT, MIXED, LONG_ENTITY, EMPTY)
DOCUMENT = Document.from_sentences(ALL, id="hard <cases>")


@st.composite
def sentences(draw):
    """Generate sentences with nested and overlapping entities and arbitrary relations."""
    n_words = draw(st.integers(1, 14))
    words = draw(
        st.lists(st.sampled_from(["a", "word", "considerably", "語語", "."]), min_size=n_words, max_size=n_words)
    )
    spans = st.tuples(st.integers(0, n_words - 1), st.integers(1, 8), st.sampled_from(SCHEMA.entity_types))
    entities = draw(st.lists(spans.map(lambda s: Span(s[0], min(n_words, s[0] + s[1]), s[2])), max_size=6, unique=True))
    triples = []
    if entities:
        ends = st.sampled_from(entities)
        triples = draw(st.lists(st.builds(Triple, ends, st.sampled_from(SCHEMA.relation_types), ends), max_size=7))
    return Sentence.from_words(words, entities, triples)
