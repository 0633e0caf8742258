"""The documents of a recipe, and documents that are held out of the training data."""

import hashlib
import random
from collections import Counter
from dataclasses import replace

import pytest
from tests.training.runs import small_recipe
from tests.twelve_sentences import DOCUMENTS

from cascade_srn.errors import ConfigError, DataError, SchemaError
from cascade_srn.formats.registry import write_documents, write_schema
from cascade_srn.schema import RelationConstraints, Schema
from cascade_srn.training.corpus import compute_checksums, count_labels, hold_out, read_corpus
from cascade_srn.training.recipe import DataSettings
from cascade_srn.types import Document, Sentence, Span, Triple


@pytest.fixture
def settings(tmp_path):
    write_documents(DOCUMENTS, tmp_path / "train.jsonl")
    write_documents(DOCUMENTS[:3], tmp_path / "dev.jsonl")
    return DataSettings(str(tmp_path / "train.jsonl"), str(tmp_path / "dev.jsonl"), symmetric=("married-to",))


def test_documents_are_read_and_counted(settings, tmp_path):
    corpus = read_corpus(settings)
    assert corpus.train == list(DOCUMENTS)
    assert corpus.dev == list(DOCUMENTS[:3])
    assert corpus.test == []
    described = corpus.to_dict()
    assert described["schema"]["symmetric"] == ["married-to"]
    counts = described["dev"].pop("by_label")
    assert sum(counts.values()) == 9 + 6
    assert counts["Person"] == sum(one.label == "Person" for document in DOCUMENTS[:3] for one in document.entities)
    assert described["dev"] == {
        "path": settings.dev,
        "sha256": hashlib.sha256((tmp_path / "dev.jsonl").read_bytes()).hexdigest(),
        "documents": 3,
        "sentences": 3,
        "words": 29,
        "entities": 9,
        "relations": 6,
        "skipped": {},
        "noted": {},
    }


def test_a_schema_file_determines_the_labels(settings, tmp_path):
    schema = Schema(("Place", "Person", "Organization"), ("married-to", "leads", "located-in"))
    write_schema(schema, tmp_path / "schema.json")
    chosen = DataSettings(settings.train, schema=str(tmp_path / "schema.json"))
    assert read_corpus(chosen).schema == schema


def test_malformed_records_can_be_skipped(settings, tmp_path):
    with (tmp_path / "train.jsonl").open("a", encoding="utf-8") as handle:
        handle.write("{}\n")
    with pytest.raises(DataError, match="line 13"):
        read_corpus(settings)
    corpus = read_corpus(DataSettings(settings.train, skip_malformed=True))
    assert sum(corpus.to_dict()["train"]["skipped"].values()) == 1


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_a_missing_file_is_named_with_its_key(settings, split):
    values = {**settings.to_dict(), split: "no/such.json"}
    with pytest.raises(DataError, match=f"data.{split} is 'no/such.json'") as caught:
        read_corpus(DataSettings.from_dict(values))
    assert caught.value.option == f"data.{split}"


def test_a_missing_schema():
    with pytest.raises(DataError, match="data.schema is 's.json'"):
        read_corpus(DataSettings(__file__, schema="s.json"))


def test_a_symmetric_relation_that_does_not_occur(settings):
    with pytest.raises(SchemaError, match="'marries'"):
        read_corpus(DataSettings(settings.train, symmetric=("marries",)))


def test_development_documents_without_annotation_are_refused(tmp_path):
    """All weights would be equally good on them, and the first ones kept."""
    recipe = small_recipe(tmp_path)
    plain = [Document(d.text, tuple(s.annotated((), ()) for s in d.sentences), d.id) for d in DOCUMENTS[:6]]
    write_documents(plain, tmp_path / "dev.jsonl")
    with pytest.raises(DataError, match="data.dev"):
        read_corpus(recipe.data)


class TestConstraints:
    def test_they_are_learned_from_the_training_documents(self, settings, tmp_path):
        many = [Document(d.text, d.sentences, f"{copy}-{d.id}") for copy in range(20) for d in DOCUMENTS]
        write_documents(many, tmp_path / "train.jsonl")
        schema = read_corpus(settings).schema
        assert schema.constraints == schema.learn_constraints(many, again=True).constraints
        assert schema.constraints
        assert read_corpus(replace(settings, min_pair_count=0)).schema.constraints == {}

    def test_they_are_declared_in_the_recipe(self, settings):
        declared = {"leads": RelationConstraints(heads=("Person",), acyclic=True)}
        assert read_corpus(replace(settings, constraints=declared)).schema.constraints == declared
        with pytest.raises(SchemaError, match="'leeds'.* 'leads'"):
            read_corpus(replace(settings, constraints={"leeds": RelationConstraints()}))

    def test_they_are_declared_in_a_schema_file(self, settings, tmp_path):
        schema = replace(read_corpus(settings).schema, constraints={"leads": RelationConstraints(heads=("Person",))})
        write_schema(schema, tmp_path / "schema.json")
        chosen = DataSettings(settings.train, schema=str(tmp_path / "schema.json"))
        assert read_corpus(chosen).schema.constraints == schema.constraints
        with pytest.raises(ConfigError, match="data.constraints"):
            replace(chosen, constraints=schema.constraints)


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
