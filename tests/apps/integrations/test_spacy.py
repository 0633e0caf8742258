import pickle

import pytest

pytest.importorskip("spacy")
import spacy
from spacy.tokens import Doc, DocBin, Span
from tests.apps.integrations.models import TEXTS

from cascade_srn import Extractor
from cascade_srn.apps.integrations.spacy import CascadeComponent
from cascade_srn.errors import CascadeError, ConfigError

pytestmark = pytest.mark.slow


def pipeline(given, **options):
    """Return a pipeline with a component whose predictions are given."""
    nlp = spacy.blank("en")
    nlp.add_pipe("cascade_srn", config=options)
    nlp.get_pipe("cascade_srn")._extractor = given
    return nlp


def relations(doc):
    return [(r.head.text, r.head.label_, r.label, r.tail.text, r.score) for r in doc._.relations]


def test_doc_gets_spans_entities_and_relations(given):
    doc = pipeline(given)("A tagger helps parsing, not a parser.")
    group = doc.spans["cascade_srn"]
    assert [(span.text, span.label_) for span in group] == [
        ("tagger", "Thing"),
        ("parsing", "Task"),
        ("parser", "Thing"),
    ]
    assert list(group.attrs["scores"]) == [0.9, 0.8, 0.75]
    assert list(doc.ents) == list(group)
    assert relations(doc) == [
        ("tagger", "Thing", "used-for", "parsing", 0.7),
        ("tagger", "Thing", "compare", "parser", 0.6),
    ]
    assert doc._.relations[0].head == group[0]


def test_entities_that_are_there_stay(given):
    nlp = pipeline(given)
    doc = nlp.make_doc("A tagger helps parsing.")
    doc.ents = [Span(doc, 0, 2, label="PHRASE")]
    doc = nlp.get_pipe("cascade_srn")(doc)
    assert [(e.text, e.label_) for e in doc.ents] == [("A tagger", "PHRASE"), ("parsing", "Task")]
    assert len(doc.spans["cascade_srn"]) == 2
    assert not pipeline(given, set_ents=False)("A tagger.").ents


def test_words_of_the_model_become_whole_tokens(given):
    given.entities["tagger"] = ("Thing", 0.5)
    doc = Doc(spacy.blank("en").vocab, words=["tagger, parser.", "helps", "parsing"])
    assert {"tagger", "parser"} <= set(given.prepare(doc.text).sentences[0].words)
    found = CascadeComponent(given)(doc)
    assert [span.text for span in found.spans["cascade_srn"]] == ["tagger, parser.", "parsing"]
    # Both entities are one, with the better score.
    assert list(found.spans["cascade_srn"].attrs["scores"]) == [0.75, 0.8]
    assert [(r.head.text, r.tail.text) for r in found._.relations] == [
        ("tagger, parser.", "parsing"),
        ("tagger, parser.", "tagger, parser."),
    ]


def test_tokens_of_spacy_can_be_the_words(given):
    nlp = spacy.blank("xx")
    nlp.add_pipe("cascade_srn", config={"words": "doc"})
    nlp.get_pipe("cascade_srn")._extractor = given
    with pytest.raises(CascadeError, match="sentence boundaries"):
        nlp("A tagger  helps\nparsing.")
    nlp.add_pipe("sentencizer", first=True)
    doc = nlp("A tagger  helps\nparsing. A parser.")
    assert [span.text for span in doc.spans["cascade_srn"]] == ["tagger", "parsing", "parser"]
    assert relations(doc) == [("tagger", "Thing", "used-for", "parsing", 0.7)]
    assert len(nlp("").spans["cascade_srn"]) == 0


@pytest.mark.parametrize("language", ["en", "de", "zh", "xx"])
def test_every_language_and_batch_size_gives_the_same_as_the_extractor(model_folder, language):
    nlp = spacy.blank(language)
    nlp.add_pipe("cascade_srn", config={"model": str(model_folder), "thresholds": {"entity": 0.3}, "overlaps": "flat"})
    docs = list(nlp.pipe(TEXTS, batch_size=2))
    documents = Extractor.from_pretrained(model_folder)(TEXTS, thresholds={"entity": 0.3}, overlaps="flat")
    assert sum(len(document.relations) for document in documents)
    for doc, document in zip(docs, documents, strict=True):
        assert len(doc._.relations) == len(document.relations)
        if language != "zh":  # Chinese characters are tokens, and so are Latin ones
            assert [span.text for span in doc.spans["cascade_srn"]] == [entity.text for entity in document.entities]


def test_pipeline_is_written_with_its_model(model_folder, tmp_path):
    nlp = spacy.blank("en")
    config = {"model": str(model_folder), "thresholds": {"part-of": 0.2}, "labels": ["Thing", "part-of", "used-for"]}
    nlp.add_pipe("cascade_srn", config=config)
    nlp.to_disk(tmp_path / "whole")
    moved = (tmp_path / "whole").rename(tmp_path / "moved")
    config = (moved / "config.cfg").read_text()
    (moved / "config.cfg").write_text(config.replace(str(model_folder), "no-such-model"))
    again = spacy.load(moved)
    assert [r[:4] for r in relations(again(TEXTS[0]))] == [r[:4] for r in relations(nlp(TEXTS[0]))]
    assert relations(again(TEXTS[0]))
    assert again.pipe_labels["cascade_srn"] == ["Metric", "Task", "Thing"]


def test_docs_are_written(given):
    nlp = pipeline(given)
    doc = nlp("A tagger helps parsing.")
    assert relations(Doc(nlp.vocab).from_bytes(doc.to_bytes())) == relations(doc)
    (read,) = DocBin(store_user_data=True, docs=[doc]).get_docs(nlp.vocab)
    assert relations(read) == relations(doc)


def test_two_components_add_up(given):
    nlp = pipeline(given)
    nlp.add_pipe("cascade_srn", name="other", config={"spans_key": "other", "labels": ["Thing"]})
    nlp.get_pipe("other")._extractor = given
    doc = nlp("A tagger is no parser, and parsing is hard.")
    assert len(doc.spans["cascade_srn"]) == 3
    assert len(doc.spans["other"]) == 2
    assert len(doc._.relations) == 3


def test_errors_go_to_the_handler_of_spacy(given):
    nlp = pipeline(given)
    with pytest.raises(RuntimeError):
        list(nlp.pipe(["A tagger.", "broken"]))
    failed = []
    nlp.set_error_handler(lambda name, component, docs, error: failed.append((name, [doc.text for doc in docs])))
    docs = list(nlp.pipe(["A tagger.", "broken", "A parser."]))
    assert [doc.text for doc in docs] == ["A tagger.", "A parser."]
    assert [len(doc.ents) for doc in docs] == [1, 1]
    assert failed == [("cascade_srn", ["broken"])]


def test_component_is_pickled(model_folder):
    component = CascadeComponent(model_folder)
    doc = spacy.blank("en")(TEXTS[0])
    expected = len(component(doc)._.relations)
    assert len(pickle.loads(pickle.dumps(component))(doc)._.relations) == expected


def test_bad_options_are_refused():
    for options in ({"words": "tokens"}, {"overlaps": "nest"}):
        with pytest.raises(ConfigError):
            spacy.blank("en").add_pipe("cascade_srn", config=options)
