import json
import sys
from enum import StrEnum

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


def test_a_repeated_entity_is_found_without_holding_each_against_all():
    n_compared = 0

    class Counted(Span):
        __slots__ = ()
        __hash__ = Span.__hash__

        def __eq__(self, other):
            nonlocal n_compared
            n_compared += 1
            return super().__eq__(other)

    spans = [Counted(0, 1, str(number)) for number in range(500)]
    with pytest.raises(AnnotationError, match="the entity '499' at words .* is given twice"):
        Sentence.from_words(["a"], [*spans, Counted(0, 1, "499")])
    assert n_compared < 2 * len(spans)


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


class TestWordsThatAreNone:
    """What is no list of words is refused, and not taken apart."""

    @pytest.mark.parametrize(
        ("given_words", "message"),
        [
            ("We train.", "^the words of a sentence are 'We train.', but a list of words was expected; give a list of"),
            ("", "^the words of a sentence are '', but a list of words was expected"),
            (b"We", "^the words of a sentence are b'We', but a list of words was expected"),
            (None, "^the words of a sentence are None, but a list of words was expected"),
            (["a", ""], "^word 1 of a sentence is '', but a word of one character or more was expected; remove it"),
            (["a", 3], "^word 1 of a sentence is 3, but a string was expected; give every word as a string"),
            (["", None], "^word 0 of a sentence is ''"),
            (["é", "\ud83d"], r"^word 1 of a sentence is '\\ud83d', which holds half a surrogate pair; write the"),
        ],
    )
    def test_of_a_sentence(self, given_words, message):
        with pytest.raises(AnnotationError, match=message):
            Sentence.from_words(given_words)
        inner = message.removeprefix("^")
        with pytest.raises(AnnotationError, match=rf"^sentence 1 of document 'd': {inner}"):
            Document.from_words([["fine"], given_words], id="d")

    @pytest.mark.parametrize("sentences", ["We train a CRF.", 7])
    def test_of_a_document(self, sentences):
        message = rf"the sentences are {sentences!r}, but a list of lists of words was expected; give a text to"
        with pytest.raises(AnnotationError, match=message):
            Document.from_words(sentences)

    def test_a_long_text_is_told_in_short(self):
        with pytest.raises(AnnotationError) as caught:
            Sentence.from_words("word " * 10_000)
        assert len(str(caught.value)) < 250

    def test_anything_that_gives_words_will_do(self):
        expected = Sentence(("We", "😀", "é"), ((0, 2), (3, 4), (5, 6)))
        assert Sentence.from_words(iter(["We", "😀", "é"])) == Sentence.from_words(("We", "😀", "é")) == expected


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
        ("xb cd", ((0, 2), (3, 5)), "ab", "xb"),
        ("ab cd", ((-5, -3), (3, 5)), "ab", "ab"),  # counted from the end
    ],
)
def test_words_that_do_not_match_the_text_are_refused(text, offsets, word, found):
    message = rf"word '{word}' of sentence 0 of document 'd' is said to stand at .*, where the text has '{found}'"
    with pytest.raises(AnnotationError, match=message):
        Document(text, (Sentence(("ab", "cd"), offsets),), "d")


def test_sentences_out_of_order_are_refused():
    first, second = Sentence(("a",), ((0, 1),)), Sentence(("b",), ((2, 3),))
    assert Document("a b", (first, second)).sentences == (first, second)
    message = r"word 'a' of sentence 1 .* at characters \[0, 1\), before the previous word's end at 3; give offsets"
    with pytest.raises(AnnotationError, match=message):
        Document("a b", (second, first))


@pytest.mark.parametrize(("offsets", "at"), [(((3, 5), (0, 2)), 5), (((0, 2), (1, 3)), 2)])
def test_words_out_of_order_or_over_each_other_are_told_as_such(offsets, at):
    text = "cd ab"
    sentence = Sentence(tuple(text[a:b] for a, b in offsets), offsets)
    with pytest.raises(AnnotationError, match=f"before the previous word's end at {at}; give offsets that rise"):
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
            {"head": 2, "tail": 0, "label": "used-for", "score": 0.1 + 0.2},
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
        ("change", "message"),
        [
            ({"text": None}, "the record is .* without the field 'text'"),
            ({"text": 3}, "text is 3, but a string was expected"),
            ({"text": "\ud800"}, "text is .*, which holds half a surrogate pair"),
            ({"sentences": None}, "without the field 'sentences'"),
            ({"sentences": [[[0, 99]]]}, r"sentences\[0\]\[0\] is \[0, 99\], but offsets from 0 to 5 were expected"),
            (
                {"sentences": [[[0, 2]], [[1, 3]]]},
                r"sentences\[1\]\[0\] is .*, which starts before the previous word's end",
            ),
            ({"sentences": [[[0, 1, 2]]]}, "a list of 3, but 2 items were expected"),
            ({"entitys": []}, "the record has an unknown key 'entitys'. Did you mean 'entities'?"),
            (
                {"entities": [{"start": 0, "end": 2, "label": "X", "name": "a"}]},
                r"entities\[0\] has an unknown key 'name'",
            ),
            ({"entities": [{"id": 1, "start": 0, "end": 2, "label": "X"}]}, r"entities\[0\].id is 1, but 0, its place"),
            (
                {"entities": [{"start": 0, "end": 2, "label": "X", "text": "xy"}]},
                "says its text is 'xy', but 'ab' stands",
            ),
            ({"entities": [{"start": 0, "end": 1, "label": "X"}]}, "does not start and end on word boundaries"),
            ({"entities": [{"start": 0, "end": 2, "label": " "}]}, "but the name of a type was expected"),
            (
                {"entities": [{"start": 0, "end": 2, "label": "X", "score": float("nan")}]},
                "a finite number was expected",
            ),
            (
                {"entities": [{"start": 0, "end": 2, "label": "X", "score": 7}]},
                r"entities\[0\].score is 7, but a score from 0 to 1 was expected",
            ),
            ({"entities": [{"start": 0, "end": 2, "label": "X"}] * 2}, "a second time"),
            ({"entities": {}}, "entities is {}, but a list was expected"),
            ({"relations": [{"head": 0, "tail": 0, "label": "r"}]}, "but an index of one of the 0 listed was expected"),
        ],
    )
    def test_what_is_wrong_is_said_with_its_place(self, change, message):
        record = {"id": "d", "text": "ab cd", "sentences": [[[0, 2], [3, 5]]]}
        with pytest.raises((DataError, AnnotationError), match=message):
            Document.from_dict(record | change)

    def test_relations_stay_in_their_sentence(self):
        entities = [{"start": 0, "end": 1, "label": "X"}, {"start": 2, "end": 3, "label": "X"}]
        record = {"text": "a b", "sentences": [[[0, 1]], [[2, 3]]], "entities": entities}
        with pytest.raises(DataError, match="whose head is in sentence 0 and tail in sentence 1"):
            Document.from_dict(record | {"relations": [{"head": 0, "tail": 1, "label": "r"}]})

    @pytest.mark.parametrize("record", [3, None, [], "text"])
    def test_it_must_be_a_dictionary(self, record):
        with pytest.raises(DataError, match="the document's dictionary: the record is .*, but a JSON object was"):
            Document.from_dict(record)

    def test_what_json_cannot_hold(self):
        endless = Sentence.from_words(["a"], [Span(0, 1, "X", float("inf"))])
        with pytest.raises(DataError, match="the score inf is no finite number, which JSON cannot hold"):
            Document.from_sentences([endless]).to_dict()
        beyond = Sentence.from_words(["a"], [Span(0, 1, "X", 7)])
        with pytest.raises(DataError, match="the score 7 is not from 0 to 1, and would not be read back"):
            Document.from_sentences([beyond]).to_dict()
        with pytest.raises(AnnotationError, match="document 'd' has an empty word, which no offsets can tell"):
            Document("ab", (Sentence(("a", "", "b"), ((0, 1), (1, 1), (1, 2))),), "d").to_dict()
        with pytest.raises(AnnotationError, match="document 'd' holds half a surrogate pair"):
            Document("\ud800", id="d").to_dict()

    @pytest.mark.parametrize(
        ("label", "message"),
        [
            ("", "is '', but the name of a type was expected; name the type"),
            (" ", "is ' ', but the name of a type was expected; name the type"),
            ("\ud800", "is .*, which holds half a surrogate pair; write the whole character or leave it out"),
            (3, "is 3, but a string was expected"),
        ],
    )
    def test_labels_that_would_not_be_read_back(self, label, message):
        good, bad = Span(0, 1, "X"), Span(1, 2, label)
        plain = Sentence.from_words(["a", "b"], [good])
        entities = Sentence.from_words(["a", "b"], [good, bad])
        with pytest.raises(DataError, match=rf"^document 'd': entities\[2\]\.label {message}"):
            Document.from_sentences([plain, entities], id="d").to_dict()
        relations = Sentence.from_words(["a", "b"], [good], [Triple(good, "r", good), Triple(good, label, good)])
        with pytest.raises(DataError, match=rf"^document 'd': relations\[1\]\.label {message}"):
            Document.from_sentences([plain, relations], id="d").to_dict()

    def test_labels_may_be_members_of_an_enumeration(self):
        class Label(StrEnum):
            TASK = "Task"

        record = Document.from_sentences([Sentence.from_words(["a"], [Span(0, 1, Label.TASK)])], id="d").to_dict()
        assert json.loads(json.dumps(record))["entities"][0]["label"] == "Task"


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
    def test_a_segmenter_that_leaves_the_text(self, word):
        message = rf"the segmenter puts a word of sentence 1 at characters \[{word[0]}, {word[1]}\), which is empty or"
        with pytest.raises(AnnotationError, match=message):
            Document.from_text("abc", segmenter=lambda text: [[], [word]])

    def test_a_segmenter_that_goes_back(self):
        with pytest.raises(AnnotationError, match="give offsets that rise"):
            Document.from_text("abc", segmenter=lambda text: [[(1, 2)], [(0, 1)]])


class TestCoverage:
    def test_everything_but_white_space_lies_in_words(self):
        covered = Document.from_text(" A\u00a0CRF.\n\n\tIt works. ").coverage
        assert (covered.complete, covered.share, covered.missed) == (True, 1.0, ())
        assert covered.n_characters == covered.n_covered == len("ACRF.Itworks.")

    def test_what_is_missed_is_told(self):
        covered = Document.from_text("ab, cd  e f", segmenter=given_words([[(0, 2)], [(4, 6)]])).coverage
        assert covered.missed == ((2, 3), (8, 11))
        assert not covered.complete
        assert (covered.n_characters, covered.n_covered) == (7, 4)
        assert covered.share == 4 / 7

    def test_nothing_is_covered_by_nothing(self):
        assert Document(" \n").coverage.share == 1.0
        assert Document(" x ").coverage.missed == ((1, 2),)
        assert Document(" x ").coverage.share == 0.0


class TestGraph:
    def test_entities_are_nodes_and_relations_edges(self):
        pytest.importorskip("networkx")
        triples = [Triple(CRF, "used-for", TASK, 0.5), Triple(CRF, "part-of", TASK), Triple(TASK, "used-for", CRF)]
        document = Document.from_sentences([SENTENCE, SENTENCE.annotated([CRF, TASK], triples)], id="d")
        graph = document.to_networkx()
        assert graph.graph == {"id": "d", "text": document.text}
        assert graph.nodes[3] == {"text": "entity recognition", "label": "Task", "start": 39, "end": 57, "score": None}
        assert [(h, t, d["label"], d["score"]) for h, t, d in graph.edges(data=True)] == [
            (0, 1, "used-for", None),
            (2, 3, "used-for", 0.5),
            (2, 3, "part-of", None),
            (3, 2, "used-for", None),
        ]

    def test_without_networkx(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "networkx", None)
        with pytest.raises(CascadeError, match=r"networkx is not installed.*pip install 'cascade-srn\[graph\]'"):
            Document("").to_networkx()
