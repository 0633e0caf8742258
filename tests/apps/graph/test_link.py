"""Vocabularies of all formats, and how nodes are linked to them."""

import gzip
import json
import math
import random

import pytest
from tests.apps.graph.documents import DOCUMENTS, document, write_lines

from cascade_srn.apps.graph import GraphSettings, build, open_graph, remove
from cascade_srn.apps.graph.export import FORMATS, export_graph
from cascade_srn.apps.graph.link import Linker, NgramIndex
from cascade_srn.apps.graph.vocabulary import Entry, Vocabulary, read_vocabulary
from cascade_srn.errors import DataError

LABELS = ("Method", "Task", "Material")
TURTLE = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix ex: <http://example.org/> .
ex:scheme a skos:ConceptScheme ; skos:prefLabel "things"@en .
ex:crf a skos:Concept , <http://example.org/types#Method> ;
    skos:prefLabel "conditional  random field"@en , "bedingtes Zufallsfeld"@de ; skos:altLabel "CRF" .
ex:other a skos:Concept ; skos:prefLabel "anderes"@de .
ex:ner skos:hiddenLabel "NER"@en-GB .
"""
WIKIDATA = [
    {"id": "Q1", "type": "item", "labels": {"en": {"language": "en", "value": "kernel"}}, "aliases": []},
    {"id": "Q2", "labels": {"de": {"value": "Abbildung"}}, "aliases": {"mul": [{"value": "CRF"}], "fr": [{}]}},
    {"id": "Q3", "labels": {"de": {"value": "nichts"}}},
]


def read(path, content, **settings):
    """Write a vocabulary and read it."""
    path.write_text(content, encoding="utf-8")
    return read_vocabulary(GraphSettings(vocabulary=str(path), **settings))


def found(vocabulary):
    return {entry.id: (entry.names, entry.types) for entry in vocabulary.entries}


def test_a_table(tmp_path):
    rows = 'id,name,aliases,type\n2, CRF ,"a, b | c||",Method|Task\n1,x,,\n2,conditional random field,,\n'
    expected = {"1": (["x"], []), "2": (["CRF", "a, b", "c", "conditional random field"], ["Method", "Task"])}
    assert found(read(tmp_path / "v.csv", rows)) == expected
    listed = "- {id: 1, name: x}\n- {id: 2, name: CRF, aliases: ['a, b', c], type: [Method, Task]}\n"
    listed += "- {id: 2, name: conditional random field}\n"
    assert found(read(tmp_path / "v.yaml", listed)) == expected


def test_skos(tmp_path):
    vocabulary = read(tmp_path / "v.ttl", TURTLE)
    base = "http://example.org/"
    expected = {f"{base}crf": (["conditional random field", "CRF"], ["Method"]), f"{base}ner": (["NER"], [])}
    assert found(vocabulary) == expected
    assert vocabulary.notes == (f"{tmp_path / 'v.ttl'}: 1 of 3 entries have no name in the language of the vocabulary",)
    in_all_languages = read(tmp_path / "v.ttl", TURTLE, vocabulary_language="*")
    assert found(in_all_languages)[f"{base}other"] == (["anderes"], [])
    oxigraph = pytest.importorskip("pyoxigraph")
    for suffix in ("nt", "rdf"):
        triples = oxigraph.parse(TURTLE.encode(), oxigraph.RdfFormat.TURTLE)
        format = oxigraph.RdfFormat.from_extension(suffix)
        oxigraph.serialize((quad.triple for quad in triples), str(tmp_path / f"v.{suffix}"), format)
        copy = read_vocabulary(GraphSettings(vocabulary=str(tmp_path / f"v.{suffix}")))
        assert found(copy) == expected


def test_wikidata(tmp_path):
    dump = "[\n" + ",\n".join(map(json.dumps, WIKIDATA)) + "\n]\n"
    vocabulary = read(tmp_path / "v.json", dump)
    assert found(vocabulary) == {"Q1": (["kernel"], []), "Q2": (["CRF"], [])}
    (tmp_path / "v.jsonl.gz").write_bytes(gzip.compress(dump.encode()))
    packed = read_vocabulary(GraphSettings(vocabulary=str(tmp_path / "v.jsonl.gz")))
    assert packed.entries == vocabulary.entries


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("v.txt", "x", "format of .* is not known"),
        ("v.csv", "id,name\n", "no entries"),
        ("v.csv", "id,name,alias\n1,x,y\n", "'alias' is unknown"),
        ("v.csv", "id,name\n,x\n", "line 2: 'id' is empty"),
        ("v.ttl", "<a", "not valid RDF"),
        ("v.ttl", TURTLE.replace("@en", "@fr").replace('"CRF"', '"CRF"@fr'), "no labels of SKOS in the language 'en'"),
        ("v.jsonl", '{"id": 1}', "line 1: this is no entity"),
        ("v.jsonl", '{"id": "Q1", "labels": {"en": 5}}', "line 1: labels or aliases"),
        ("v.jsonl", "{", "line 1: this is not valid JSON"),
        ("v.jsonl", '{"id": "Q1", "labels": {"de": "x"}}', "no labels in the language 'en'"),
    ],
)
def test_mistakes_in_a_vocabulary(tmp_path, name, content, problem):
    with pytest.raises(DataError, match=problem):
        read(tmp_path / name, content)


def link(entries, name, *forms, label="Method", threshold=0.75):
    """Return the kind of link and the ids for a name. Entries are an id with names, and a type after a slash."""
    made = [Entry(id, text.partition("/")[0].split("|"), text.split("/")[1:]) for id, text in entries.items()]
    kind, rows = Linker(Vocabulary(tuple(made), "table", ""), LABELS, threshold).find(name, forms, label)
    return kind, [made[at].id for at, _, _ in rows]


def test_exact_names_come_before_normalised_ones():
    entries = {"1": "CRFs", "2": "crf model|CRF", "3": "Conditional-Random Fields"}
    assert link(entries, "CRF") == ("exact", ["2"])
    assert link(entries, "the conditional random field") == ("normalised", ["3"])


def test_the_name_of_a_node_comes_before_its_other_forms():
    entries = {"1": "named entity recognitions", "2": "NER"}
    assert link(entries, "named entity recognition", "NER") == ("normalised", ["1"])
    assert link(entries, "entity tagging", "NER") == ("exact", ["2"])
    assert link(entries, "entity tagging", "NER", "named entity recognition") == ("exact", ["2"])


def test_entries_that_fit_equally_are_left_open():
    entries = {"1": "Java", "2": "island|Java", "3": "java"}
    assert link(entries, "Java") == ("exact", ["1", "2"])


def test_types_decide_only_if_they_are_labels():
    entries = {"1": "Java/Task", "2": "Java/Island", "3": "Java/task/method"}
    assert link(entries, "Java") == ("exact", ["2", "3"])
    assert link(entries, "Java", label="Material") == ("exact", ["2"])


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("pretrained language model", "pre-trained language models"),
        ("named entity recongition", "named entity recognition"),
        ("recognition of named entities", "named entity recognition"),
        ("named entities recognition", "Named-Entity Recognition"),
    ],
)
def test_similar_names_are_linked(name, other):
    assert link({"1": other, "2": "something else"}, name) == ("n-gram", ["1"])


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("unsupervised learning", "supervised learning"),
        ("neural machine transliteration", "neural machine translation"),
        ("self attention mechanism", "attention mechanism"),
        ("dependency parsing", "dependency parser"),
        ("SemEval 2019 task", "SemEval 2018 task"),
        ("BioBERT embedding", "BioBART embedding"),
        ("language modeling", "modeling language"),
        ("semantic context", "semantic content"),
    ],
)
def test_other_things_are_not_linked(name, other):
    assert link({"1": other}, name, threshold=0.5) == ("n-gram", [])


def test_similar_names_with_the_same_score_are_left_open():
    entries = {"1": "text classificatoin", "2": "text classificatino", "3": "text classificatoins"}
    assert link(entries, "text classification", threshold=0.6) == ("n-gram", ["1", "3"])
    assert link(entries, "text classification", threshold=0.95) == ("n-gram", [])


def test_the_index_finds_what_comparing_all_texts_finds():
    rng = random.Random(0)
    texts = sorted({"".join(rng.choices("abc", k=rng.randint(1, 12))) for _ in range(200)})

    def grams(text):
        return {f" {text} "[at : at + 3] for at in range(len(text))}

    for threshold in (0.5, 0.75, 1.0):
        index = NgramIndex(texts, threshold)
        for one in texts:
            pairs = ((two, grams(one), grams(two)) for two in texts)
            cosines = {two: len(a & b) / math.sqrt(len(a) * len(b)) for two, a, b in pairs}
            expected = {two: round(cosine, 3) for two, cosine in cosines.items() if cosine >= threshold - 1e-9}
            assert dict(index.search(one)) == expected


ENTRIES = "id,name\nhttp://example.org/1,CRF\n2,named entity recognitions\n3,kernel\n4,kernel\n5,news corppus\n"


@pytest.fixture
def graph(tmp_path):
    """Folder of a graph with all kinds of links."""
    (tmp_path / "vocabulary.csv").write_text(ENTRIES)
    files = [write_lines([item], tmp_path / f"{item.id}.jsonl") for item in DOCUMENTS]
    report = build(files, tmp_path / "graph", GraphSettings(vocabulary=str(tmp_path / "vocabulary.csv")))
    assert report.links == {"exact": 1, "normalised": 1, "n-gram": 1, "ambiguous": 1, "unlinked": 6}
    return tmp_path / "graph"


def test_identifiers_are_in_the_tables_and_answers(graph):
    with open_graph(graph) as opened:
        rows = opened.query("SELECT name, identifier, link FROM nodes WHERE link IS NOT NULL ORDER BY name")
        assert [tuple(row.values()) for row in rows] == [
            ("CRF", "http://example.org/1", "exact"),
            ("kernel", None, "ambiguous"),
            ("named entity recognition", "2", "normalised"),
            ("news corpora", "5", "n-gram"),
        ]
        open_ones = opened.query(
            "SELECT links.identifier FROM links JOIN nodes USING (node) WHERE nodes.link = 'ambiguous'"
        )
        assert [row["identifier"] for row in open_ones] == ["3", "4"]
        assert opened.resolve("2") == "named-entity-recognition-task"
        assert opened.triples("CRF", "2")[0]["head_identifier"] == "http://example.org/1"
        assert [row["identifier"] for row in opened.describe("kernel-method")["links"]] == ["3", "4"]
        assert opened.to_networkx().nodes["crf-method"]["identifier"] == "http://example.org/1"
        record = opened.record["vocabulary"]
    assert (record["file"], record["format"], record["entries"]) == ("vocabulary.csv", "table", 5)


@pytest.mark.parametrize("format", FORMATS)
def test_identifiers_are_in_all_exports(graph, tmp_path, format):
    output = tmp_path / "export"
    export_graph(graph, output, format)
    if format == "neo4j-parquet":
        rows = pytest.importorskip("pyarrow.parquet").read_table(output / "entities.parquet").to_pylist()
        content = json.dumps(rows).encode()
    else:
        files = sorted(output.iterdir()) if output.is_dir() else [output]
        content = b"".join(file.read_bytes() for file in files)
    assert b"http://example.org/1" in content
    assert (b"exactMatch" in content) == (FORMATS[format].suffix in (".ttl", ".nt", ".jsonld"))


def test_a_match_in_rdf_is_an_iri(graph, tmp_path):
    oxigraph = pytest.importorskip("pyoxigraph")
    export_graph(graph, tmp_path / "graph.jsonld")
    export_graph(graph, tmp_path / "graph.nt")
    lines = (tmp_path / "graph.nt").read_text().splitlines()
    skos = "http://www.w3.org/2004/02/skos/core#"
    assert [line for line in lines if "Match>" in line] == [
        f"<urn:cascade-srn:node/crf-method> <{skos}exactMatch> <http://example.org/1> ."
    ]
    assert sum("vocabulary#identifier>" in line for line in lines) == 3
    (crf,) = [row for row in json.loads((tmp_path / "graph.jsonld").read_text())["@graph"] if "skos:exactMatch" in row]
    assert crf["skos:exactMatch"] == "http://example.org/1"
    assert list(oxigraph.parse(path=str(tmp_path / "graph.nt")))


def test_entities_of_wikidata_have_iris(tmp_path):
    (tmp_path / "v.jsonl").write_text("\n".join(map(json.dumps, WIKIDATA)))
    lines = write_lines(DOCUMENTS, tmp_path / "in.jsonl")
    build(lines, tmp_path / "graph", GraphSettings(vocabulary=str(tmp_path / "v.jsonl")))
    export_graph(tmp_path / "graph", tmp_path / "graph.ttl")
    assert "skos:exactMatch <http://www.wikidata.org/entity/Q2>" in (tmp_path / "graph.ttl").read_text()


def test_a_changed_vocabulary_is_noticed(graph, tmp_path):
    assert not remove(graph, ["2020.b"]).notes
    (tmp_path / "vocabulary.csv").write_text("id,name\n7,kernel\n")
    report = remove(graph, ["2021.c"])
    assert "vocabulary.csv has changed" in report.notes[0]
    assert report.links["exact"] == 1


def test_a_local_acronym_does_not_lead_to_another_thing(tmp_path):
    texts = ["The [noisy entity ranking/T] ( [NER/T] ) .", *["We do [named entity recognition/T] ( [NER/T] ) ."] * 3]
    items = [document(str(number), (text, [])) for number, text in enumerate(texts)]
    (tmp_path / "v.csv").write_text("id,name\n1,NER\n")
    build(write_lines(items, tmp_path / "in.jsonl"), tmp_path / "g", GraphSettings(vocabulary=str(tmp_path / "v.csv")))
    with open_graph(tmp_path / "g") as opened:
        assert [row["name"] for row in opened.query("SELECT name FROM nodes WHERE link IS NOT NULL")] == [
            "named entity recognition"
        ]
