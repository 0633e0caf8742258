from hypothesis import given, settings
from hypothesis import strategies as st
from tests.characters import ANY_CHARACTER

from cascade_srn.formats.registry import read_documents, write_documents
from cascade_srn.types import Document, Sentence, Span, Triple

LABELS = st.text(ANY_CHARACTER, min_size=1, max_size=5).filter(str.strip)
SCORES = st.none() | st.floats(0, 1)


@st.composite
def sentences(draw, text, bounds):
    words = tuple(zip(bounds[::2], bounds[1::2], strict=True))
    if not words:
        return Sentence((), ())
    positions = st.tuples(st.integers(0, len(words) - 1), st.integers(1, len(words)))
    found = draw(st.lists(st.tuples(positions.filter(lambda p: p[0] < p[1]), LABELS), max_size=4, unique=True))
    entities = [Span(start, end, label, draw(SCORES)) for (start, end), label in found]
    pairs = st.tuples(st.sampled_from(entities or [None]), st.sampled_from(entities or [None]))
    triples = [
        Triple(h, draw(LABELS), t, draw(SCORES)) for h, t in draw(st.lists(pairs, max_size=3 if entities else 0))
    ]
    return Sentence(tuple(text[a:b] for a, b in words), words, tuple(entities), tuple(triples))


@st.composite
def documents(draw):
    text = draw(st.text(ANY_CHARACTER, max_size=40))
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=len(text) + 1)))
    made, at = [], 0
    for _ in range(draw(st.integers(0, 3))):
        n_words = draw(st.integers(0, (len(cuts) - at) // 2))
        made.append(draw(sentences(text, cuts[at : at + 2 * n_words])))
        at += 2 * n_words
    return Document(text, tuple(made), draw(st.text(ANY_CHARACTER, max_size=8)))


def everything(document):
    """Return the content of a document with the scores, which equality ignores."""
    spans = [[(e, e.score) for e in s.entities] for s in document.sentences]
    triples = [[(t, t.score, t.head.score, t.tail.score) for t in s.triples] for s in document.sentences]
    return document, spans, triples


@settings(deadline=None)
@given(st.lists(documents(), min_size=1, max_size=3))
def test_documents_come_back_as_they_were(tmp_path_factory, given_documents):
    path = tmp_path_factory.mktemp("property") / "out.jsonl"
    write_documents(given_documents, path)
    assert [everything(d) for d in read_documents(path)] == [everything(d) for d in given_documents]
