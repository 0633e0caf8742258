import hashlib
from dataclasses import replace

import pytest
from tests.training.runs import small_recipe
from tests.twelve_sentences import DOCUMENTS

from cascade_srn.errors import ConfigError, DataError, SchemaError
from cascade_srn.formats.registry import write_documents, write_schema
from cascade_srn.schema import RelationConstraints, Schema
from cascade_srn.storage.files import checksum
from cascade_srn.training.corpus import read_corpus
from cascade_srn.training.recipe import DataSettings
from cascade_srn.types import Document, Sentence, Span


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


def test_a_label_that_only_dev_has_is_part_of_the_schema(settings, tmp_path):
    odd = Document.from_sentences([Sentence.from_words(["Baltic"], [Span(0, 1, "Sea")])])
    write_documents([odd], tmp_path / "dev.jsonl")
    assert "Sea" in read_corpus(settings).schema.entity_types


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


def test_the_checksum_of_a_folder_is_that_of_all_its_files(tmp_path):
    folder = tmp_path / "brat"
    write_documents(DOCUMENTS[:2], folder, format="brat")
    before = checksum(folder)
    assert checksum(folder) == before
    changed = next(folder.glob("*.ann"))
    changed.write_text(changed.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert checksum(folder) != before


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
        assert schema.constraints == schema.learn_pairs(many, again=True).constraints
        assert schema.constraints
        assert read_corpus(replace(settings, min_pair_count=0)).schema.constraints == {}

    def test_few_relations_teach_nothing(self, settings):
        assert read_corpus(settings).schema.constraints == {}

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
