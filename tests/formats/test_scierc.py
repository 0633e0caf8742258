"""Both published forms of SciERC, which is not part of the project."""

import json
import os
from pathlib import Path

import pytest

from cascade_srn.formats.registry import read_documents, read_schema, write_documents
from cascade_srn.formats.reports import ESCAPES
from cascade_srn.schema import Schema

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data" / "scierc"
SCIERC = BESIDE if BESIDE.is_dir() else Path(os.environ.get("CASCADE_SRN_SCIERC", "nowhere"))
COUNTS = {"train": (350, 1861, 5598, 3219), "dev": (50, 275, 811, 455), "test": (100, 551, 1685, 974)}
N_CLUSTERS = {"train": 720, "dev": 100, "test": 195}
# SpERT's form has most brackets unescaped.
N_ESCAPES = {"dygie": {"train": 755, "dev": 98, "test": 233}, "spert": {"train": 91, "dev": 8, "test": 18}}

pytestmark = [
    pytest.mark.skipif(not SCIERC.is_dir(), reason="SciERC is not here; set CASCADE_SRN_SCIERC to its folder"),
    pytest.mark.parametrize("split", COUNTS),
]


def parsed(form, split):
    text = (SCIERC / form / f"{split}.json").read_text(encoding="utf-8")
    return json.loads(text) if form == "spert" else [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("form", ["dygie", "spert"])
def test_counts(form, split):
    stream = read_documents(SCIERC / form / f"{split}.json")
    assert stream.format == form
    list(stream)
    n_documents, n_sentences, n_entities, n_relations = COUNTS[split]
    report = stream.report
    assert report.documents == (n_documents if form == "dygie" else n_sentences)
    assert (report.sentences, report.entities, report.relations) == (n_sentences, n_entities, n_relations)
    assert not report.skipped
    assert report.clusters == (N_CLUSTERS[split] if form == "dygie" else 0)
    assert report.noted["relation repeated"] == (4 if split == "train" else 0)


@pytest.mark.parametrize("form", ["dygie", "spert"])
@pytest.mark.slow
def test_a_round_trip_loses_nothing(tmp_path, form, split):
    through = tmp_path / "through.jsonl"
    write_documents(read_documents(SCIERC / form / f"{split}.json", keep_escapes=True), through)
    write_documents(read_documents(through), tmp_path / "out.json", form)
    text = (tmp_path / "out.json").read_text(encoding="utf-8")
    written = json.loads(text) if form == "spert" else [json.loads(line) for line in text.splitlines()]
    original = parsed(form, split)
    for record in original:
        # A document without clusters is written without the field. One cluster of train repeats a mention.
        clusters = [[list(mention) for mention in dict.fromkeys(map(tuple, c))] for c in record.pop("clusters", [])]
        record |= {"clusters": clusters} if clusters else {}
    assert written == original


@pytest.mark.parametrize("form", ["dygie", "spert"])
@pytest.mark.slow
def test_escapes_are_written_back(tmp_path, form, split):
    stream = read_documents(SCIERC / form / f"{split}.json")
    documents = list(stream)
    assert stream.report.noted[ESCAPES] == N_ESCAPES[form][split]
    assert not any("-LRB-" in word or word == "``" for d in documents for s in d.sentences for word in s.words)
    write_documents(documents, tmp_path / "out.json", form, keep_escapes=True)
    text = (tmp_path / "out.json").read_text(encoding="utf-8")
    written = json.loads(text) if form == "spert" else [json.loads(line) for line in text.splitlines()]
    field = "tokens" if form == "spert" else "sentences"
    assert [record[field] for record in written] == [record[field] for record in parsed(form, split)]


@pytest.mark.slow
def test_both_forms_say_the_same(split):
    sides = []
    for form in ("dygie", "spert"):
        sentences = [s for document in read_documents(SCIERC / form / f"{split}.json") for s in document.sentences]
        # SpERT's form writes the relation types in another case.
        sides.append([(s.words, s.entities, [(t.head, t.label.lower(), t.tail) for t in s.triples]) for s in sentences])
    assert sides[0] == sides[1]


def test_the_types_are_those_of_the_data(split):
    schema = read_schema(SCIERC / "spert" / "types.json")
    found = Schema.from_documents(read_documents(SCIERC / "spert" / f"{split}.json"))
    assert schema.symmetric == {"Compare", "Conjunction"}
    assert set(found.entity_types) == set(schema.entity_types)
    assert set(found.relation_types) == set(schema.relation_types)
