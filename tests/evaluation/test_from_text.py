"""Scoring from raw text: rebuilt texts, common words and sentences, and what segmentation loses."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.saved_models import corpus, saved_model
from tests.evaluation.strategies import SCHEMA, policies, sentences, some
from tests.small_models import SCHEMA as MODEL_SCHEMA
from tests.small_models import small_model

from cascade_srn import Document, Extractor, Sentence, Span, Triple, read_documents, write_documents
from cascade_srn.errors import AnnotationError, ConfigError
from cascade_srn.evaluation import (
    Counts,
    align_by_characters,
    analyse,
    measure_segmentation,
    rebuild_text,
    score_documents,
)
from cascade_srn.evaluation.evaluate import evaluate
from cascade_srn.evaluation.from_text import restore_words, split_characters
from cascade_srn.evaluation.options import EvaluateOptions
from cascade_srn.text.presplit import given_words


def annotated(words, entities=(), triples=()):
    return Sentence.from_words(words.split(), entities, triples)


class TestRebuilding:
    def test_tokens_become_text_and_annotations_stay_on_their_words(self):
        spans = [Span(1, 3, "A"), Span(4, 5, "B")]
        sentence = annotated("A neural parser -LRB- NP -RRB- .", spans, [Triple(spans[0], "Same", spans[1])])
        found = rebuild_text(Document.from_sentences([sentence, annotated("It works .")], id="d"))
        assert found.text == "A neural parser (NP). It works."
        assert found.id == "d"
        assert [(e.text, e.start, e.end) for e in found.entities] == [("neural parser", 2, 15), ("NP", 17, 19)]
        assert [(r.head.text, r.tail.text) for r in found.relations] == [("neural parser", "NP")]
        assert len(found.sentences) == 2

    @pytest.mark.parametrize("text", ["A parser (NP) .\nIt works.", "A  parser .", "Heading\n\nIt works."])
    def test_an_original_text_is_not_changed(self, text):
        document = Document.from_text(text)
        assert rebuild_text(document) is document

    def test_line_breaks_stay_if_nothing_was_tokenized(self):
        document = Document.from_words([["Heading"], ["it", "works"]])
        assert rebuild_text(document).text == "Heading\nit works"

    def test_a_converted_file_gives_the_same_text(self, tmp_path):
        documents = [Document.from_sentences([annotated("A parser ( NP ) .", [Span(1, 2, "A")])], id="d")]
        texts = []
        for format in ("dygie", "spert", "jsonl"):
            path = tmp_path / f"data.{'jsonl' if format == 'jsonl' else 'json'}"
            write_documents(documents, path, format)
            texts += [rebuild_text(document).text for document in read_documents(path, format)]
        assert texts == ["A parser (NP)."] * 3

    @some
    @given(st.lists(sentences(), max_size=3))
    def test_annotations_are_those_of_the_document(self, made):
        before = Document.from_sentences(made)
        after = rebuild_text(before)
        assert [(s.entities, s.triples) for s in after.sentences] == [(s.entities, s.triples) for s in before.sentences]


def with_words(document, words, *, at=()):
    """Return a document with the same text, other words and sentences, and entities by character offsets."""
    made = Document.from_text(document.text, segmenter=given_words(words))
    sentences = []
    for number, sentence in enumerate(made.sentences):
        starts = {start: word for word, (start, _) in enumerate(sentence.offsets)}
        ends = {end: word + 1 for word, (_, end) in enumerate(sentence.offsets)}
        spans = [Span(starts[a], ends[b], label) for where, a, b, label in at if where == number]
        sentences.append(sentence.annotated(spans, ()))
    return Document(document.text, tuple(sentences), document.id)


class TestAligning:
    def test_words_are_cut_where_either_side_cuts(self):
        gold = Document(
            "pre-trained nets", (Sentence(("pre-trained", "nets"), ((0, 11), (12, 16)), (Span(0, 1, "A"),)),), "d"
        )
        other = with_words(gold, [["pre", "-", "trained nets"]], at=[(0, 4, 16, "A")])
        ((one,), (two,)) = align_by_characters([gold], [other])
        assert one.sentences[0].words == two.sentences[0].words == ("pre", "-", "trained", "nets")
        assert one.sentences[0].entities == (Span(0, 3, "A"),)
        assert two.sentences[0].entities == (Span(2, 4, "A"),)
        assert one.id == two.id == "d"

    def test_sentences_end_where_both_sides_end(self):
        gold = Document.from_words([["a", "b"], ["c", "d"], ["e"]])
        text = gold.text.replace("\n", " ")
        gold = Document(text, gold.sentences)
        other = Document.from_text(text, segmenter=given_words([["a", "b", "c"], ["d"], ["e"]]))
        ((one,), (two,)) = align_by_characters([gold], [other])
        assert [s.words for s in one.sentences] == [s.words for s in two.sentences] == [("a", "b", "c", "d"), ("e",)]

    def test_different_texts_are_refused(self):
        one, other = Document.from_text("one"), Document.from_text("other")
        with pytest.raises(AnnotationError):
            align_by_characters([one], [other])
        with pytest.raises(AnnotationError):
            align_by_characters([one], [one, one])

    @some
    @given(st.lists(st.tuples(sentences(), sentences(scored=True)), max_size=3), policies, st.data())
    def test_no_annotation_moves_and_the_scores_of_equal_words_stay(self, pairs, symmetric, data):
        gold, predicted = ([Document.from_sentences([pair[side] for pair in pairs])] for side in (0, 1))
        same = align_by_characters(gold, predicted)
        assert same == [gold, predicted]
        # Other words and sentences, without annotations, change nothing but words and sentences.
        text = gold[0].text
        cuts = [0, *sorted(data.draw(st.sets(st.integers(1, len(text) - 1)) if len(text) > 1 else st.just(())))]
        ranges = [(a, b) for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True) if a < b]
        third = Document.from_text(text, segmenter=lambda _: [[pair] for pair in ranges])
        one, two, _ = align_by_characters(gold, predicted, [third])
        for before, after in ((gold, one), (predicted, two)):
            assert after[0].entities == before[0].entities
            assert sorted(after[0].relations) == sorted(before[0].relations)
            assert [e.score for e in after[0].entities] == [e.score for e in before[0].entities]
        assert score_documents(one, two, schema=SCHEMA, symmetric=symmetric) == score_documents(
            gold, predicted, schema=SCHEMA, symmetric=symmetric
        )


class TestSegmentationErrors:
    """Gold has two sentences with a relation each, and the prediction repeats gold as far as its words allow."""

    SPANS = (Span(0, 1, "A"), Span(2, 3, "B"))
    PART = annotated("a uses b .", SPANS, [Triple(SPANS[0], "Directed", SPANS[1])])
    OTHER = annotated("c uses d .", SPANS, [Triple(SPANS[0], "Same", SPANS[1])])
    GOLD = rebuild_text(Document.from_sentences([PART, OTHER]))

    def scored(self, words, found):
        """Score a prediction: words of each sentence, and triples of (sentence, head, label, tail) by word."""
        made = Document.from_text(self.GOLD.text, segmenter=given_words(words))
        labels = {"a": "A", "b": "B", "c": "A", "d": "B"}
        sentences = []
        for number, sentence in enumerate(made.sentences):
            spans = {w: Span(i, i + 1, labels[w]) for i, w in enumerate(sentence.words) if w in labels}
            triples = [Triple(spans[h], label, spans[t]) for where, h, label, t in found if where == number]
            sentences.append(sentence.annotated(spans.values(), triples))
        predicted = [Document(made.text, tuple(sentences))]
        aligned = align_by_characters([self.GOLD], predicted)
        return score_documents(*aligned, schema=SCHEMA), measure_segmentation([self.GOLD], predicted)

    def test_no_error(self):
        scores, fit = self.scored(
            [["a", "uses", "b", "."], ["c", "uses", "d", "."]], [(0, "a", "Directed", "b"), (1, "c", "Same", "d")]
        )
        assert scores.ner.counts == Counts(4, 4, 4)
        assert scores.re_strict.counts == scores.re_boundaries.counts == Counts(2, 2, 2)
        assert all(share == 1 for _, _, share in fit.shares.values())
        assert (fit.n_sentences, fit.n_gold_sentences) == (2, 2)

    def test_a_split_sentence_loses_its_relation_only(self):
        words = [["a", "uses"], ["b", "."], ["c", "uses", "d", "."]]
        scores, fit = self.scored(words, [(2, "c", "Same", "d")])
        assert scores.ner.counts == Counts(4, 4, 4)
        assert scores.re_strict.counts == Counts(2, 1, 1)
        assert scores.re_strict.per_label == {"Directed": Counts(1, 0, 0), "Same": Counts(1, 1, 1)}
        assert fit.shares["relations"] == (1, 2, 0.5)
        assert fit.shares["entities"] == (4, 4, 1)
        assert (fit.n_sentences, fit.sentence_breaks[0]) == (3, 1)

    def test_joined_sentences_lose_nothing_but_allow_wrong_relations(self):
        words = [["a", "uses", "b", ".", "c", "uses", "d", "."]]
        scores, fit = self.scored(words, [(0, "a", "Directed", "b"), (0, "c", "Same", "d"), (0, "a", "Directed", "d")])
        assert scores.re_strict.counts == Counts(2, 3, 2)
        assert fit.shares["sentence_breaks"] == (0, 1, 0)
        assert fit.shares["relations"] == (2, 2, 1)

    def test_a_glued_word_loses_its_entity_and_the_relation(self):
        words = [["a", "uses", "b."], ["c", "uses", "d", "."]]
        scores, fit = self.scored(words, [(1, "c", "Same", "d")])
        assert scores.ner.counts == Counts(4, 3, 3)
        assert scores.re_strict.counts == Counts(2, 1, 1)
        assert fit.shares["entity_boundaries"] == (7, 8, 7 / 8)
        assert fit.shares["entities"] == (3, 4, 3 / 4)
        assert fit.shares["relations"] == (1, 2, 1 / 2)

    def test_the_analysis_says_so(self):
        fit = measure_segmentation([self.GOLD], [self.GOLD])
        analysis = analyse([self.GOLD], [self.GOLD], schema=SCHEMA, segmentation=fit)
        assert analysis.condition == analysis.to_dict()["protocol"]["condition"] == "from text"
        record = analysis.to_dict()["segmentation"]
        assert record["found"]["relations"] == {"n_found": 2, "n_gold": 2, "share": 1.0}
        assert analyse([self.GOLD], [self.GOLD], schema=SCHEMA).to_dict()["segmentation"] is None


class TestReadingCharacters:
    TEXT = "Parsers (fast ones) win. They beat taggers."

    def read(self, tmp_path, entities, relations=()):
        record = {
            "id": "d",
            "text": self.TEXT,
            "entities": [{"start": a, "end": b, "label": "Thing"} for a, b in entities],
            "relations": [{"head": h, "tail": t, "label": "compare"} for h, t in relations],
        }
        path = tmp_path / "data.jsonl"
        path.write_text(json.dumps(record) + "\n", encoding="utf-8")
        (document,) = read_documents(path, segmenter=split_characters)
        return restore_words(document)

    def test_a_relation_across_sentences_is_kept(self, tmp_path):
        found = self.read(tmp_path, [(0, 7), (35, 42)], [(0, 1)])
        assert len(found.sentences) == 1
        assert [(r.head.text, r.tail.text) for r in found.relations] == [("Parsers", "taggers")]
        fit = measure_segmentation([found], [Document.from_text(self.TEXT)])
        assert fit.shares["relations"] == (0, 1, 0)

    def test_an_entity_within_a_word_is_kept(self, tmp_path):
        found = self.read(tmp_path, [(0, 6)])
        assert found.sentences[0].words[:2] == ("Parser", "s")
        assert [e.text for e in found.entities] == ["Parser"]
        fit = measure_segmentation([found], [Document.from_text(self.TEXT)])
        assert fit.shares["entities"] == (0, 1, 0)

    def test_otherwise_words_and_sentences_are_those_of_the_package(self, tmp_path):
        found = self.read(tmp_path, [(0, 7), (9, 18)], [(0, 1)])
        bare = Document.from_text(self.TEXT, id="d")
        assert [s.offsets for s in found.sentences] == [s.offsets for s in bare.sentences]
        assert found.id == "d"

    def test_an_entity_with_spaces_around_it(self, tmp_path):
        found = self.read(tmp_path, [(7, 18)])
        assert [e.text for e in found.entities] == [" (fast ones"]


def evaluated(*models, data=None, **options):
    return evaluate(EvaluateOptions(models=models, data=data or corpus(), **{"n_resamples": 100, **options}))


class TestEvaluation:
    def test_scores_are_those_of_the_extracted_texts(self):
        found = evaluated(saved_model(), from_text=True, symmetric="all")
        gold = [rebuild_text(document) for document in read_documents(corpus())]
        assert any("parsing, translation and search engines." in document.text for document in gold)
        predicted = list(Extractor.from_pretrained(saved_model()).stream(d.text for d in gold))
        assert any(d.relations for d in predicted)
        aligned = align_by_characters(gold, predicted)
        (scores,) = found.scores.values()
        for one in scores:
            assert one == score_documents(*aligned, schema=MODEL_SCHEMA, symmetric=one.symmetric)
        assert scores[0].ner.counts.n_gold == 13

    def test_analyses_agree_with_the_scores(self):
        found = evaluated(saved_model(), from_text=True, train=corpus(), by=("brackets", "entity_text"))
        ((_, analysis),) = found.analyse_models()
        assert analysis.condition == "from text"
        assert [analysis.scores] == found.scores["…/seed-0-0/best"]
        assert [b.name for b in analysis.breakdowns][-1] == "entity_text"

    def test_gold_that_does_not_fit_the_segmenter(self, tmp_path):
        record = {
            "text": "Taggers work. Parsers work.",
            "entities": [{"start": 0, "end": 6, "label": "Thing"}, {"start": 14, "end": 21, "label": "Thing"}],
            "relations": [{"head": 0, "tail": 1, "label": "compare"}],
        }
        (tmp_path / "data.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
        found = evaluated(saved_model(), data=str(tmp_path / "data.jsonl"), from_text=True)
        (scores,) = found.scores["…/seed-0-0/best"]
        assert (scores.ner.counts.n_gold, scores.re_strict.counts.n_gold) == (2, 1)
        assert scores.re_strict.counts.n_correct == 0
        assert found.analyses["…/seed-0-0/best"].segmentation.shares["relations"] == (0, 1, 0)

    @pytest.mark.parametrize("method", ["pipeline", "pfn"])
    def test_baselines(self, method, tmp_path):
        small_model(method=method).save(tmp_path / "model")
        record = evaluated(str(tmp_path / "model"), from_text=True).to_dict()
        assert record["models"][0]["scores"]["directed"]["ner"]["micro"]["n_gold"] == 13

    def test_gold_entities_are_refused(self):
        with pytest.raises(ConfigError) as error:
            EvaluateOptions(("m",), "d", from_text=True, gold_entities=True)
        assert error.value.option == "gold_entities"
