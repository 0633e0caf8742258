import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_srn.errors import AnnotationError
from cascade_srn.types import Document, Entity, Relation, Sentence, Span, Triple

CRF, TASK = Span(1, 2, "Method"), Span(3, 5, "Task")
SENTENCE = Sentence.from_words(
    ["A", "CRF", "for", "entity", "recognition"], [CRF, TASK], [Triple(CRF, "used-for", TASK)]
)


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (2, 2), (3, 2), (-2, -1)])
def test_a_span_that_is_empty_or_negative_is_refused(start, end):
    with pytest.raises(AnnotationError, match=rf"the word span \[{start}, {end}\) of label 'X' is empty or negative"):
        Span(start, end, "X")


def test_scores_are_no_part_of_the_identity():
    assert Span(0, 1, "X", 0.2) == Span(0, 1, "X", 0.9) == Span(0, 1, "X")
    assert hash(Span(0, 1, "X", 0.2)) == hash(Span(0, 1, "X"))
    assert Triple(CRF, "r", TASK, 0.2) == Triple(CRF, "r", TASK)
    assert Entity(0, 1, "X", "a", 0.2) == Entity(0, 1, "X", "a", 0.3)
    head, tail = Entity(0, 1, "X"), Entity(2, 3, "X")
    assert Relation(head, "r", tail, 0.2) == Relation(head, "r", tail)


@pytest.mark.parametrize("other", [Span(1, 2, "X"), Span(0, 2, "X"), Span(0, 1, "Y")])
def test_words_and_label_are_the_identity(other):
    assert Span(0, 1, "X") != other


def test_a_sentence_needs_an_offset_for_each_word():
    with pytest.raises(AnnotationError, match=r"a sentence of 2 words has 1 offsets; give one pair a word"):
        Sentence(("a", "b"), ((0, 1),))


def test_an_entity_past_the_end_is_refused():
    with pytest.raises(AnnotationError, match=r"the entity 'X' at words \[1, 3\) ends past the sentence's 2 words"):
        Sentence.from_words(["a", "b"], [Span(1, 3, "X")])


def test_a_repeated_entity_is_refused_whatever_its_score():
    with pytest.raises(AnnotationError, match=r"the entity 'X' at words \[0, 1\) is given twice; remove the repeat"):
        Sentence.from_words(["a", "b"], [Span(0, 1, "X", 0.1), Span(1, 2, "X"), Span(0, 1, "X", 0.2)])


def test_nested_crossing_and_same_span_entities_are_legal():
    entities = [Span(0, 3, "X"), Span(1, 2, "X"), Span(2, 4, "X"), Span(0, 3, "Y")]
    assert Sentence.from_words(["a", "b", "c", "d"], entities).entities == tuple(entities)


@pytest.mark.parametrize(("role", "triple"), [("head", Triple(CRF, "r", TASK)), ("tail", Triple(TASK, "r", CRF))])
def test_a_relation_to_something_that_is_no_entity_is_refused(role, triple):
    message = rf"the {role} of a relation 'r', 'Method' at words \[1, 2\), is not among the sentence's entities"
    with pytest.raises(AnnotationError, match=message):
        SENTENCE.annotated([TASK], [triple])


def test_a_repeated_relation_is_kept():
    triples = [Triple(CRF, "used-for", TASK)] * 2
    sentence = SENTENCE.annotated(SENTENCE.entities, triples)
    assert sentence.triples == tuple(triples)
    assert len(Document.from_sentences([sentence]).relations) == 2


def test_from_words_joins_by_single_spaces():
    sentence = Sentence.from_words(["ab", "c", "def"], at=10)
    assert sentence.offsets == ((10, 12), (13, 14), (15, 18))
    assert len(sentence) == 3


def test_annotated_keeps_the_words():
    bare = SENTENCE.annotated([], [])
    assert (bare.words, bare.offsets) == (SENTENCE.words, SENTENCE.offsets)
    assert (bare.entities, bare.triples) == ((), ())


def test_a_document_from_sentences_is_one_sentence_a_line():
    document = Document.from_sentences([SENTENCE, Sentence.from_words(["It", "works"], [Span(1, 2, "X")])], id="d")
    assert document.text == "A CRF for entity recognition\nIt works"
    assert document.id == "d"
    assert [(e.start, e.end, e.label, e.text) for e in document.entities] == [
        (2, 5, "Method", "CRF"),
        (10, 28, "Task", "entity recognition"),
        (32, 37, "X", "works"),
    ]


def test_sentences_without_words_are_legal_anywhere():
    document = Document.from_words([[], ["a", "b"], [], [], ["c"], []])
    assert document.text == "\na b\n\n\nc\n"
    assert [sentence.offsets for sentence in document.sentences] == [(), ((1, 2), (3, 4)), (), (), ((7, 8),), ()]
    assert Document("").sentences == ()
    assert Document.from_words([]).entities == ()


@pytest.mark.parametrize(
    ("text", "offsets", "word", "found"),
    [
        ("ab cd", ((0, 2), (2, 4)), "cd", " c"),  # one to the left
        ("ab cd", ((0, 2), (3, 9)), "cd", "cd"),  # past the end of the text
        ("cd ab", ((3, 5), (0, 2)), "cd", "cd"),  # offsets that fall
        ("xb cd", ((0, 2), (3, 5)), "ab", "xb"),
    ],
)
def test_words_that_do_not_match_the_text_are_refused(text, offsets, word, found):
    message = rf"word '{word}' of sentence 0 of document 'd' is said to stand at .*, where the text has '{found}'"
    with pytest.raises(AnnotationError, match=message):
        Document(text, (Sentence(("ab", "cd"), offsets),), "d")


def test_sentences_out_of_order_are_refused():
    first, second = Sentence(("a",), ((0, 1),)), Sentence(("b",), ((2, 3),))
    assert Document("a b", (first, second)).sentences == (first, second)
    with pytest.raises(AnnotationError, match=r"word 'a' of sentence 1 .* give offsets that rise and match the text"):
        Document("a b", (second, first))


def test_relations_are_between_the_documents_own_entities():
    scored = Span(1, 2, "Method", 0.7), Span(3, 5, "Task", 0.8)
    sentence = SENTENCE.annotated(scored, [Triple(CRF, "used-for", TASK, 0.5)])  # the triple's spans have no score
    document = Document.from_sentences([Sentence.from_words(["Hm"]), sentence, sentence])
    assert len(document.entities) == 4
    for relation, (head, tail) in zip(document.relations, [(0, 1), (2, 3)], strict=True):
        assert relation.head is document.entities[head]
        assert relation.tail is document.entities[tail]
        assert (relation.label, relation.score) == ("used-for", 0.5)
        assert (relation.head.text, relation.head.score, relation.tail.score) == ("CRF", 0.7, 0.8)


words = st.text(alphabet="abß✓é-", min_size=1, max_size=4)


@st.composite
def annotated_sentences(draw):
    found = draw(st.lists(words, max_size=6))
    n = len(found)
    spans = st.tuples(st.integers(0, max(n - 1, 0)), st.integers(1, 4), st.sampled_from("XY"))
    drawn = draw(st.lists(spans, max_size=4)) if n else []
    entities = list(dict.fromkeys(Span(start, min(start + size, n), label) for start, size, label in drawn))
    ends = st.sampled_from(entities) if entities else st.nothing()
    triples = draw(st.lists(st.builds(Triple, ends, st.just("r"), ends), max_size=3))
    return Sentence.from_words(found, entities, triples)


@given(st.lists(annotated_sentences(), max_size=4))
def test_character_offsets_show_the_entities_words(sentences):
    document = Document.from_sentences(sentences)
    spans = [(sentence, span) for sentence in sentences for span in sentence.entities]
    for entity, (sentence, span) in zip(document.entities, spans, strict=True):
        assert document.text[entity.start : entity.end] == entity.text
        assert entity.text == " ".join(sentence.words[span.start : span.end])
        assert entity.label == span.label
    triples = [(sentence, triple) for sentence in sentences for triple in sentence.triples]
    for relation, (sentence, triple) in zip(document.relations, triples, strict=True):
        assert relation.head.text == " ".join(sentence.words[triple.head.start : triple.head.end])
        assert relation.tail in document.entities
