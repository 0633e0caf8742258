import os
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

from cascade_srn import Document, Entity, Extractor
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


@pytest.mark.parametrize("texts", ["We eat.", b"We eat.", Document.from_text("We eat.")])
def test_one_text_is_no_stream(extractor, texts):
    with pytest.raises(CascadeError, match=r"one (str|bytes|Document) was given, but a list or stream of texts was .*"):
        extractor.stream(texts)


def test_what_is_no_stream_of_texts(extractor):
    with pytest.raises(CascadeError, match="texts is a NoneType; give a list or stream of texts"):
        extractor.stream(None)


@pytest.mark.parametrize("documents", ["We eat.", Document.from_text("We eat.")])
def test_one_document_is_no_list(extractor, documents):
    with pytest.raises(CascadeError, match=r"one (str|Document) was given, but a list of Documents was expected; pass"):
        extractor.predict(documents)


def test_documents_may_come_one_by_one(extractor):
    documents = [Document.from_text("Ada Berg leads Norlux."), Document.from_text("We eat.")]
    assert extractor.predict(document for document in documents) == extractor.predict(documents)


@pytest.mark.parametrize("given_entities", [False, True])
def test_what_is_no_document_is_not_predicted(extractor, given_entities):
    with pytest.raises(CascadeError, match="item 1 is a str, but a Document was expected; make one by Document.from_"):
        extractor.predict([Document.from_text("We eat."), "We eat."], given_entities=given_entities)


def test_stream_of_nothing(extractor):
    assert list(extractor.stream([])) == []


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

    @pytest.mark.parametrize("batch_words", [1, 5, 4096])
    def test_they_are_left_out_with_a_warning_each(self, extractor, batch_words):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = list(extractor.stream(self.texts(), batch_words=batch_words))
        assert [document.text for document in found] == list(self.GOOD)
        assert [str(warning.message)[:16] for warning in told] == [
            "left out: text 1",
            "left out: text 3",
            "left out: text 4",
        ]
        assert "a text is a bytes, not a string" in str(told[0].message)
        assert "half a surrogate pair, '\\ud800', at character 4" in str(told[1].message)

    def test_without_a_word(self, extractor):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert [document.text for document in extractor.stream(self.texts(), on_error="skip")] == list(self.GOOD)

    def test_stopping_at_the_first(self, extractor):
        stream = extractor.stream(self.texts(), on_error="raise")
        assert next(stream).text == self.GOOD[0]
        with pytest.raises(CascadeError, match="a text is a bytes, not a string"):
            next(stream)

    def test_a_function_is_told_and_can_put_a_document_in_their_place(self, extractor):
        told = []

        def stand_in(bad):
            told.append((bad.position, bad.text))
            return Document("", id=f"instead of {bad.position}") if bad.position == 3 else None

        found = list(extractor.stream(self.texts(), on_error=stand_in))
        assert [document.id for document in found] == ["", "", "instead of 3", ""]
        assert told[:2] == [(1, b"bytes"), (3, self.HALF)]

    def test_a_segmenter_that_fails_on_one(self, folder):
        extractor = Extractor.from_pretrained(folder, segmenter=lambda text: [[(0, 99 if "odd" in text else 1)]])
        with pytest.warns(UserWarning, match=r"left out: text 1: the segmenter puts a word of sentence 0 at"):
            found = list(extractor.stream(["one", "odd", "two"]))
        assert [document.text for document in found] == ["one", "two"]

    def test_a_model_that_fails_on_one(self, extractor, monkeypatch):
        whole = Extractor._predicted

        def failing(self, documents, predictor, **chosen):
            if any("7 ." in document.text for document in documents):
                raise RuntimeError("out of order")
            return whole(self, documents, predictor, **chosen)

        monkeypatch.setattr(Extractor, "_predicted", failing)
        with pytest.warns(UserWarning, match="left out: text 7: RuntimeError: out of order"):
            found = list(extractor.stream(f"Number {i} ." for i in range(12)))
        assert [d.text for d in found] == [f"Number {i} ." for i in range(12) if i != 7]

    @pytest.mark.parametrize("batch_words", [1, 5, 4096])
    def test_where_the_texts_end_badly_those_before_are_given_first(self, extractor, batch_words):
        def texts():
            yield from self.GOOD
            raise OSError("the disk is gone")

        stream = extractor.stream(texts(), batch_words=batch_words)
        assert [next(stream).text for _ in self.GOOD] == list(self.GOOD)
        with pytest.raises(OSError, match="the disk is gone"):
            next(stream)

    def test_where_the_texts_end_badly_at_once(self, extractor):
        def texts():
            raise OSError("the disk is gone")
            yield

        with pytest.raises(OSError, match="the disk is gone"):
            next(extractor.stream(texts()))

    def test_a_policy_that_there_is_not(self, extractor):
        with pytest.raises(
            ConfigError, match="on_error is 'rise', not one of warn, skip, raise or a function. Did you"
        ):
            extractor.stream([], on_error="rise")

    def test_one_alone(self, extractor):
        with pytest.raises(CascadeError, match="half a surrogate pair, .* at character 4; write the whole character"):
            extractor.extract(self.HALF)


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_device_that_there_is_not(extractor, device):
    with pytest.raises(ConfigError, match=f"the model cannot be moved to the device '{device}' .* give cpu, or cuda"):
        extractor.to(device)
    assert extractor.to("cpu") is extractor


def test_words_given_by_the_caller_are_kept(extractor):
    document = extractor.extract(Document.from_words([["Ada", "Berg", "leads", "Nor lux"]], id="mine"))
    assert document.id == "mine"
    assert document.sentences[0].words == ("Ada", "Berg", "leads", "Nor lux")


def test_thresholds_at_call_time(extractor):
    assert not extractor.extract(TEXT, thresholds=Thresholds(entity=1.0)).entities


class TestThresholds:
    def test_one_number_for_all_turns(self, extractor):
        assert extractor.extract(TEXT, thresholds=0.002) == extractor.extract(TEXT, thresholds=LOW)
        assert not extractor.extract(TEXT, thresholds=1).entities

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

    def test_mistakes_are_told_before_a_text_is_read(self, extractor):
        for given, message in (
            (True, "thresholds is True"),
            ("0.5", "thresholds is '0.5'"),
            (1.5, "the threshold entity is 1.5; give a number from 0 to 1"),
            ({"entities": 0.5}, "thresholds has no setting 'entities'. Did you mean 'entity'?"),
            ({"entity_types": {"Plaice": 0.5}}, "entity type 'Plaice', which the model does not have. Did you mean"),
        ):
            with pytest.raises(ConfigError, match=message):
                extractor.stream(iter("never read"), thresholds=given)
            with pytest.raises(ConfigError, match=message):
                extractor.extract(TEXT, thresholds=given)


class TestSegmentation:
    def test_another_segmenter(self, folder):
        extractor = Extractor.from_pretrained(folder, segmenter=segment_spaces)
        document = extractor.extract("Ada Berg, leads.\nNorlux!")
        assert [sentence.words for sentence in document.sentences] == [("Ada", "Berg,", "leads."), ("Norlux!",)]

    def test_sentences_given_by_the_caller(self, extractor):
        sentences = given_sentences(["Ada Berg leads. Norlux is", "in Oslo."])
        given = Document.from_text("Ada Berg leads. Norlux is in Oslo.", segmenter=sentences)
        assert [len(sentence) for sentence in extractor.extract(given).sentences] == [6, 3]

    def test_every_character_of_a_long_text_is_covered(self, extractor):
        text = "\n".join(f"Ada Berg leads Norlux number {i} in Oslo." for i in range(300))
        document = extractor.extract(text)
        assert document.coverage.complete
        assert max(entity.end for entity in document.entities) > len(text) - 60


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

    def test_whole_words_where_that_is_asked_for(self, extractor):
        given = [Entity(0, 6, "Person"), Entity(1, 8, "Person"), Entity(15, 21, "Organization")]
        with pytest.warns(UserWarning, match="2 of 3 entities aligned outward to whole words"):
            document = extractor.relations("Ada Berg leads Norlux.", given, align="expand")
        assert [entity.text for entity in document.entities] == ["Ada Berg", "Norlux"]

    @pytest.mark.parametrize("score", [87.0, -0.1])
    def test_a_score_that_is_none(self, extractor, score):
        with pytest.raises(
            CascadeError, match=r"'Person' at characters \[0, 8\) has the score .*, but one from 0 to 1"
        ):
            extractor.relations("Ada Berg leads Norlux.", [Entity(0, 8, "Person", score=score)])

    def test_what_is_no_entity(self, extractor):
        with pytest.raises(CascadeError, match=r"an entity is a tuple; give Entity\(start, end, label\)"):
            extractor.relations("Ada Berg leads Norlux.", [(0, 8, "Person")])

    def test_twice(self, extractor):
        with pytest.raises(CascadeError, match=r"the entity 'Person' at characters \[0, 8\) is given twice"):
            extractor.relations("Ada Berg leads Norlux.", [Entity(0, 8, "Person")] * 2)

    def test_outside_the_text(self, extractor):
        with pytest.raises(AnnotationError, match="outside the text"):
            extractor.relations("Ada Berg leads Norlux.", [Entity(0, 600, "Person")])

    def test_unknown_type(self, extractor):
        with pytest.raises(SchemaError, match="type 'Persona', which the schema does not hold. Did you mean 'Person'?"):
            extractor.relations("Ada Berg leads Norlux.", [Entity(0, 8, "Persona")])


class TestFromPretrained:
    def test_a_model_that_ships_with_the_package(self, folder, tmp_path, monkeypatch, extractor):
        monkeypatch.setattr(bundled, "_MODELS", tmp_path / "models")
        shutil.copytree(folder, tmp_path / "models" / bundled.DEFAULT)
        shutil.copytree(folder, tmp_path / "models" / "other")
        (tmp_path / "models" / "no-model").mkdir()
        assert bundled.bundled_models() == ["other", "scierc-small"]
        monkeypatch.chdir(tmp_path)
        for name in (None, "scierc-small", "other"):
            assert Extractor.from_pretrained(name).extract(TEXT) == extractor.extract(TEXT)
        with pytest.raises(ModelError, match=r"no model folder 'others'; .* \(other, scierc-small\)"):
            Extractor.from_pretrained("others")

    def test_a_folder_comes_before_a_model_of_the_same_name(self, tmp_path, monkeypatch):
        monkeypatch.setattr(bundled, "_MODELS", tmp_path / "models")
        (tmp_path / "models" / "here").mkdir(parents=True)
        (tmp_path / "models" / "here" / "config.json").write_text("{}", encoding="utf-8")
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path)
        assert bundled.find_model("here") == Path("here")
        monkeypatch.chdir(tmp_path / "here")
        assert bundled.find_model("here") == tmp_path / "models" / "here"

    def test_none_ships_with_the_package(self, tmp_path, monkeypatch):
        monkeypatch.setattr(bundled, "_MODELS", tmp_path)
        with pytest.raises(ModelError, match=r"'scierc-small' does not ship with this .* \(models that do: none\)"):
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


def everything(document):
    """What was found, to the last digit."""
    return document.to_dict()


def test_threads_do_not_disturb_each_other(folder):
    """Eight threads begin at once on an extractor that has done nothing yet, with thresholds of their own."""
    texts = [f"Ada Berg {'leads ' * i}word{i} ." for i in range(5)]
    limits = [LOW, Thresholds(entity=0.02, subject=0.02, object=0.02), 1.0]
    alone = Extractor.from_pretrained(folder)
    expected = [[everything(alone.extract(text, thresholds=limits[i % 3])) for text in texts] for i in range(8)]
    extractor, start = Extractor.from_pretrained(folder), Barrier(8)

    def work(i):
        start.wait()
        if i % 4 == 3:
            found = extractor.stream(texts, batch_words=8, thresholds=limits[i % 3])
            return [everything(document) for document in found]
        return [everything(extractor.extract(text, thresholds=limits[i % 3])) for text in texts]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    assert any(document["relations"] for document in expected[0])
    assert expected[0] != expected[1]
    for i in range(8):
        assert [d["text"] for d in found[i]] == texts
        if i % 4 != 3:
            assert found[i] == expected[i]
        else:  # batches of other shapes: the same results, but for the last digits of scores
            assert [Document.from_dict(d) for d in found[i]] == [Document.from_dict(d) for d in expected[i]]


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


@pytest.mark.skipif(sys.platform == "win32", reason="processes are never forked there")
@pytest.mark.parametrize(("n_threads", "before"), [(2, "used"), (1, "used"), (1, "unused")])
def test_after_a_fork_it_does_not_hang(n_threads, before):
    command = [sys.executable, "-c", FORKED, str(n_threads), before]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=300, check=True
    )
    refused = (
        "this process was forked after a model was used, and torch's threads do not survive that; start processes by "
        "'spawn', or call torch.set_num_threads(1) in them first\n"
    )
    assert done.stdout == (refused if n_threads > 1 else "done\n")
