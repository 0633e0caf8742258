import json
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_srn.errors import AnnotationError, CascadeError, DataError
from cascade_srn.text.presplit import given_words
from cascade_srn.types import Document, Entity, Relation, Sentence, Span, Triple

CRF, TASK = Span(1, 2, "Method"), Span(3, 5, "Task")
SENTENCE = Sentence.from_words(
    ["A", "CRF", "for", "entity", "recognition"], [CRF, TASK], [Triple(CRF, "used-for", TASK)]
)


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (2, 2), (3, 2), (-2, -1)])
def test_a_span_that_is_empty_or_negative_is_refused(start, end):
    with pytest.raises(AnnotationError, match=rf"\[{start}, {end}\).*'X'"):
        Span(start, end, "X")


def test_scores_do_not_count_in_comparisons():
    assert Span(0, 1, "X", 0.2) == Span(0, 1, "X", 0.9) == Span(0, 1, "X")
    assert hash(Span(0, 1, "X", 0.2)) == hash(Span(0, 1, "X"))
    assert Triple(CRF, "r", TASK, 0.2) == Triple(CRF, "r", TASK)
    assert Entity(0, 1, "X", "a", 0.2) == Entity(0, 1, "X", "a", 0.3)
    head, tail = Entity(0, 1, "X"), Entity(2, 3, "X")
    assert Relation(head, "r", tail, 0.2) == Relation(head, "r", tail)


def test_a_sentence_needs_an_offset_for_each_word():
    with pytest.raises(AnnotationError, match=r"2 words.* 1 offsets"):
        Sentence(("a", "b"), ((0, 1),))


def test_an_entity_past_the_end_is_refused():
    with pytest.raises(AnnotationError, match=r"'X' at words \[1, 3\).*2 words"):
        Sentence.from_words(["a", "b"], [Span(1, 3, "X")])


def test_a_repeated_entity_is_refused_whatever_its_score():
    with pytest.raises(AnnotationError, match=r"'X' at words \[0, 1\)"):
        Sentence.from_words(["a", "b"], [Span(0, 1, "X", 0.1), Span(1, 2, "X"), Span(0, 1, "X", 0.2)])


def test_nested_crossing_and_same_span_entities_are_legal():
    entities = [Span(0, 3, "X"), Span(1, 2, "X"), Span(2, 4, "X"), Span(0, 3, "Y")]
    assert Sentence.from_words(["a", "b", "c", "d"], entities).entities == tuple(entities)


@pytest.mark.parametrize(("role", "triple"), [("head", Triple(CRF, "r", TASK)), ("tail", Triple(TASK, "r", CRF))])
def test_a_relation_to_something_that_is_no_entity_is_refused(role, triple):
    with pytest.raises(AnnotationError, match=rf"{role} of a relation 'r'.*'Method' at words \[1, 2\)"):
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


class TestInvalidWords:
    @pytest.mark.parametrize(
        ("given_words", "named"),
        [
            ("We train.", "'We train.'"), ("", "''"), (b"We", "b'We'"), (None, "None"), (["a", ""], "word 1 "),
            (["a", 3], "word 1 .* 3"), (["", None], "word 0 "), (["é", "\ud83d"], r"word 1 .*'\\ud83d'"),
        ],
    )  # fmt: skip
    def test_in_a_sentence(self, given_words, named):
        with pytest.raises(AnnotationError, match=named):
            Sentence.from_words(given_words)
        with pytest.raises(AnnotationError, match=rf"^sentence 1 of document 'd': .*{named}"):
            Document.from_words([["fine"], given_words], id="d")

    @pytest.mark.parametrize("sentences", ["We train a CRF.", 7])
    def test_in_a_document(self, sentences):
        with pytest.raises(AnnotationError, match=re.escape(repr(sentences))):
            Document.from_words(sentences)

    def test_any_iterable_of_words_is_valid(self):
        expected = Sentence(("We", "😀", "é"), ((0, 2), (3, 4), (5, 6)))
        assert Sentence.from_words(iter(["We", "😀", "é"])) == Sentence.from_words(("We", "😀", "é")) == expected


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
        ("xb cd", ((0, 2), (3, 5)), "ab", "xb"),
        ("ab cd", ((-5, -3), (3, 5)), "ab", "ab"),  # counted from the end
    ],
)
def test_words_that_do_not_match_the_text_are_refused(text, offsets, word, found):
    with pytest.raises(AnnotationError, match=rf"'{word}' of sentence 0 of document 'd' .*'{found}'"):
        Document(text, (Sentence(("ab", "cd"), offsets),), "d")


def test_sentences_out_of_order_are_refused():
    first, second = Sentence(("a",), ((0, 1),)), Sentence(("b",), ((2, 3),))
    assert Document("a b", (first, second)).sentences == (first, second)
    with pytest.raises(AnnotationError, match=r"'a' of sentence 1 .*\[0, 1\).* 3\b"):
        Document("a b", (second, first))


@pytest.mark.parametrize(("offsets", "at"), [(((3, 5), (0, 2)), 5), (((0, 2), (1, 3)), 2)])
def test_words_out_of_order_and_overlapping_words_are_refused(offsets, at):
    text = "cd ab"
    sentence = Sentence(tuple(text[a:b] for a, b in offsets), offsets)
    with pytest.raises(AnnotationError, match=f" ends at {at}\\b"):
        Document(text, (sentence,))


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


def scored(document):
    """A document with everything in it, scores included."""
    return [
        (s.words, s.offsets, [(e, e.score) for e in s.entities], [(t, t.score) for t in s.triples])
        for s in document.sentences
    ]


class TestAsDictionary:
    DOCUMENT = Document.from_sentences(
        [
            SENTENCE.annotated(
                [Span(3, 5, "Task", 0.25), Span(1, 2, "Method"), Span(1, 2, "Task", 1)],
                [Triple(Span(1, 2, "Task"), "used-for", TASK, 0.1 + 0.2), Triple(CRF, "used-for", TASK)],
            ),
            Sentence.from_words([]),
            SENTENCE,
        ],
        id="d 1",
    )

    def test_what_it_holds(self):
        record = self.DOCUMENT.to_dict()
        assert list(record) == ["id", "text", "sentences", "entities", "relations"]
        assert record["id"] == "d 1"
        assert record["sentences"][1:] == [[], [[30, 31], [32, 35], [36, 39], [40, 46], [47, 58]]]
        assert record["entities"][2:4] == [
            {"id": 2, "text": "CRF", "label": "Task", "start": 2, "end": 5, "score": 1.0},
            {"id": 3, "text": "CRF", "label": "Method", "start": 32, "end": 35, "score": None},
        ]
        assert record["relations"] == [
            {"head": 2, "tail": 0, "label": "used-for", "score": 0.1 + 0.2, "status": "asserted"},
            {"head": 1, "tail": 0, "label": "used-for", "score": None},
            {"head": 3, "tail": 4, "label": "used-for", "score": None},
        ]

    def test_it_comes_back_from_json_as_it_was(self):
        record = json.loads(json.dumps(self.DOCUMENT.to_dict()))
        again = Document.from_dict(record)
        assert again == self.DOCUMENT
        assert scored(again) == scored(self.DOCUMENT)
        assert again.to_dict() == record

    def test_annotations_and_id_may_be_left_out(self):
        assert Document.from_dict({"text": "a b", "sentences": [[[0, 1], [2, 3]]]}) == Document.from_words([["a", "b"]])

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ({"text": None}, "'text'"),
            ({"text": 3}, r"\btext\b.* 3"),
            ({"text": "\ud800"}, r"\btext\b.*ud800"),
            ({"sentences": None}, "'sentences'"),
            ({"sentences": [[[0, 99]]]}, r"sentences\[0\]\[0\] .*\[0, 99\].* 5\b"),
            ({"sentences": [[[0, 2]], [[1, 3]]]}, r"sentences\[1\]\[0\] "),
            ({"sentences": [[[0, 1, 2]]]}, r"\b3\b.*\b2\b"),
            ({"entitys": []}, "'entitys'.* 'entities'"),
            ({"entities": [{"start": 0, "end": 2, "label": "X", "name": "a"}]}, r"entities\[0\] .*'name'"),
            ({"entities": [{"id": 1, "start": 0, "end": 2, "label": "X"}]}, r"entities\[0\].id .*1.*0"),
            ({"entities": [{"start": 0, "end": 2, "label": "X", "text": "xy"}]}, "'xy'.*'ab'"),
            ({"entities": [{"start": 0, "end": 1, "label": "X"}]}, r"0.*1"),
            ({"entities": [{"start": 0, "end": 2, "label": " "}]}, r"entities\[0\].label .*' '"),
            ({"entities": [{"start": 0, "end": 2, "label": "X", "score": float("nan")}]}, r"entities\[0\].score .*nan"),
            ({"entities": [{"start": 0, "end": 2, "label": "X", "score": 7}]}, r"entities\[0\].score .*7"),
            ({"entities": [{"start": 0, "end": 2, "label": "X"}] * 2}, "'X'"),
            ({"entities": {}}, "entities .*{}"),
            ({"relations": [{"head": 0, "tail": 0, "label": "r"}]}, r"relations\[0\].*\b0\b"),
        ],
    )
    def test_invalid_values_are_named(self, change, named):
        record = {"id": "d", "text": "ab cd", "sentences": [[[0, 2], [3, 5]]]}
        with pytest.raises((DataError, AnnotationError), match=named):
            Document.from_dict(record | change)

    def test_relations_stay_in_their_sentence(self):
        entities = [{"start": 0, "end": 1, "label": "X"}, {"start": 2, "end": 3, "label": "X"}]
        record = {"text": "a b", "sentences": [[[0, 1]], [[2, 3]]], "entities": entities}
        with pytest.raises(DataError, match=r"\b0\b.*\b1\b"):
            Document.from_dict(record | {"relations": [{"head": 0, "tail": 1, "label": "r"}]})

    @pytest.mark.parametrize("record", [3, None, [], "text"])
    def test_it_must_be_a_dictionary(self, record):
        with pytest.raises(DataError, match=re.escape(repr(record))):
            Document.from_dict(record)

    def test_values_that_json_cannot_represent(self):
        endless = Sentence.from_words(["a"], [Span(0, 1, "X", float("inf"))])
        with pytest.raises(DataError, match=r"\binf\b"):
            Document.from_sentences([endless]).to_dict()
        beyond = Sentence.from_words(["a"], [Span(0, 1, "X", 7)])
        with pytest.raises(DataError, match=r"\b7\b"):
            Document.from_sentences([beyond]).to_dict()
        with pytest.raises(AnnotationError, match="document 'd'"):
            Document("ab", (Sentence(("a", "", "b"), ((0, 1), (1, 1), (1, 2))),), "d").to_dict()
        with pytest.raises(AnnotationError, match="document 'd'"):
            Document("\ud800", id="d").to_dict()

    @pytest.mark.parametrize("label", ["", " ", "\ud800", 3])
    def test_labels_that_cannot_be_read_back(self, label):
        good, bad = Span(0, 1, "X"), Span(1, 2, label)
        plain = Sentence.from_words(["a", "b"], [good])
        entities = Sentence.from_words(["a", "b"], [good, bad])
        with pytest.raises(DataError, match=r"^document 'd': entities\[2\]\.label"):
            Document.from_sentences([plain, entities], id="d").to_dict()
        relations = Sentence.from_words(["a", "b"], [good], [Triple(good, "r", good), Triple(good, label, good)])
        with pytest.raises(DataError, match=r"^document 'd': relations\[1\]\.label"):
            Document.from_sentences([plain, relations], id="d").to_dict()


@given(st.lists(annotated_sentences(), max_size=4), st.lists(st.floats(0, 1) | st.none(), min_size=1))
def test_any_document_comes_back_from_json_as_it_was(sentences, scores):
    given_scores = iter(scores * 50)
    rated = [
        s.annotated(
            [Span(e.start, e.end, e.label, next(given_scores)) for e in s.entities],
            [Triple(t.head, t.label, t.tail, next(given_scores)) for t in s.triples],
        )
        for s in sentences
    ]
    document = Document.from_sentences(rated, id="any")
    record = document.to_dict()
    again = Document.from_dict(json.loads(json.dumps(record)))
    assert scored(again) == scored(document)
    assert again.to_dict() == record


class TestFromText:
    def test_the_packages_own_segmenter(self):
        document = Document.from_text("A CRF. It isn't new.", id="d")
        assert [sentence.words for sentence in document.sentences] == [
            ("A", "CRF", "."),
            ("It", "is", "n't", "new", "."),
        ]
        assert document.id == "d"

    @pytest.mark.parametrize("word", [(0, 0), (2, 1), (-1, 1), (1, 4)])
    def test_a_segmenter_with_words_outside_the_text(self, word):
        with pytest.raises(AnnotationError, match=rf"\[{word[0]}, {word[1]}\) in sentence 1\b"):
            Document.from_text("abc", segmenter=lambda text: [[], [word]])

    def test_a_segmenter_with_words_out_of_order(self):
        with pytest.raises(AnnotationError, match=r"\[0, 1\).* 2\b"):
            Document.from_text("abc", segmenter=lambda text: [[(1, 2)], [(0, 1)]])


class TestCoverage:
    def test_whitespace_does_not_count(self):
        covered = Document.from_text(" A\u00a0CRF.\n\n\tIt works. ").coverage
        assert (covered.complete, covered.share, covered.missed) == (True, 1.0, ())
        assert covered.n_characters == covered.n_covered == len("ACRF.Itworks.")

    def test_missed_characters(self):
        covered = Document.from_text("ab, cd  e f", segmenter=given_words([[(0, 2)], [(4, 6)]])).coverage
        assert covered.missed == ((2, 3), (8, 11))
        assert not covered.complete
        assert (covered.n_characters, covered.n_covered) == (7, 4)
        assert covered.share == 4 / 7


class TestGraph:
    def test_entities_are_nodes_and_relations_edges(self):
        pytest.importorskip("networkx")
        triples = [Triple(CRF, "used-for", TASK, 0.5), Triple(CRF, "part-of", TASK), Triple(TASK, "used-for", CRF)]
        document = Document.from_sentences([SENTENCE, SENTENCE.annotated([CRF, TASK], triples)], id="d")
        graph = document.to_networkx()
        assert graph.graph == {"id": "d", "text": document.text}
        assert graph.nodes[3] == {"text": "entity recognition", "label": "Task", "start": 39, "end": 57}
        assert [(h, t, d["label"], d.get("score")) for h, t, d in graph.edges(data=True)] == [
            (0, 1, "used-for", None),
            (2, 3, "used-for", 0.5),
            (2, 3, "part-of", None),
            (3, 2, "used-for", None),
        ]

    def test_without_networkx(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "networkx", None)
        with pytest.raises(CascadeError, match=r"networkx.*cascade-srn\[graph\]"):
            Document("").to_networkx()


class TestSentenceText:
    def test_text_is_that_of_the_document(self):
        document = Document.from_text("A  CRF\nworks. It  wins.")
        first, second = document.sentences
        assert (first.text, second.text) == ("A  CRF\nworks.", "It  wins.")
        assert (second.start, second.end) == (14, 23)
        assert second.annotated([], []).text == "It  wins."

    def test_without_document_words_are_joined(self):
        sentence = Sentence(("A", "CRF", "."), ((3, 4), (6, 9), (9, 10)))
        assert (sentence.text, sentence.start, sentence.end) == ("A  CRF.", 3, 10)

    def test_one_sentence_in_two_documents(self):
        sentence = Sentence(("A", "CRF"), ((0, 1), (2, 5)))
        one, two = Document("A CRF", (sentence,)), Document("A\nCRF", (sentence,))
        assert (one.sentences[0].text, two.sentences[0].text) == ("A CRF", "A\nCRF")
        assert one.sentences == two.sentences

    def test_relation_has_its_sentence(self):
        document = Document.from_sentences([Sentence.from_words(["Well"]), SENTENCE])
        (relation,) = document.relations
        assert relation.sentence is document.sentences[1]
        assert relation == Relation(relation.head, relation.label, relation.tail)


def test_predictions_make_the_sentence_that_annotations_make():
    sentence = Sentence.from_words(["a", "b", "c"], escaped=["a", "b", "-LRB-"]).with_source("a b c")
    spans = [Span(0, 1, "X", 0.5), Span(1, 3, "Y", 0.25)]
    triples = [Triple(spans[0], "r", spans[1], 0.1)]
    found, expected = sentence.with_predictions(iter(spans), iter(triples)), sentence.annotated(spans, triples)
    assert found == expected
    assert (found.escaped, found.source) == (expected.escaped, expected.source)
    assert [entity.score for entity in found.entities] == [0.5, 0.25]
