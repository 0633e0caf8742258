import os
import re
import shutil
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from tests.small_models import NO_LIMITS
from tests.twelve_sentences import SCHEMA, WORDS

from cascade_srn import Document, Entity, Extractor, Mention
from cascade_srn.config import ModelSettings, Thresholds
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.errors import AnnotationError, CascadeError, ConfigError, ModelError, SchemaError
from cascade_srn.model.model import Model
from cascade_srn.storage import bundled
from cascade_srn.text.presplit import given_sentences, segment_spaces
from cascade_srn.types import Sentence

TEXT = "Ada Berg leads Norlux in Oslo. Tim Falk leads Rivon,\nin  Bergen!"
LOW = Thresholds(entity=0.002, subject=0.002, object=0.002)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    encoder = create_encoder(WORDS, folder / "encoder", width=32, n_layers=1, n_heads=2, vocabulary=200)
    settings = ModelSettings.from_dict({"encoder": {"name": encoder}, "hidden_width": 16, "matcher_width": 16})
    settings = replace(settings, thresholds=LOW, limits=NO_LIMITS)
    Model.create(settings, SCHEMA).save(folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def extractor(folder):
    return Extractor.from_pretrained(folder)


def test_offsets_are_characters_of_the_text(extractor):
    document = extractor.extract(TEXT)
    assert document.text == TEXT
    assert document.entities
    assert document.relations
    for entity in document.entities:
        assert TEXT[entity.start : entity.end] == entity.text
        assert entity.label in SCHEMA.entity_types
        assert 0 <= entity.score <= 1
    for relation in document.relations:
        assert relation.head in document.entities
        assert relation.tail in document.entities
        assert relation.label in SCHEMA.relation_types
        assert 0 <= relation.score <= 1


@pytest.mark.parametrize("text", ["", " \n\t ", "\u200b", "🙂", "a" * 3000, "\x00"])
def test_any_text_goes_through(extractor, text):
    document = extractor.extract(text)
    assert document.text == text
    for entity in document.entities:
        assert text[entity.start : entity.end] == entity.text


def test_not_a_text(extractor):
    with pytest.raises(CascadeError, match="bytes"):
        extractor.extract(b"bytes")


def test_stream_is_lazy_ordered_and_equal_to_extracting_one_by_one(extractor):
    taken = []

    def texts():
        for i in range(80):
            taken.append(i)
            yield f"Ada Berg leads Norlux number {i} ."

    stream = extractor.stream(texts(), batch_words=16)
    first = next(stream)
    assert first.text.endswith("number 0 .")
    assert len(taken) < 40
    rest = list(stream)
    assert [d.text.split()[-2] for d in rest] == [str(i) for i in range(1, 80)]
    alone = extractor.extract(rest[4].text)
    assert rest[4] == alone
    assert [e.score for e in rest[4].entities] == pytest.approx([e.score for e in alone.entities], abs=1e-5)


@pytest.mark.parametrize("texts", ["We eat.", b"We eat.", Document.from_text("We eat."), None])
def test_stream_needs_several_texts(extractor, texts):
    with pytest.raises(CascadeError, match=type(texts).__name__):
        extractor.stream(texts)


@pytest.mark.parametrize("documents", ["We eat.", Document.from_text("We eat.")])
def test_predict_needs_several_documents(extractor, documents):
    with pytest.raises(CascadeError, match=type(documents).__name__):
        extractor.predict(documents)


def test_predict_needs_documents(extractor):
    with pytest.raises(CascadeError, match="item 1 is a str"):
        extractor.predict([Document.from_text("We eat."), "We eat."])


class TestCalls:
    TEXTS = ("Ada Berg leads Norlux .", "Tim Falk leads Rivon .")

    def test_one_text_or_several(self, extractor):
        documents = extractor(self.TEXTS, overlaps="all")
        assert [document.text for document in documents] == list(self.TEXTS)
        assert extractor(self.TEXTS[0], overlaps="all") == documents[0]
        assert extractor(Document.from_text(self.TEXTS[0]), overlaps="all") == documents[0]
        assert extractor(iter(self.TEXTS), overlaps="all") == documents
        assert extractor([]) == []

    @pytest.mark.parametrize("texts", [list(TEXTS), TEXTS])
    def test_extract_names_the_method_for_several_texts(self, extractor, texts):
        with pytest.raises(CascadeError, match=r"extractor\.stream"):
            extractor.extract(texts)

    @pytest.mark.parametrize("text", [None, 3.5, b"bytes"])
    def test_not_a_text(self, extractor, text):
        with pytest.raises(CascadeError, match="text"):
            extractor(text) if text is None else extractor([text])

    def test_only_given_labels(self, extractor):
        everything = extractor(TEXT)
        kind, relation = SCHEMA.entity_types[0], SCHEMA.relation_types[0]
        expected = everything.filter(labels=[kind, relation])
        assert {entity.label for entity in everything.entities} > {kind}
        assert {entity.label for entity in expected.entities} == {kind}
        assert extractor(TEXT, labels=[kind, relation]) == expected
        assert list(extractor.stream([TEXT], labels=[kind, relation])) == [expected]
        assert extractor.predict([Document.from_text(TEXT)], labels=[kind, relation]) == [expected]

    @pytest.mark.parametrize("method", ["extract", "stream"])
    def test_unknown_labels_are_refused_at_once(self, extractor, method):
        with pytest.raises(SchemaError):
            getattr(extractor, method)(TEXT if method == "extract" else iter([]), labels=["Persan"])

    def test_thresholds_by_label(self, extractor):
        kind = SCHEMA.entity_types[0]
        kept = extractor(TEXT, thresholds={kind: 1.0}, overlaps="all")
        assert kept == extractor(TEXT, thresholds={"entity_types": {kind: 1.0}}, overlaps="all")
        assert kind not in {entity.label for entity in kept.entities}
        for wrong in ({"Persan": 0.3}, {"entity_types": {"Persan": 0.3}}, {kind: 3}):
            with pytest.raises(ConfigError):
                extractor(TEXT, thresholds=wrong)

    def test_pairs(self, extractor):
        pairs = [(text, {"number": number}) for number, text in enumerate(self.TEXTS)]
        found = list(extractor.stream(pairs, as_tuples=True))
        assert found == list(zip(extractor(self.TEXTS), [{"number": 0}, {"number": 1}], strict=True))

    @pytest.mark.parametrize("batch_words", [1, 4096])
    def test_contexts_stay_with_their_texts(self, extractor, batch_words):
        pairs = [("Ada", 0), (None, 1), ("Oslo", 2), (float("nan"), 3), ("Norlux", 4)]
        found = extractor.stream(iter(pairs), as_tuples=True, on_error="skip", batch_words=batch_words)
        assert [(document.text, number) for document, number in found] == [("Ada", 0), ("Oslo", 2), ("Norlux", 4)]

    @pytest.mark.parametrize("pair", ["Ada", ("Ada",), ("Ada", 1, 2), 3])
    def test_what_is_no_pair_is_refused(self, extractor, pair):
        stream = extractor.stream([("Oslo", 0), pair], as_tuples=True)
        assert next(stream)[1] == 0
        with pytest.raises(CascadeError, match="item 1"):
            next(stream)

    def test_progress_is_shown_on_standard_error(self, extractor, capsys):
        texts = list(self.TEXTS)
        assert list(extractor.stream(texts, progress=True)) == extractor(texts)
        shown = capsys.readouterr()
        assert "extracting" in shown.err
        assert shown.out == ""

    def test_documents_know_the_schema(self, extractor):
        assert extractor(TEXT).schema == SCHEMA
        assert extractor.relations(TEXT, [Entity(0, 8, SCHEMA.entity_types[0])]).schema == SCHEMA
        assert Document.from_text(TEXT).schema is None


class TestBadTexts:
    HALF = "Ada \ud800 Berg"

    def texts(self):
        yield "Ada Berg leads Norlux ."
        yield b"bytes"
        yield "Tim Falk leads Rivon ."
        yield self.HALF
        words = Sentence(("Mona", "\udfff", "Lind"), ((0, 4), (5, 6), (7, 11)), (), ())
        yield Document("Mona \udfff Lind", (words,))
        yield "Oslo ."

    GOOD = ("Ada Berg leads Norlux .", "Tim Falk leads Rivon .", "Oslo .")

    @pytest.mark.parametrize("batch_words", [1, 4096])
    def test_each_is_skipped_with_a_warning(self, extractor, batch_words):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = list(extractor.stream(self.texts(), batch_words=batch_words, on_error="warn"))
        assert [document.text for document in found] == list(self.GOOD)
        for warning, data in zip(seen, ("text 1: .*bytes", r"text 3: .*'\\ud800'.* 4", "text 4: "), strict=True):
            assert re.search(data, str(warning.message))

    def test_raise(self, extractor):
        stream = extractor.stream(self.texts())
        assert next(stream).text == self.GOOD[0]
        with pytest.raises(CascadeError, match="text 1: .*bytes"):
            next(stream)

    def test_errors_of_other_types_are_raised_with_a_note(self, folder):
        def segmenter(text):
            raise LookupError(text)

        with pytest.raises(LookupError) as caught:
            Extractor.from_pretrained(folder, segmenter=segmenter)(["one"])
        assert "text 0" in caught.value.__notes__[0]

    def test_a_function_can_return_a_document_instead(self, extractor):
        seen = []

        def stand_in(bad):
            seen.append((bad.position, bad.text))
            return Document("", id=f"instead of {bad.position}") if bad.position == 3 else None

        found = list(extractor.stream(self.texts(), on_error=stand_in))
        assert [document.id for document in found] == ["", "", "instead of 3", ""]
        assert seen[:2] == [(1, b"bytes"), (3, self.HALF)]

    def test_a_model_that_fails_on_one(self, extractor, monkeypatch):
        whole = Extractor._predict

        def failing(self, documents, predictor, **chosen):
            if any("7 ." in document.text for document in documents):
                raise RuntimeError("out of order")
            return whole(self, documents, predictor, **chosen)

        monkeypatch.setattr(Extractor, "_predict", failing)
        with pytest.warns(UserWarning, match="text 7: RuntimeError: out of order"):
            found = list(extractor.stream((f"Number {i} ." for i in range(12)), on_error="warn"))
        assert [d.text for d in found] == [f"Number {i} ." for i in range(12) if i != 7]

    @pytest.mark.parametrize("batch_words", [1, 4096])
    def test_an_error_of_the_iterable_comes_after_the_texts_before_it(self, extractor, batch_words):
        def texts():
            yield from self.GOOD
            raise OSError("the disk is gone")

        stream = extractor.stream(texts(), batch_words=batch_words)
        assert [next(stream).text for _ in self.GOOD] == list(self.GOOD)
        with pytest.raises(OSError, match="the disk is gone"):
            next(stream)

    def test_unknown_policy(self, extractor):
        with pytest.raises(ConfigError, match="'rise'.* 'raise'"):
            extractor.stream([], on_error="rise")

    def test_extract_raises(self, extractor):
        with pytest.raises(CascadeError, match=r"'\\ud800'.* 4\b"):
            extractor.extract(self.HALF)


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_missing_device(extractor, device):
    with pytest.raises(ConfigError, match=device) as caught:
        extractor.to(device)
    assert caught.value.option == "device"
    assert extractor.to("cpu") is extractor


def test_words_given_by_the_caller_are_kept(extractor):
    document = extractor.extract(Document.from_words([["Ada", "Berg", "leads", "Nor lux"]], id="mine"))
    assert document.id == "mine"
    assert document.sentences[0].words == ("Ada", "Berg", "leads", "Nor lux")


class TestThresholds:
    def test_one_number_for_all_turns(self, extractor):
        assert extractor.extract(TEXT, thresholds=0.002) == extractor.extract(TEXT, thresholds=LOW)
        for nothing in (1, Thresholds(entity=1.0)):
            assert not extractor.extract(TEXT, thresholds=nothing).entities

    def test_some_of_them(self, extractor):
        found = extractor.extract(TEXT, thresholds={"object": 1.0})
        assert found.entities == extractor.extract(TEXT).entities
        assert not found.relations
        places = extractor.extract(TEXT, thresholds={"entity": 1.0, "entity_types": {"Place": 0.0}})
        assert {entity.label for entity in places.entities} == {"Place"}

    def test_given_entities_stay_whatever_they_scored_before(self, extractor):
        found = extractor.extract(TEXT)
        assert all(entity.score < 0.5 for entity in found.entities)
        strict = Thresholds(entity=0.9, object=1.0, related=0.5)
        again = extractor.relations(TEXT, found.entities, thresholds=strict)
        assert again.entities == found.entities
        assert not again.relations

    def test_invalid_ones_are_refused_before_a_text_is_read(self, extractor):
        for given, named in (
            (True, "True"),
            ("0.5", "'0.5'"),
            (1.5, "entity is 1.5"),
            ({"entities": 0.5}, "'entities'.* 'entity'"),
            ({"entity_types": {"Plaice": 0.5}}, "'Plaice'.* 'Place'"),
        ):
            with pytest.raises(ConfigError, match=named):
                extractor.stream(iter("never read"), thresholds=given)
            with pytest.raises(ConfigError, match=named):
                extractor.extract(TEXT, thresholds=given)


class TestSegmentation:
    def test_another_segmenter(self, folder):
        extractor = Extractor.from_pretrained(folder, segmenter=segment_spaces)
        document = extractor.extract("Ada Berg, leads.\nNorlux!")
        assert [sentence.words for sentence in document.sentences] == [("Ada", "Berg,", "leads."), ("Norlux!",)]

    def test_skipped_parts(self, folder):
        extractor = Extractor.from_pretrained(folder, skip=["code"])
        document = extractor.extract("Ada Berg leads.\n```\nlead()\n```\nNorlux")
        assert [sentence.words for sentence in document.sentences] == [("Ada", "Berg", "leads", "."), ("Norlux",)]
        assert [document.text[start:end] for start, end in document.coverage.missed] == ["lead()"]

    @pytest.mark.parametrize("options", [{"skip": ["tabels"]}, {"skip": ["code"], "segmenter": segment_spaces}])
    def test_skipping_what_cannot_be_skipped(self, folder, options):
        with pytest.raises(ConfigError) as caught:
            Extractor.from_pretrained(folder, **options)
        assert caught.value.option == "skip"

    def test_sentences_given_by_the_caller(self, extractor):
        sentences = given_sentences(["Ada Berg leads. Norlux is", "in Oslo."])
        given = Document.from_text("Ada Berg leads. Norlux is in Oslo.", segmenter=sentences)
        assert [len(sentence) for sentence in extractor.extract(given).sentences] == [6, 3]


class TestRelations:
    def test_given_entities_are_kept_as_they_are(self, extractor):
        given = [Entity(0, 8, "Person"), Entity(15, 21, "Organization"), Entity(53, 55, "Place")]
        document = extractor.relations("Ada Berg leads Norlux in Oslo. Tim Falk leads Rivon, in Bergen!", given)
        assert list(document.entities) == given
        assert document.relations
        assert {r.head for r in document.relations} <= set(given)

    def test_coreference_clusters_stay_with_given_entities(self, extractor):
        document = Document.from_text("Ada Berg leads Norlux. She lives in Oslo.")
        document = replace(document, clusters=((Mention(0, 0, 2), Mention(1, 0, 1)),))
        assert extractor.predict([document], given_entities=True)[0].clusters == document.clusters
        assert extractor.predict([document])[0].clusters == ()

    def test_off_the_word_boundaries(self, extractor):
        with pytest.raises(AnnotationError, match=r"\b6\b"):
            extractor.relations("Ada Berg leads Norlux.", [Entity(0, 6, "Person")])

    def test_expand_to_whole_words(self, extractor):
        given = [Entity(0, 6, "Person"), Entity(1, 8, "Person"), Entity(15, 21, "Organization")]
        with pytest.warns(UserWarning, match="2 of 3 entities"):
            document = extractor.relations("Ada Berg leads Norlux.", given, align="expand")
        assert [entity.text for entity in document.entities] == ["Ada Berg", "Norlux"]

    @pytest.mark.parametrize(
        ("entities", "error", "named"),
        [
            ([Entity(0, 8, "Person", score=87.0)], CascadeError, r"'Person' .*\[0, 8\).* 87"),
            ([Entity(0, 8, "Person", score=-0.1)], CascadeError, r"-0\.1"),
            ([(0, 8, "Person")], CascadeError, "tuple"),
            ([Entity(0, 8, "Person")] * 2, CascadeError, r"'Person' .*\[0, 8\)"),
            ([Entity(0, 600, "Person")], AnnotationError, "600"),
            ([Entity(0, 8, "Persona")], SchemaError, "'Persona'.* 'Person'"),
        ],
        ids=["high score", "low score", "no entity", "repeated", "outside", "unknown type"],
    )
    def test_invalid_entities(self, extractor, entities, error, named):
        with pytest.raises(error, match=named):
            extractor.relations("Ada Berg leads Norlux.", entities)


class TestFromPretrained:
    def test_bundled_models(self, folder, tmp_path, monkeypatch, extractor):
        monkeypatch.setattr(bundled, "_MODELS", tmp_path / "models")
        shutil.copytree(folder, tmp_path / "models" / bundled.DEFAULT)
        shutil.copytree(folder, tmp_path / "models" / "other")
        (tmp_path / "models" / "no-model").mkdir()
        assert bundled.bundled_models() == ["other", "scierc-small"]
        monkeypatch.chdir(tmp_path)
        for name in (None, "scierc-small", "other"):
            assert Extractor.from_pretrained(name).extract(TEXT) == extractor.extract(TEXT)
        with pytest.raises(ModelError, match=r"'others'.*Did you mean 'other'"):
            Extractor.from_pretrained("others")

    def test_no_bundled_model(self, tmp_path, monkeypatch):
        monkeypatch.setattr(bundled, "_MODELS", tmp_path)
        with pytest.raises(ModelError, match=r"'scierc-small'.*none"):
            Extractor.from_pretrained()

    def test_missing_folder_that_could_be_a_hub_id(self):
        assert os.environ["HF_HUB_OFFLINE"] == "1"
        with pytest.raises(ModelError, match="'nobody/nothing'.*hub"):
            Extractor.from_pretrained("nobody/nothing")


@pytest.mark.slow
def test_threads_do_not_affect_each_other(folder):
    """Start eight threads at once on an unused extractor, with three different thresholds."""
    texts = [f"Ada Berg {'leads ' * i}word{i} ." for i in range(5)]
    thresholds = [LOW, Thresholds(entity=0.02, subject=0.02, object=0.02), 1.0]

    def extract(extractor, i):
        if i % 4 == 3:
            return list(extractor.stream(texts, batch_words=8, thresholds=thresholds[i % 3]))
        return [extractor.extract(text, thresholds=thresholds[i % 3]) for text in texts]

    alone = Extractor.from_pretrained(folder)
    expected = [extract(alone, i) for i in range(8)]
    assert any(document.relations for document in expected[0])
    assert expected[0] != expected[1]
    extractor, start = Extractor.from_pretrained(folder), Barrier(8)

    def work(i):
        start.wait()
        return extract(extractor, i)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    # Plain values contain the scores, so the results are the same to the last digit.
    assert [[d.to_dict() for d in documents] for documents in found] == [
        [d.to_dict() for d in documents] for documents in expected
    ]


FORKED = """
import os, sys
import torch
from tests.small_models import small_model
from cascade_srn import Extractor
from cascade_srn.errors import CascadeError

torch.set_num_threads(int(sys.argv[1]))
extractor = Extractor(small_model())
if sys.argv[2] == "used":
    extractor.extract("A tagger.")
pid = os.fork()
if pid == 0:
    try:
        extractor.extract("A tagger.")
        print("done", flush=True)
    except CascadeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
@pytest.mark.parametrize(("n_threads", "before"), [(2, "used"), (1, "used"), (1, "unused")])
def test_a_forked_process_does_not_hang(n_threads, before):
    command = [sys.executable, "-c", FORKED, str(n_threads), before]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=300, check=True
    )
    if n_threads > 1:
        assert "torch.set_num_threads(1)" in done.stdout
    else:
        assert done.stdout == "done\n"
