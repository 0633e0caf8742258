"""RDF 1.1: Turtle and N-Triples through pyoxigraph, and JSON-LD.

Nodes are SKOS concepts. Each fact, which is one extracted relation, is an RDF statement with its provenance in PROV-O:
the document, the sentence, and the activity with the model and the software. Characters are described in NIF 2.0.
Resources are made row by row and serialised as a stream, so memory hardly grows with the graph. Turtle and N-Triples
need the extra ``rdf``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import quote

from cascade_srn.apps.graph.export.filtering import FilteredGraph
from cascade_srn.apps.graph.generic import COREFERENCE
from cascade_srn.apps.graph.link import NGRAM
from cascade_srn.apps.graph.vocabulary import WIKIDATA
from cascade_srn.errors import ConfigError, require, short_repr

BASE_IRI = "urn:cascade-srn:"
"""Default beginning of the IRIs of nodes, documents and facts."""
_SCHEME = "[A-Za-z][A-Za-z0-9+.-]*:"
_BASE = re.compile(rf"{_SCHEME}([^\s<>\"{{}}|\\^`#?\x00-\x20\x7f-\x9f]*[/:])?")
# Other identifiers may have a colon as well, and are written as texts.
_IDENTIFIER = re.compile(r"(https?://|urn:)[^\s<>\"{}|\\^`\x00-\x20\x7f-\x9f]+")
VOCABULARY = "urn:cascade-srn:vocabulary#"
"""Beginning of the properties that no standard vocabulary has."""
PREFIXES = {
    "dcterms": "http://purl.org/dc/terms/",
    "itsrdf": "http://www.w3.org/2005/11/its/rdf#",
    "nif": "http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "prov": "http://www.w3.org/ns/prov#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "srn": VOCABULARY,
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
KINDS = ("node", "type", "relation", "edge", "document", "fact", "activity", "model", "software")
"""What has an IRI below the base: ``node:crf-method`` is ``urn:cascade-srn:node/crf-method``."""
_IRIS = (
    *("itsrdf:taIdentRef", "nif:referenceContext", "prov:used", "prov:wasAssociatedWith", "prov:wasDerivedFrom"),
    *("prov:wasGeneratedBy", "prov:wasQuotedFrom", "rdf:object", "rdf:predicate", "rdf:subject"),
    *("skos:closeMatch", "skos:exactMatch", "srn:evidenceFor", "srn:head", "srn:tail"),
)
TYPES = (
    dict.fromkeys(_IRIS, "@id")
    | dict.fromkeys(("nif:beginIndex", "nif:endIndex"), "xsd:nonNegativeInteger")
    | dict.fromkeys(("srn:count", "srn:documents", "srn:mentions", "srn:row"), "xsd:integer")
    | dict.fromkeys(("itsrdf:taConfidence", "srn:bestScore", "srn:meanScore", "srn:score"), "xsd:double")
)
"""Types of the values of properties: ``@id`` for IRIs, or a datatype. Other values are texts."""

_NODES = f"""
    SELECT node, name, label, n_mentions, n_documents, first_date, last_date, identifier, link, forms
    FROM nodes LEFT JOIN (
        SELECT node, list(DISTINCT text ORDER BY text) AS forms FROM mentions
        WHERE step IS DISTINCT FROM '{COREFERENCE}' GROUP BY node
    ) USING (node) ORDER BY node
"""
_EDGES = """
    SELECT edge, head, label, tail, n, n_documents, best_score, mean_score, first_date, last_date, nullif(flag, '')
    FROM edges ORDER BY edge
"""
_DOCUMENTS = """
    SELECT document, document_id, shard, input, "row", date, title, text,
    document_id <> '' AND count(*) OVER (PARTITION BY document_id) = 1 FROM documents ORDER BY document
"""
_SENTENCES = """
    SELECT document, sentence_start, sentence_end, min(sentence_text) FROM evidence GROUP BY ALL ORDER BY ALL
"""
_PHRASES = """
    SELECT document, start, "end", min(text), max(score), list(DISTINCT node ORDER BY node) FROM (
        SELECT document, start, "end", text, score, node FROM mentions
        UNION ALL SELECT document, head_start, head_end, head_text, NULL, NULL FROM evidence
        UNION ALL SELECT document, tail_start, tail_end, tail_text, NULL, NULL FROM evidence
    ) GROUP BY ALL ORDER BY document, start, "end"
"""
_GENERATED = "coalesce(nullif(model, ''), 'unknown') AS model, coalesce(nullif(version, ''), 'unknown') AS version"
_FACTS = f"""
    SELECT document, relation, edge, edges.head, edges.label, edges.tail, sentence_start, sentence_end, head_start,
    head_end, tail_start, tail_end, score, model, version
    FROM (SELECT * REPLACE ({_GENERATED}) FROM evidence) JOIN edges USING (edge) ORDER BY document, relation
"""


def check_base_iri(base: str) -> None:
    """Refuse a base that does not give valid IRIs."""
    if not isinstance(base, str) or not _BASE.fullmatch(base):
        raise ConfigError(
            f"the base IRI is {short_repr(base)}",
            "Give an absolute IRI that ends in a slash or a colon, such as https://example.org/graph/",
            option="base_iri",
        )


def write(format: str, graph: FilteredGraph, handle: BinaryIO, base_iri: str) -> None:
    """Write a graph as ``turtle``, ``ntriples`` or ``jsonld``."""
    prefixes = PREFIXES | {kind: f"{base_iri}{kind}/" for kind in KINDS}
    resources = describe(graph)
    if format == "jsonld":
        write_jsonld(resources, handle, prefixes)
        return
    oxigraph = require("pyoxigraph", extra="graph")
    triples = _to_triples(oxigraph, resources, prefixes)
    if format == "ntriples":
        oxigraph.serialize(triples, handle, oxigraph.RdfFormat.N_TRIPLES)
    else:
        oxigraph.serialize(triples, handle, oxigraph.RdfFormat.TURTLE, prefixes=prefixes)


def _to_triples(oxigraph: Any, resources: Iterable[Resource], prefixes: Mapping[str, str]) -> Iterator[Any]:
    """Yield the triples of resources. Those of one subject follow each other, so that Turtle groups them."""
    make_triple, make_literal, make_node = oxigraph.Triple, oxigraph.Literal, oxigraph.NamedNode

    def expand(name: str) -> Any:
        if isinstance(name, Iri):
            return make_node(name)
        prefix, _, local = name.partition(":")
        return make_node(prefixes[prefix] + local)

    expand_often = lru_cache(maxsize=10_000)(expand)
    of_type = expand("rdf:type")
    datatypes = {name: expand(datatype) for name, datatype in TYPES.items() if datatype != "@id"}
    for resource in resources:
        subject = expand(resource.name)
        for of_class in resource.types:
            yield make_triple(subject, of_type, expand_often(of_class))
        for name, value in resource.properties:
            if isinstance(value, Name):
                found = expand_often(value)
            elif name in datatypes:
                found = make_literal(str(value), datatype=datatypes[name])
            else:
                found = make_literal(value)
            yield make_triple(subject, expand_often(name), found)


def write_jsonld(resources: Iterable[Resource], handle: BinaryIO, prefixes: Mapping[str, str]) -> None:
    """Write compact JSON-LD 1.1, one resource per line.

    pyoxigraph writes the expanded form, which has no context and is several times as long.
    """
    context = dict(prefixes) | {name: {"@type": of_type} for name, of_type in TYPES.items()}
    handle.write(f'{{"@context": {json.dumps(context)}, "@graph": ['.encode())
    separator = "\n"
    for resource in resources:
        record: dict[str, Any] = {"@id": resource.name}
        if resource.types:
            record["@type"] = list(resource.types)
        for name, value in resource.properties:
            if isinstance(value, Name):
                found: Any = value if TYPES.get(name) == "@id" else {"@id": value}
            else:
                found = str(value)
            record[name] = [*record[name], found] if name in record else [found]
        plain = {name: value[0] if len(value) == 1 and name != "@id" else value for name, value in record.items()}
        handle.write(f"{separator}{json.dumps(plain, ensure_ascii=False)}".encode())
        separator = ",\n"
    handle.write(b"\n]}\n")


class Name(str):
    """An IRI as a prefixed name."""

    __slots__ = ()


class Iri(Name):
    """An IRI that is written out."""

    __slots__ = ()


Value = Name | str | int | float


class Resource(NamedTuple):
    """A resource with its classes and properties. A property may have several values."""

    name: Name
    types: tuple[Name, ...]
    properties: list[tuple[str, Value]]


def describe(graph: FilteredGraph) -> Iterator[Resource]:
    """Yield the resources of a graph."""
    yield from _describe_labels(graph)
    yield from _describe_nodes(graph)
    yield from _describe_edges(graph)
    # Names of documents by number, which other resources refer to.
    documents: dict[int, Name] = {}
    for key, resource in _describe_documents(graph):
        documents[key] = resource.name
        yield resource
    yield from _describe_characters(graph, documents)
    yield from _describe_facts(graph, documents)
    yield from _describe_activities(graph)


def _make_name(kind: str, *parts: object) -> Name:
    """Return the name of something in this graph. All characters but ASCII letters, digits and ``_.-~`` are escaped."""
    return Name(f"{kind}:{'/'.join(quote(str(part), safe='') for part in parts)}")


def _names(*names: str) -> tuple[Name, ...]:
    return tuple(map(Name, names))


def _without_none(properties: Iterable[tuple[str, Value | None]]) -> list[tuple[str, Value]]:
    return [(name, value) for name, value in properties if value is not None]


def _describe_labels(graph: FilteredGraph) -> Iterator[Resource]:
    for (label,) in graph.rows("SELECT DISTINCT label FROM nodes ORDER BY label"):
        yield Resource(_make_name("type", label), _names("rdfs:Class"), [("rdfs:label", label)])
    rows = 'SELECT label, bool_and("symmetric") FROM edges GROUP BY label ORDER BY label'
    for label, symmetric in graph.rows(rows):
        types = _names("rdf:Property", *["owl:SymmetricProperty"] * bool(symmetric))
        yield Resource(_make_name("relation", label), types, [("rdfs:label", label)])


def _describe_nodes(graph: FilteredGraph) -> Iterator[Resource]:
    is_wikidata = graph.graph.record.get("vocabulary", {}).get("format") == WIKIDATA
    base = "http://www.wikidata.org/entity/" if is_wikidata else ""
    for node, name, label, n_mentions, n_documents, first, last, identifier, link, forms in graph.rows(_NODES):
        match = "skos:closeMatch" if link == NGRAM else "skos:exactMatch"
        is_iri = identifier is not None and _IDENTIFIER.fullmatch(base + identifier)
        properties = [
            ("skos:prefLabel", name),
            *(("skos:altLabel", form) for form in forms or () if form != name),
            ("srn:mentions", n_mentions),
            ("srn:documents", n_documents),
            ("srn:firstDate", first),
            ("srn:lastDate", last),
            ("srn:identifier", identifier),
            (match, Iri(base + identifier) if is_iri else None),
        ]
        types = (Name("skos:Concept"), _make_name("type", label))
        yield Resource(_make_name("node", node), types, _without_none(properties))


def _describe_edges(graph: FilteredGraph) -> Iterator[Resource]:
    names = (
        *("srn:count", "srn:documents", "srn:bestScore", "srn:meanScore"),
        *("srn:firstDate", "srn:lastDate", "srn:flag"),
    )
    types = _names("rdf:Statement", "srn:Edge")
    for edge, head, label, tail, *values in graph.rows(_EDGES):
        statement = _make_statement(head, label, tail)
        yield Resource(_make_name("node", head), (), [(_make_name("relation", label), _make_name("node", tail))])
        properties = _without_none(zip(names, values, strict=True))
        yield Resource(_make_name("edge", edge), types, [*statement, *properties])


def _make_statement(head: str, label: str, tail: str) -> list[tuple[str, Value]]:
    return [
        ("rdf:subject", _make_name("node", head)),
        ("rdf:predicate", _make_name("relation", label)),
        ("rdf:object", _make_name("node", tail)),
    ]


def _describe_documents(graph: FilteredGraph) -> Iterator[tuple[int, Resource]]:
    types = _names("nif:Context", "prov:Entity")
    for document, document_id, shard, input, row, date, title, text, is_unique in graph.rows(_DOCUMENTS):
        # Ids may repeat, and then the number is added.
        name = _make_name("document", document_id or "-", *(() if is_unique else (document,)))
        properties = [
            ("dcterms:identifier", document_id),
            ("dcterms:title", title),
            ("dcterms:date", date),
            ("srn:shard", shard),
            ("srn:input", input),
            ("srn:row", row),
            ("nif:isString", text),
        ]
        yield document, Resource(name, types, _without_none(properties))


def _describe_characters(graph: FilteredGraph, documents: dict[int, Name]) -> Iterator[Resource]:
    """Yield the sentences of facts, and the phrases that mention a node."""
    types = _names("nif:Sentence", "nif:RFC5147String")
    for document, start, end, text in graph.rows(_SENTENCES):
        yield _make_characters(types, documents[document], start, end, text, [])
    types = _names("nif:Phrase", "nif:RFC5147String")
    for document, start, end, text, score, nodes in graph.rows(_PHRASES):
        links = [("itsrdf:taIdentRef", _make_name("node", node)) for node in nodes if node is not None]
        properties = _without_none([*links, ("itsrdf:taConfidence", score)])
        yield _make_characters(types, documents[document], start, end, text, properties)


def _make_characters(
    types: tuple[Name, ...], document: Name, start: int, end: int, text: str | None, more: list[tuple[str, Value]]
) -> Resource:
    properties: list[tuple[str, Value | None]] = [
        ("nif:referenceContext", document),
        ("nif:beginIndex", start),
        ("nif:endIndex", end),
        ("nif:anchorOf", text),  # None if the corpus job stored no texts
    ]
    return Resource(_name_characters(document, start, end), types, _without_none(properties) + more)


def _name_characters(document: Name, start: int, end: int) -> Name:
    """Return the name of characters of a document, with a fragment as in RFC 5147."""
    return Name(f"{document}#char={start},{end}")


def _describe_facts(graph: FilteredGraph, documents: dict[int, Name]) -> Iterator[Resource]:
    types = _names("rdf:Statement", "prov:Entity", "srn:Fact")
    for number, relation, edge, head, label, tail, *offsets, score, model, version in graph.rows(_FACTS):
        document = documents[number]
        sentence, first, second = (_name_characters(document, *offsets[at : at + 2]) for at in (0, 2, 4))
        properties = [
            ("prov:wasDerivedFrom", document),
            ("prov:wasQuotedFrom", sentence),
            ("prov:wasGeneratedBy", _make_name("activity", model, version)),
            ("srn:evidenceFor", _make_name("edge", edge)),
            ("srn:head", first),
            ("srn:tail", second),
            ("srn:score", score),
        ]
        name = _make_name("fact", number, relation)
        yield Resource(name, types, [*_make_statement(head, label, tail), *_without_none(properties)])


def _describe_activities(graph: FilteredGraph) -> Iterator[Resource]:
    """Yield the extraction of each model and version, the models and the software."""
    pairs = list(graph.rows(f"SELECT DISTINCT {_GENERATED} FROM evidence ORDER BY ALL"))
    for model, version in pairs:
        properties: list[tuple[str, Value]] = [
            ("rdfs:label", "extraction of entities and relations"),
            ("prov:used", _make_name("model", model)),
            ("prov:wasAssociatedWith", _make_name("software", version)),
        ]
        yield Resource(_make_name("activity", model, version), _names("prov:Activity"), properties)
    for model in dict.fromkeys(model for model, _ in pairs):
        known: list[tuple[str, Value]] = [] if model == "unknown" else [("srn:sha256", model)]
        yield Resource(_make_name("model", model), _names("prov:Entity"), known)
    for version in dict.fromkeys(version for _, version in pairs):
        properties = [("rdfs:label", f"cascade-srn {version}"), ("srn:version", version)]
        yield Resource(_make_name("software", version), _names("prov:SoftwareAgent"), properties)
