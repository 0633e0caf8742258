"""Hypothesis strategies for pairs of annotations of the same words."""

from hypothesis import settings
from hypothesis import strategies as st

from cascade_srn.evaluation import SYMMETRIC_POLICIES
from cascade_srn.evaluation.items import align
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span, Triple

SCHEMA = Schema(("A", "B"), ("Directed", "Other", "Same"), symmetric=frozenset({"Same"}))
N_WORDS = 5
WORDS = tuple(f"w{i}" for i in range(N_WORDS))
some = settings()
policies = st.sampled_from(SYMMETRIC_POLICIES)


@st.composite
def spans(draw, scored=False):
    start = draw(st.integers(0, N_WORDS - 1))
    score = draw(st.floats(0, 1)) if scored else None
    return Span(start, draw(st.integers(start + 1, N_WORDS)), draw(st.sampled_from(SCHEMA.entity_types)), score)


@st.composite
def sentences(draw, one_label_a_span=False, scored=False):
    unique_by = (lambda span: (span.start, span.end)) if one_label_a_span else (lambda span: span)
    entities = draw(st.lists(spans(scored), max_size=5, unique_by=unique_by))
    triples = []
    if entities:
        entity = st.sampled_from(entities)
        score = st.floats(0, 1) if scored else st.none()
        label = st.sampled_from(SCHEMA.relation_types)
        triples = draw(st.lists(st.builds(Triple, entity, label, entity, score), max_size=6))
    return Sentence.from_words(WORDS, entities, triples)


@st.composite
def near(draw, gold):
    """A prediction close to gold, with entities and relations removed, renamed, reversed or added."""
    other = draw(sentences())
    entities = list(dict.fromkeys([*(e for e in gold.entities if draw(st.booleans())), *other.entities]))
    kept = [t for t in gold.triples if t.head in entities and t.tail in entities]
    triples = [t if draw(st.booleans()) else Triple(t.tail, t.label, t.head) for t in kept if draw(st.booleans())]
    return gold.annotated(entities, [*triples, *other.triples])


@st.composite
def close_pairs(draw):
    """A gold sentence and a prediction close to it."""
    gold = draw(sentences())
    return gold, draw(near(gold))


def pairs(**options):
    return st.lists(st.tuples(sentences(**options), sentences(**options)), max_size=3)


any_pairs = st.lists(st.one_of(close_pairs(), st.tuples(sentences(), sentences(scored=True))), max_size=3)


def aligned(pairs):
    return list(align([gold for gold, _ in pairs], [other for _, other in pairs]))


def documents(pairs):
    """Gold and predicted documents with one sentence each."""
    return tuple([Document.from_sentences([p[side]], id=f"d{i}") for i, p in enumerate(pairs)] for side in (0, 1))
