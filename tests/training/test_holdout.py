"""Documents that are held out of the training data."""

import json
import random
from collections import Counter
from dataclasses import replace

import pytest
from tests.training.runs import small_recipe
from tests.twelve_sentences import DOCUMENTS

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.formats.registry import write_documents
from cascade_srn.training.corpus import compute_checksums, count_labels, hold_out, read_corpus
from cascade_srn.training.recipe import DataSettings
from cascade_srn.training.run import Run
from cascade_srn.types import Document, Sentence, Span, Triple


def _document(id, *labels, relation=None):
    spans = [Span(i, i + 1, label) for i, label in enumerate(labels)]
    triples = [Triple(spans[0], relation, spans[1])] if relation else []
    words = [f"{id}w{i}" for i in range(max(1, len(labels)))]
    return Document.from_sentences([Sentence.from_words(words, spans, triples)], id=str(id))


def _totals(documents):
    return sum((count_labels(document) for document in documents), Counter())


def _random_documents(n, seed=0):
    """Documents with frequent, rare and clustered labels."""
    rng = random.Random(seed)
    made = []
    for i in range(n):
        labels = rng.choices(["A", "B", "C", "D"], weights=[60, 30, 8, 2], k=rng.randint(0, 12))
        relation = rng.choice(["x", "y", None, None]) if len(labels) > 1 else None
        made.append(_document(i, *labels, relation=relation))
    return made


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_label_has_about_the_same_share(share, seed):
    documents = _random_documents(400)
    train, dev = hold_out(documents, share, seed)
    total, held = _totals(documents), _totals(dev)
    for label, count in total.items():
        assert held[label] == pytest.approx(share * count, rel=0.1, abs=3), label
    assert len(dev) == pytest.approx(share * len(documents), rel=0.15)
    assert _totals(train) + held == total


def test_stratified_documents_are_nearer_to_the_share_than_random_ones():
    documents = _random_documents(60)
    total = _totals(documents)

    def distance(dev):
        held = _totals(dev)
        return sum((held[label] - 0.2 * count) ** 2 / count for label, count in total.items())

    rng = random.Random(0)
    by_chance = [distance(rng.sample(documents, 12)) for _ in range(50)]
    stratified = [distance(hold_out(documents, 0.2, seed)[1]) for seed in range(10)]
    assert max(stratified) < sum(by_chance) / len(by_chance) / 2


def test_each_document_is_in_one_part_in_the_given_order():
    documents = _random_documents(50)
    parts = hold_out(documents, 0.2)
    for part in parts:
        assert part == [document for document in documents if document in part]
    assert sorted(document.id for part in parts for document in part) == sorted(d.id for d in documents)


def test_the_seed_determines_the_choice():
    documents = _random_documents(50)
    assert hold_out(documents, 0.2, 5) == hold_out(documents, 0.2, 5)
    assert hold_out(documents, 0.2, 5) != hold_out(documents, 0.2, 6)


def test_a_label_of_a_single_document_stays_in_train():
    documents = [_document(i, "A", "A") for i in range(10)] + [_document(10, "A", "Rare")]
    for seed in range(10):
        train, dev = hold_out(documents, 0.2, seed)
        assert documents[-1] in train
        assert dev


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_both_parts_have_an_entity(share):
    documents = [_document(0, "A"), _document(1, "B"), *(_document(i) for i in range(2, 6))]
    train, dev = hold_out(documents, share)
    assert _totals(train)
    assert _totals(dev)


@pytest.mark.parametrize("documents", [[], [_document(0, "A")], [_document(0, "A"), _document(1), _document(2)]])
def test_too_few_documents(documents):
    with pytest.raises(DataError) as caught:
        hold_out(documents, 0.1)
    assert caught.value.option == "data.dev"


class TestRecipe:
    @pytest.fixture
    def settings(self, tmp_path):
        write_documents(DOCUMENTS, tmp_path / "train.jsonl")
        return DataSettings(str(tmp_path / "train.jsonl"), 0.25, symmetric=("married-to",))

    def test_the_corpus_has_both_splits(self, settings):
        corpus = read_corpus(settings)
        train, dev = hold_out(DOCUMENTS, 0.25)
        assert (corpus.train, corpus.dev) == (train, dev)
        described = corpus.to_dict()
        assert described["dev"]["held_out"] == [document.id for document in dev]
        assert described["train"]["documents"] + described["dev"]["documents"] == len(DOCUMENTS)
        assert described["train"]["entities"] == sum(len(d.entities) for d in train)
        assert "held_out" not in described["train"]
        assert compute_checksums(settings).keys() == {"data.train"}

    def test_labels_of_both_parts_are_known(self, settings):
        whole = read_corpus(replace(settings, dev=None)).schema
        assert all(read_corpus(replace(settings, split_seed=seed)).schema == whole for seed in range(5))

    @pytest.mark.parametrize("dev", [0, 1, 1.5, -0.1, float("nan")])
    def test_a_wrong_share(self, dev):
        with pytest.raises(ConfigError) as caught:
            DataSettings.from_dict({"train": "t", "dev": dev})
        assert caught.value.option == "data.dev"

    def test_a_wrong_seed(self):
        with pytest.raises(ConfigError):
            DataSettings("t", 0.1, split_seed=-1)

    def test_a_run_holds_out_documents_and_can_be_resumed(self, tmp_path):
        recipe = small_recipe(tmp_path, data={"dev": 0.3}, training={"epochs": 2})
        for progress in Run(recipe, device="cpu"):
            if progress.save:
                break
        resumed = Run(recipe, resume=True, device="cpu")
        assert resumed.resumed_at is not None
        for _ in resumed:
            pass
        summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
        assert "dev" in summary
        assert summary["data"]["dev"]["held_out"]
