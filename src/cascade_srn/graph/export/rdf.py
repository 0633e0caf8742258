"""RDF 1.1: nodes, relations, and a statement for each fact with its provenance in PROV-O and its offsets in NIF 2.0.

Triples are made row by row and serialised by pyoxigraph, which streams them, so memory does not grow with the graph.
Needs the extra ``rdf``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, BinaryIO
from urllib.parse import quote

from cascade_srn.errors import ConfigError, short_repr
from cascade_srn.graph.export import jsonld
from cascade_srn.graph.export.filtering import FilteredGraph

BASE_IRI = "urn:cascade-srn:"
"""Default beginning of the IRIs of nodes, documents and facts."""
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
"""What has an IRI below the base, such as ``urn:cascade-srn:node/crf-method``."""
_IRIS = (
    *("itsrdf:taIdentRef", "nif:referenceContext", "prov:used", "prov:wasAssociatedWith", "prov:wasDerivedFrom"),
    *("prov:wasGeneratedBy", "prov:wasQuotedFrom", "rdf:object", "rdf:predicate", "rdf:subject"),
    *("srn:evidenceFor", "srn:head", "srn:tail"),
)
TYPES = (
    dict.fromkeys(_IRIS, "@id")
    | dict.fromkeys(("nif:beginIndex", "nif:endIndex"), "xsd:nonNegativeInteger")
    | dict.fromkeys(("srn:count", "srn:documents", "srn:mentions"), "xsd:integer")
    | dict.fromkeys(("itsrdf:taConfidence", "srn:bestScore", "srn:meanScore", "srn:score"), "xsd:double")
)
"""Types of the values of properties, for the context of JSON-LD."""
_BASE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`#?\x00-\x20\x7f-\x9f]*[/:]|[A-Za-z][A-Za-z0-9+.-]*:")
# For the place of a document: its id if no other document has it.
_PLACES = """
    SELECT *, CASE WHEN document_id <> '' AND count(*) OVER (PARTITION BY document_id) = 1 THEN true ELSE false END
    AS is_unique FROM documents
"""
_PHRASES = """
    SELECT shard, "row", start, "end", min(text), max(score), list(DISTINCT node) FILTER (node IS NOT NULL) FROM (
        SELECT shard, "row", start, "end", text, score, node FROM mentions
        UNION ALL SELECT shard, "row", head_start, head_end, head_text, NULL, NULL FROM evidence
        UNION ALL SELECT shard, "row", tail_start, tail_end, tail_text, NULL, NULL FROM evidence
    ) GROUP BY ALL ORDER BY shard, "row", start, "end"
"""
_KNOWN = "coalesce(nullif(model, ''), 'unknown') AS model, coalesce(nullif(version, ''), 'unknown') AS version"
_FACTS = f"""
    SELECT shard, "row", relation, edge, edges.head, edges.label, edges.tail, sentence_start, sentence_end, head_start,
    head_end, tail_start, tail_end, score, model, version FROM (SELECT * REPLACE ({_KNOWN}) FROM evidence)
    JOIN edges USING (edge)
    ORDER BY shard, "row", relation
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
    """Write triples. ``format`` is the name of one of pyoxigraph's formats."""
    oxigraph = _load_oxigraph()
    prefixes = PREFIXES | {kind: f"{base_iri}{kind}/" for kind in KINDS}
    triples = _Triples(oxigraph, graph, base_iri).all()
    if format == "JSON_LD":
        jsonld.write(triples, handle, prefixes, TYPES)
    elif format == "N_TRIPLES":
        oxigraph.serialize(triples, handle, oxigraph.RdfFormat.N_TRIPLES)
    else:
        oxigraph.serialize(triples, handle, getattr(oxigraph.RdfFormat, format), prefixes=prefixes)


def _load_oxigraph() -> Any:
    try:
        return import_module("pyoxigraph")
    except ModuleNotFoundError as error:
        hint = "Run pip install 'cascade-srn[rdf]'"
        raise ConfigError("RDF needs pyoxigraph, which is not installed", hint) from error


class _Triples:
    """Triples of a graph. Those of one subject follow each other, so that Turtle and JSON-LD group them."""

    def __init__(self, oxigraph: Any, graph: FilteredGraph, base: str) -> None:
        self._triple, self._literal, self._named = oxigraph.Triple, oxigraph.Literal, oxigraph.NamedNode
        self._graph = graph
        self._base = base
        self._terms: dict[str, Any] = {}
        self._documents: dict[tuple[str, int], str] = {}

    def all(self) -> Iterator[Any]:
        """Yield all triples."""
        yield from self._labels()
        yield from self._nodes()
        yield from self._edges()
        yield from self._document_contexts()
        yield from self._sentences()
        yield from self._phrases()
        yield from self._facts()
        yield from self._activities()

    def _term(self, name: str) -> Any:
        """Return the IRI of a prefixed name such as ``rdf:type``."""
        if name not in self._terms:
            prefix, _, local = name.partition(":")
            self._terms[name] = self._named(PREFIXES[prefix] + local)
        return self._terms[name]

    def _iri(self, kind: str, *parts: object) -> Any:
        """Return an IRI of this graph. All characters that are not letters or digits of ASCII are escaped."""
        return self._named(f"{self._base}{kind}/{'/'.join(quote(str(part), safe='') for part in parts)}")

    def _cached_iri(self, kind: str, name: str) -> Any:
        """Return an IRI that occurs often, such as that of a relation type."""
        key = f"{kind}/{name}"
        if key not in self._terms:
            self._terms[key] = self._iri(kind, name)
        return self._terms[key]

    def _document(self, shard: str, row: int) -> str:
        return self._documents[shard, row]

    def _phrase(self, shard: str, row: int, start: int, end: int) -> Any:
        """Return the IRI of characters of a document, with a fragment as in RFC 5147."""
        return self._named(f"{self._documents[shard, row]}#char={start},{end}")

    def _describe(self, subject: Any, classes: Iterable[Any], properties: Iterable[tuple[str, Any]]) -> Iterator[Any]:
        """Yield the triples of a subject. Values that are not IRIs become literals, and None is left out."""
        for of_class in classes:
            yield self._triple(subject, self._term("rdf:type"), of_class)
        for name, value in properties:
            if value is None:
                continue
            found = value if isinstance(value, self._named | self._literal) else self._literal(value)
            yield self._triple(subject, self._term(name), found)

    def _index(self, value: int) -> Any:
        return self._literal(str(value), datatype=self._term("xsd:nonNegativeInteger"))

    def _labels(self) -> Iterator[Any]:
        for (label,) in self._graph.rows("SELECT DISTINCT label FROM nodes ORDER BY label"):
            subject = self._cached_iri("type", label)
            yield from self._describe(subject, [self._term("rdfs:Class")], [("rdfs:label", label)])
        for label, symmetric in self._graph.rows(
            'SELECT label, bool_and("symmetric") FROM edges GROUP BY label ORDER BY label'
        ):
            classes = [self._term("rdf:Property")] + [self._term("owl:SymmetricProperty")] * bool(symmetric)
            yield from self._describe(self._cached_iri("relation", label), classes, [("rdfs:label", label)])

    def _nodes(self) -> Iterator[Any]:
        rows = """
            SELECT node, name, label, n_mentions, n_documents, first_date, last_date, forms FROM nodes LEFT JOIN (
                SELECT node, list(DISTINCT text ORDER BY text) AS forms FROM mentions GROUP BY node
            ) USING (node) ORDER BY node
        """
        for node, name, label, n_mentions, n_documents, first, last, forms in self._graph.rows(rows):
            properties = [
                ("skos:prefLabel", name),
                *(("skos:altLabel", form) for form in forms or () if form != name),
                ("srn:mentions", n_mentions),
                ("srn:documents", n_documents),
                ("srn:firstDate", first),
                ("srn:lastDate", last),
            ]
            classes = [self._term("skos:Concept"), self._cached_iri("type", label)]
            yield from self._describe(self._iri("node", node), classes, properties)

    def _edges(self) -> Iterator[Any]:
        rows = """
            SELECT edge, head, label, tail, n, n_documents, best_score, mean_score, first_date, last_date, flag
            FROM edges ORDER BY edge
        """
        names = ("srn:count", "srn:documents", "srn:bestScore", "srn:meanScore", "srn:firstDate", "srn:lastDate")
        for edge, head, label, tail, *values, flag in self._graph.rows(rows):
            ends = self._iri("node", head), self._cached_iri("relation", label), self._iri("node", tail)
            yield self._triple(*ends)
            properties = [*zip(names, values, strict=True), ("srn:flag", flag or None)]
            classes = [self._term("rdf:Statement"), self._term("srn:Edge")]
            yield from self._describe(self._iri("edge", edge), classes, [*self._statement(*ends), *properties])

    def _statement(self, head: Any, relation: Any, tail: Any) -> list[tuple[str, Any]]:
        return [("rdf:subject", head), ("rdf:predicate", relation), ("rdf:object", tail)]

    def _document_contexts(self) -> Iterator[Any]:
        rows = f'SELECT document_id, shard, "row", date, title, text, is_unique FROM ({_PLACES}) ORDER BY shard, "row"'
        classes = [self._term("nif:Context"), self._term("prov:Entity")]
        for document_id, shard, row, date, title, text, is_unique in self._graph.rows(rows):
            # Ids may repeat, and then the place in the corpus is added.
            subject = self._iri("document", document_id or "-", *(() if is_unique else (shard, row)))
            self._documents[shard, row] = subject.value
            properties = [
                ("dcterms:identifier", document_id),
                ("dcterms:title", title),
                ("dcterms:date", date),
                ("nif:isString", text),
            ]
            yield from self._describe(subject, classes, properties)

    def _sentences(self) -> Iterator[Any]:
        rows = """
            SELECT DISTINCT shard, "row", sentence_start, sentence_end, sentence_text FROM evidence ORDER BY ALL
        """
        for shard, row, start, end, text in self._graph.rows(rows):
            yield from self._characters("nif:Sentence", shard, row, start, end, text)

    def _phrases(self) -> Iterator[Any]:
        for shard, row, start, end, text, score, nodes in self._graph.rows(_PHRASES):
            properties = [("itsrdf:taIdentRef", self._iri("node", node)) for node in sorted(nodes or ())]
            properties.append(("itsrdf:taConfidence", score))
            yield from self._characters("nif:Phrase", shard, row, start, end, text, properties)

    def _characters(
        self,
        of_class: str,
        shard: str,
        row: int,
        start: int,
        end: int,
        text: str,
        properties: Iterable[tuple[str, Any]] = (),
    ) -> Iterator[Any]:
        common = [
            ("nif:referenceContext", self._named(self._document(shard, row))),
            ("nif:beginIndex", self._index(start)),
            ("nif:endIndex", self._index(end)),
            ("nif:anchorOf", text),
        ]
        classes = [self._term(of_class), self._term("nif:RFC5147String")]
        yield from self._describe(self._phrase(shard, row, start, end), classes, [*common, *properties])

    def _facts(self) -> Iterator[Any]:
        classes = [self._term("rdf:Statement"), self._term("prov:Entity"), self._term("srn:Fact")]
        for row in self._graph.rows(_FACTS):
            shard, number, relation, edge, head, label, tail, *offsets, score, model, version = row
            sentence, first, second = (
                self._phrase(shard, number, *offsets[at : at + 2]) for at in range(0, len(offsets), 2)
            )
            ends = self._iri("node", head), self._cached_iri("relation", label), self._iri("node", tail)
            properties = [
                *self._statement(*ends),
                ("prov:wasDerivedFrom", self._named(self._document(shard, number))),
                ("prov:wasQuotedFrom", sentence),
                ("prov:wasGeneratedBy", self._iri("activity", model, version)),
                ("srn:evidenceFor", self._iri("edge", edge)),
                ("srn:head", first),
                ("srn:tail", second),
                ("srn:score", score),
            ]
            yield from self._describe(self._iri("fact", shard, number, relation), classes, properties)

    def _activities(self) -> Iterator[Any]:
        """Yield the extraction of each model and version, the model and the software."""
        pairs = list(self._graph.rows(f"SELECT DISTINCT {_KNOWN} FROM evidence ORDER BY ALL"))
        for model, version in pairs:
            properties = [
                ("rdfs:label", "extraction of entities and relations"),
                ("prov:used", self._iri("model", model)),
                ("prov:wasAssociatedWith", self._iri("software", version)),
            ]
            yield from self._describe(self._iri("activity", model, version), [self._term("prov:Activity")], properties)
        for model in dict.fromkeys(model for model, _ in pairs):
            properties = [("srn:sha256", None if model == "unknown" else model)]
            yield from self._describe(self._iri("model", model), [self._term("prov:Entity")], properties)
        for version in dict.fromkeys(version for _, version in pairs):
            properties = [("rdfs:label", f"cascade-srn {version}"), ("srn:version", version)]
            yield from self._describe(self._iri("software", version), [self._term("prov:SoftwareAgent")], properties)
