"""RDF, written with pyoxigraph and read with rdflib, and the reverse where both can."""

import json
import re
import sys
from collections import Counter

import pytest

from cascade_srn.apps.graph.export import export_graph
from cascade_srn.apps.graph.export.rdf import BASE_IRI, PREFIXES, check_base_iri
from cascade_srn.errors import ConfigError, MissingExtraError

FORMATS = {"turtle": "turtle", "ntriples": "nt", "jsonld": "json-ld"}
OXIGRAPH = {"turtle": "TURTLE", "ntriples": "N_TRIPLES", "jsonld": "JSON_LD"}


@pytest.mark.parametrize(
    "base",
    ["", "graph/", "http://a.example/graph", "http://a.example/#", "http://a b/", "a:<x>/", 'a:"/', "1a:/", None],
)
def test_bases_that_give_no_valid_iris_are_refused(base, tmp_path):
    with pytest.raises(ConfigError) as caught:
        check_base_iri(base)
    assert caught.value.option == "base_iri"


@pytest.mark.parametrize("base", [BASE_IRI, "http://a.example/", "https://é.example/graph/1/", "urn:x:", "x:"])
def test_bases_that_are_accepted(base):
    check_base_iri(base)


@pytest.fixture(scope="module")
def libraries():
    return pytest.importorskip("rdflib"), pytest.importorskip("pyoxigraph")


def read(rdflib, path, format):
    graph = rdflib.Graph()
    graph.parse(path, format=FORMATS[format])
    return graph


def triples_of(oxigraph, path, format):
    """Return the triples as pyoxigraph reads them, in the terms of N-Triples."""
    return {str(triple) for triple in oxigraph.parse(path=path, format=getattr(oxigraph.RdfFormat, OXIGRAPH[format]))}


@pytest.mark.slow
def test_all_formats_have_the_same_triples_in_both_libraries(any_graph, tmp_path, libraries):
    rdflib, oxigraph = libraries
    graphs, sets = [], []
    for format in FORMATS:
        path = tmp_path / format
        export_graph(any_graph, path, format)
        graphs.append(read(rdflib, path, format))
        sets.append(triples_of(oxigraph, path, format))
    assert sets[0] == sets[1] == sets[2]
    assert len(graphs[0]) == len(sets[0]) > 100
    assert set(graphs[0]) == set(graphs[1]) == set(graphs[2])
    again = tmp_path / "again.nt"
    graphs[0].serialize(again, format="nt", encoding="utf-8")
    assert triples_of(oxigraph, again, "ntriples") == sets[0]


@pytest.fixture
def parsed(any_graph, tmp_path, libraries):
    """A graph, and its Turtle as rdflib reads it, with names for namespaces."""
    rdflib, _ = libraries
    export_graph(any_graph, tmp_path / "graph.ttl", base_iri="https://a.example/g/")
    graph = read(rdflib, tmp_path / "graph.ttl", "turtle")
    return any_graph, graph, {name: rdflib.Namespace(iri) for name, iri in PREFIXES.items()}


def values(graph, subject, predicate):
    return sorted(term.toPython() for term in graph.objects(subject, predicate))


@pytest.mark.slow
def test_nodes_have_names_and_types(parsed):
    source, graph, at = parsed
    rows = source.query("SELECT * FROM nodes")
    subjects = list(graph.subjects(at["rdf"].type, at["skos"].Concept))
    names = Counter(graph.value(subject, at["skos"].prefLabel).toPython() for subject in subjects)
    assert names == Counter(row["name"] for row in rows)
    types = Counter()
    for subject in subjects:
        (of_type,) = (each for each in graph.objects(subject, at["rdf"].type) if each != at["skos"].Concept)
        types[graph.value(of_type, at["rdfs"].label).toPython()] += 1
    assert types == Counter(row["label"] for row in rows)


@pytest.mark.slow
def test_edges_are_direct_triples_and_statements(parsed):
    source, graph, at = parsed
    name = at["skos"].prefLabel
    found = Counter()
    for edge in graph.subjects(at["rdf"].type, at["srn"].Edge):
        ends = [graph.value(edge, at["rdf"][role]) for role in ("subject", "predicate", "object")]
        assert tuple(ends) in graph
        count = graph.value(edge, at["srn"]["count"]).toPython()
        label = graph.value(ends[1], at["rdfs"].label).toPython()
        score = graph.value(edge, at["srn"].bestScore)
        texts = (graph.value(ends[0], name).toPython(), label, graph.value(ends[2], name).toPython())
        found[(*texts, count, None if score is None else score.toPython())] += 1
    rows = source.query(
        "SELECT h.name, e.label, t.name AS tail, n, round(best_score::DOUBLE, 6) AS score FROM edges e "
        "JOIN nodes h ON h.node = e.head JOIN nodes t ON t.node = e.tail"
    )
    assert found == Counter(tuple(row.values()) for row in rows)


@pytest.mark.slow
def test_facts_lead_to_document_sentence_offsets_model_and_version(parsed):
    source, graph, at = parsed
    prov, nif, srn = at["prov"], at["nif"], at["srn"]

    def characters(subject):
        offsets = [graph.value(subject, nif[index]).toPython() for index in ("beginIndex", "endIndex")]
        document = graph.value(subject, nif.referenceContext)
        assert str(subject) == f"{document}#char={offsets[0]},{offsets[1]}"
        return tuple(offsets)

    found = Counter()
    for fact in graph.subjects(at["rdf"].type, srn.Fact):
        document = graph.value(fact, prov.wasDerivedFrom)
        activity = graph.value(fact, prov.wasGeneratedBy)
        checksum = graph.value(graph.value(activity, prov.used), srn.sha256)
        version = graph.value(graph.value(activity, prov.wasAssociatedWith), srn.version).toPython()
        sentence = graph.value(fact, prov.wasQuotedFrom)
        places = [characters(each) for each in (sentence, graph.value(fact, srn.head), graph.value(fact, srn.tail))]
        assert graph.value(graph.value(fact, srn.evidenceFor), at["rdf"].object) == graph.value(fact, at["rdf"].object)
        identifier = graph.value(document, at["dcterms"].identifier).toPython()
        text = graph.value(sentence, nif.anchorOf)
        found[(identifier, *places, None if checksum is None else checksum.toPython(), version, text is not None)] += 1
    expected = Counter(
        (
            row["document_id"],
            (row["sentence_start"], row["sentence_end"]),
            (row["head_start"], row["head_end"]),
            (row["tail_start"], row["tail_end"]),
            row["model"],
            row["version"] or "unknown",
            True,
        )
        for row in source.query("SELECT * FROM evidence")
    )
    assert found == expected


@pytest.mark.slow
def test_mentions_point_to_their_text_and_node(parsed):
    source, graph, at = parsed
    nif = at["nif"]
    found = set()
    for phrase in graph.subjects(at["rdf"].type, nif.Phrase):
        for node in graph.objects(phrase, at["itsrdf"].taIdentRef):
            start, end = (graph.value(phrase, nif[index]).toPython() for index in ("beginIndex", "endIndex"))
            name = graph.value(node, at["skos"].prefLabel).toPython()
            found.add((name, values(graph, phrase, nif.anchorOf)[0], start, end))
    rows = source.query('SELECT name, m.text, start, "end" FROM mentions m JOIN nodes USING (node)')
    assert found == {tuple(row.values()) for row in rows}
    for context in graph.subjects(at["rdf"].type, nif.Context):
        assert graph.value(context, at["dcterms"].identifier) is not None


@pytest.mark.slow
def test_each_document_has_an_iri_even_where_ids_repeat(parsed):
    source, graph, at = parsed
    assert len(set(graph.subjects(at["rdf"].type, at["nif"].Context))) == len(source.query("SELECT * FROM documents"))


@pytest.mark.slow
@pytest.mark.parametrize("base", [BASE_IRI, "https://a.example/g/"])
def test_iris_are_valid_and_below_the_base(strange_graph, tmp_path, libraries, base):
    _, oxigraph = libraries
    export_graph(strange_graph, tmp_path / "graph.nt", base_iri=base)
    iri = re.compile(r"[a-z]+:[A-Za-z0-9/:.#=,~_%-]+")
    for triple in oxigraph.parse(path=tmp_path / "graph.nt", format=oxigraph.RdfFormat.N_TRIPLES):
        assert triple.subject.value.startswith(base)
        assert iri.fullmatch(triple.subject.value), triple.subject
        assert iri.fullmatch(triple.predicate.value)


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_rdf_is_the_same_each_time(strange_graph, tmp_path, libraries, format):
    for name in ("first", "second"):
        export_graph(strange_graph, tmp_path / name, format)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_jsonld_needs_no_library(any_graph, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    report = export_graph(any_graph, tmp_path / "graph.jsonld")
    found = json.loads((tmp_path / "graph.jsonld").read_text(encoding="utf-8"))
    assert found["@context"]["node"] == f"{BASE_IRI}node/"
    types = Counter(name for resource in found["@graph"] for name in resource.get("@type", ()))
    assert (types["skos:Concept"], types["srn:Edge"]) == (report.n_nodes, report.n_edges)
    assert types["srn:Fact"] == any_graph.record["counts"]["evidence"]


def test_a_missing_library_is_reported(sample_graph, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    with pytest.raises(MissingExtraError) as caught:
        export_graph(sample_graph, tmp_path / "graph.ttl")
    assert "cascade-srn[graph]" in caught.value.hint
    assert not (tmp_path / "graph.ttl").exists()
