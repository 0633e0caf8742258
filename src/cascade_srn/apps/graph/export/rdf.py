"""RDF 1.1: Turtle and N-Triples through pyoxigraph, and JSON-LD.

Resources are made row by row and serialised as a stream, so memory hardly grows with the graph. Turtle and N-Triples
need the extra ``rdf``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, BinaryIO

from cascade_srn.apps.graph.export.filtering import FilteredGraph
from cascade_srn.apps.graph.export.rdf_resources import KINDS, PREFIXES, TYPES, Name, Resource, describe
from cascade_srn.errors import ConfigError, require, short_repr

BASE_IRI = "urn:cascade-srn:"
"""Default beginning of the IRIs of nodes, documents and facts."""
_SCHEME = "[A-Za-z][A-Za-z0-9+.-]*:"
_BASE = re.compile(rf"{_SCHEME}([^\s<>\"{{}}|\\^`#?\x00-\x20\x7f-\x9f]*[/:])?")


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
    oxigraph = _load_oxigraph()
    triples = _to_triples(oxigraph, resources, prefixes)
    if format == "ntriples":
        oxigraph.serialize(triples, handle, oxigraph.RdfFormat.N_TRIPLES)
    else:
        oxigraph.serialize(triples, handle, oxigraph.RdfFormat.TURTLE, prefixes=prefixes)


def _load_oxigraph() -> Any:
    return require("pyoxigraph", extra="rdf")


def _to_triples(oxigraph: Any, resources: Iterable[Resource], prefixes: Mapping[str, str]) -> Iterator[Any]:
    """Yield the triples of resources. Those of one subject follow each other, so that Turtle groups them."""
    make_triple, make_literal, make_node = oxigraph.Triple, oxigraph.Literal, oxigraph.NamedNode

    def expand(name: str) -> Any:
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
