import os
from dataclasses import replace
from threading import Thread

import pytest
from tests.twelve_sentences import SCHEMA, WORDS

from cascade_srn import Document, Entity, Extractor
from cascade_srn.config import ModelSettings, Thresholds
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.errors import AnnotationError, CascadeError, ModelError, SchemaError
from cascade_srn.model import Model

TEXT = "Ada Berg leads Norlux in Oslo. Tim Falk leads Rivon,\nin  Bergen!"
LOW = Thresholds(entity=0.002, subject=0.002, object=0.002)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    encoder = create_encoder(WORDS, folder / "encoder", width=32, n_layers=1, n_heads=2, vocabulary=200)
    settings = ModelSettings.from_dict({"encoder": {"name": encoder}, "hidden_width": 16, "matcher_width": 16})
    settings = replace(settings, thresholds=LOW)
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


def test_sentences_do_not_mix(extractor):
    for relation in extractor.extract(TEXT).relations:
        assert (relation.head.start < TEXT.index("Tim")) == (relation.tail.start < TEXT.index("Tim"))


@pytest.mark.parametrize("text", ["", " \n\t ", "\u200b", "🙂", "a" * 3000, "\x00"])
def test_any_text_goes_through(extractor, text):
    document = extractor.extract(text)
    assert document.text == text
    for entity in document.entities:
        assert text[entity.start : entity.end] == entity.text


def test_a_sentence_far_past_the_encoders_limit_is_read_to_its_end(extractor):
    words = ["Oslo"] * 600  # the encoder takes 256 pieces
    document = extractor.extract(Document.from_words([words]), thresholds=replace(LOW, entity=0.0, subject=1.0))
    assert max(entity.end for entity in document.entities) == len(document.text)


def test_not_a_text(extractor):
    with pytest.raises(CascadeError, match="a text is a bytes, not a string"):
        extractor.extract(b"bytes")


def test_stream_is_lazy_ordered_and_equal_to_extracting_one_by_one(extractor):
    taken = []

    def texts():
        for i in range(200):
            taken.append(i)
            yield f"Ada Berg leads Norlux number {i} ."

    stream = extractor.stream(texts(), batch_words=16)
    first = next(stream)
    assert first.text.endswith("number 0 .")
    assert len(taken) < 100
    rest = list(stream)
    assert [d.text.split()[-2] for d in rest] == [str(i) for i in range(1, 200)]
    alone = extractor.extract(rest[4].text)
    assert rest[4] == alone
    assert [e.score for e in rest[4].entities] == pytest.approx([e.score for e in alone.entities], abs=1e-5)


def test_stream_of_nothing(extractor):
    assert list(extractor.stream([])) == []


def test_words_given_by_the_caller_are_kept(extractor):
    document = extractor.extract(Document.from_words([["Ada", "Berg", "leads", "Nor lux"]], id="mine"))
    assert document.id == "mine"
    assert document.sentences[0].words == ("Ada", "Berg", "leads", "Nor lux")


def test_thresholds_at_call_time(extractor):
    assert not extractor.extract(TEXT, thresholds=Thresholds(entity=1.0)).entities


class TestRelations:
    def test_given_entities_are_kept_as_they_are(self, extractor):
        given = [Entity(0, 8, "Person"), Entity(15, 21, "Organization"), Entity(53, 55, "Place")]
        document = extractor.relations("Ada Berg leads Norlux in Oslo. Tim Falk leads Rivon, in Bergen!", given)
        assert list(document.entities) == given
        assert document.relations
        assert {r.head for r in document.relations} <= set(given)

    def test_off_the_word_boundaries(self, extractor):
        with pytest.raises(AnnotationError, match="does not start and end on word boundaries"):
            extractor.relations("Ada Berg leads Norlux.", [Entity(0, 6, "Person")])

    def test_outside_the_text(self, extractor):
        with pytest.raises(AnnotationError, match="outside the text"):
            extractor.relations("Ada Berg leads Norlux.", [Entity(0, 600, "Person")])

    def test_unknown_type(self, extractor):
        with pytest.raises(SchemaError, match="type 'Persona', which the schema does not hold. Did you mean 'Person'?"):
            extractor.relations("Ada Berg leads Norlux.", [Entity(0, 8, "Persona")])


class TestFromPretrained:
    def test_no_bundled_model_yet(self):
        with pytest.raises(ModelError, match="no model ships with this release"):
            Extractor.from_pretrained()

    def test_missing_folder(self, tmp_path):
        with pytest.raises(ModelError, match="there is no model folder"):
            Extractor.from_pretrained(tmp_path / "nowhere")

    def test_missing_folder_that_could_be_a_hub_id(self):
        assert os.environ["HF_HUB_OFFLINE"] == "1"
        with pytest.raises(
            ModelError, match="there is no folder 'nobody/nothing', and it could not be had from the hub"
        ):
            Extractor.from_pretrained("nobody/nothing")

    def test_saved_again(self, extractor, tmp_path):
        extractor.save_pretrained(tmp_path / "copy")
        assert Extractor.from_pretrained(tmp_path / "copy").extract(TEXT) == extractor.extract(TEXT)


def test_threads_do_not_disturb_each_other(extractor):
    texts = [f"Ada Berg leads Norlux {'in Oslo ' * i}." for i in range(12)]
    expected = [extractor.extract(text) for text in texts]
    found = [None] * len(texts)

    def work(i):
        found[i] = extractor.extract(texts[i])

    threads = [Thread(target=work, args=(i,)) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected
