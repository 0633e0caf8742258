"""Selection from texts, with and without a model, and the files of selected units."""

import json
from functools import cache

import pytest
from tests.small_models import NO_LIMITS, SENTENCES, small_model, spread_probabilities

from cascade_srn import read_documents
from cascade_srn.apps.annotation import STRATEGIES, UnitSettings, select
from cascade_srn.apps.annotation.selection import ReadableTexts, write_selected
from cascade_srn.apps.annotation.units import DecisionFinder
from cascade_srn.config import SearchLimits, Thresholds
from cascade_srn.errors import CascadeError, ConfigError, DataError
from cascade_srn.extractor import Extractor
from cascade_srn.inputs.sources import Text, Unreadable
from cascade_srn.text.segment import segment
from cascade_srn.types import Document

TEXTS = [
    "A tagger helps parsing and search engines. It is fast.\nTaggers and parsers need data.",
    "We train tagging models on data. Neural speech recognition systems need data.",
    "A tagger helps parsing and search engines. Accuracy measures the parser.",
]
MODEL_FREE = [name for name, kind in STRATEGIES.items() if not kind.needs_model]


@cache
def extractor():
    return make_extractor()


def make_extractor(**settings):
    # A random model has candidates everywhere, unlike a trained one.
    settings = {"thresholds": Thresholds(0.7, 0.3, 0.3), "limits": SearchLimits(), **settings}
    return Extractor(spread_probabilities(small_model(**settings)))


def chosen(found):
    return [one.document.text for one in found]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_selects_each_sentence_once(strategy):
    model = None if strategy in MODEL_FREE else extractor()
    found = select(TEXTS, 20, model=model, strategy=strategy)
    assert [one.rank for one in found] == list(range(1, len(found) + 1))
    sentences = {s.text for text in TEXTS for s in Document.from_text(text).sentences if len(s) >= 4}
    assert sorted(chosen(found)) == sorted(sentences)
    assert chosen(select(TEXTS, 2, model=model, strategy=strategy)) == chosen(found)[:2]


def test_units_say_where_they_are_from():
    documents = [Document.from_text(text, id=f"d{number}") for number, text in enumerate(TEXTS)]
    for one in select(documents, 20, strategy="random"):
        source = documents[one.position]
        assert one.source == source.id
        assert one.document.id == f"{source.id}:{one.sentence}"
        assert source.text[one.start :].startswith(one.document.text)
        assert one.document.sentences[0].text == one.document.text


def test_whole_documents():
    found = select(TEXTS, 2, model=extractor(), settings=UnitSettings("document"))
    assert {one.document.text for one in found} < set(TEXTS)
    assert all(one.sentence is None and one.document.text == TEXTS[one.position] for one in found)


def test_predictions_are_those_of_the_extractor():
    for one in select(TEXTS, 3, model=extractor()):
        (sentence,) = one.document.sentences
        (expected,) = extractor().extract(Document.from_words([sentence.words])).sentences
        assert sentence.entities == expected.entities
        assert sentence.triples == expected.triples
        assert one.document.schema == extractor().schema


@pytest.mark.parametrize("context", [0, 5])
def test_decisions_that_pass_are_the_predictions(context):
    model = make_extractor(encoder={"context_words": context}, limits=NO_LIMITS)
    document = Document.from_sentences(SENTENCES)
    (unit,) = DecisionFinder(model).find(list(UnitSettings("document").split(document, 0)))
    predicted = model.extract(document)
    labels = [item.label for item in (*predicted.entities, *predicted.relations)]
    assert labels
    assert sorted(d.label for d in unit.decisions if d.predicted) == sorted(labels)
    assert any(not decision.predicted for decision in unit.decisions)
    sentence_units = DecisionFinder(model).find(list(UnitSettings(min_words=1).split(document, 0)))
    assert [d[:2] for one in sentence_units for d in one.decisions] != []
    assert sorted(d[:2] for one in sentence_units for d in one.decisions) == sorted(d[:2] for d in unit.decisions)


@pytest.mark.parametrize("strategy", MODEL_FREE)
def test_the_seed_decides_and_the_order_of_the_texts_does_not(strategy):
    def select_with(seed, texts=TEXTS):
        return chosen(select(texts, 3, strategy=strategy, settings=UnitSettings(seed=seed)))

    assert select_with(1) == select_with(1, TEXTS[::-1])
    assert strategy != "random" or len({tuple(select_with(seed)) for seed in range(9)}) > 1


def test_annotated_sentences_are_not_selected_again():
    first = select(TEXTS, 2, strategy="random")
    rest = select(TEXTS, 20, strategy="random", annotated=[one.document for one in first])
    assert not set(chosen(first)) & set(chosen(rest))
    assert len(first) + len(rest) == len(select(TEXTS, 20, strategy="random"))


def test_annotations_of_the_input_are_not_written():
    annotated = Document.from_sentences(SENTENCES)
    assert annotated.entities
    assert not any(one.document.entities for one in select([annotated], 9, strategy="random"))


@pytest.mark.parametrize(
    ("options", "error", "option"),
    [
        ({"strategy": "uncertainty"}, ConfigError, "model"),
        ({"strategy": "best"}, ConfigError, ""),
        ({"n": 0}, ConfigError, ""),
        ({"texts": []}, DataError, "min_words"),
        ({"texts": ["No."]}, DataError, "min_words"),
        ({"texts": [7]}, DataError, ""),
        ({"texts": TEXTS[0]}, ConfigError, ""),
    ],
)
def test_wrong_options(options, error, option):
    with pytest.raises(error) as raised:
        select(**{"texts": TEXTS, "n": 1, **options})
    assert not option or raised.value.option == option


@pytest.mark.parametrize("values", [{"unit": "word"}, {"min_words": 0}, {"max_words": 3}, {"seed": -1}])
def test_wrong_settings(values):
    with pytest.raises(CascadeError):
        UnitSettings(**values)


def test_unusable_texts_are_counted_and_reported():
    told = []
    sources = [
        Text("a", TEXTS[0], "a.txt", 10),
        Unreadable(DataError("b.txt is broken"), 20),
        Text("c", "a \ud800 b", "c.txt", 30),
    ]
    texts = ReadableTexts(sources, segment, tell=told.append)
    assert [document.id for document in texts] == ["a"]
    assert (texts.n_bad, texts.position) == (2, 30)
    assert "b.txt" in told[0]
    assert "c.txt" in told[1]
    with pytest.raises(DataError):
        list(ReadableTexts(sources, segment, strict=True))


def test_tasks_have_predictions_and_no_annotations(tmp_path):
    selected = select(TEXTS, 20, model=extractor())
    write_selected(selected, tmp_path / "a.json", "label-studio", model="tiny")
    tasks = json.loads((tmp_path / "a.json").read_text())
    assert [task["data"]["rank"] for task in tasks] == [one.rank for one in selected]
    assert all("annotations" not in task for task in tasks)
    assert {found["model_version"] for task in tasks for found in task["predictions"]} == {"tiny"}
    read = list(read_documents(tmp_path / "a.json", "label-studio"))
    assert [document.entities for document in read] == [one.document.entities for one in selected]
    assert sum(len(document.relations) for document in read) > 0
