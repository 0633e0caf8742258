"""Write triples as compact JSON-LD 1.1, one subject per line.

pyoxigraph writes the expanded form, which has no context and is several times as long.
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Any, BinaryIO

_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_STRING = "http://www.w3.org/2001/XMLSchema#string"


def write(triples: Iterable[Any], handle: BinaryIO, prefixes: Mapping[str, str], types: Mapping[str, str]) -> None:
    """Write triples of pyoxigraph.

    Args:
        triples: The triples. Those of one subject that follow each other become one object.
        handle: The file.
        prefixes: Namespaces by prefix.
        types: Type of the values of a property: ``@id`` for IRIs, or a datatype. Other values are written with theirs.
    """
    context = dict(prefixes) | {name: {"@type": of_type} for name, of_type in types.items()}
    handle.write(f'{{"@context": {json.dumps(context)}, "@graph": ['.encode())
    separator = "\n"
    compact = _Compacter(prefixes)
    for subject, group in groupby(triples, key=attrgetter("subject")):
        record: dict[str, Any] = {"@id": compact(subject.value)}
        for triple in group:
            name, value = _property(triple, compact, types)
            record.setdefault(name, []).append(value)
        plain = {name: value[0] if type(value) is list and len(value) == 1 else value for name, value in record.items()}
        handle.write(f"{separator}{json.dumps(plain, ensure_ascii=False)}".encode())
        separator = ",\n"
    handle.write(b"\n]}\n")


def _property(triple: Any, compact: "_Compacter", types: Mapping[str, str]) -> tuple[str, Any]:
    value = triple.object
    if triple.predicate.value == _TYPE:
        return "@type", compact(value.value)
    name = compact.cached(triple.predicate.value)
    datatype = getattr(value, "datatype", None)
    if datatype is None:
        found = compact(value.value)
        return name, found if types.get(name) == "@id" else {"@id": found}
    if datatype.value == _STRING:
        return name, value.value
    short = compact.cached(datatype.value)
    return name, value.value if types.get(name) == short else {"@value": value.value, "@type": short}


class _Compacter:
    """Shortens IRIs with prefixes."""

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        self._namespaces = sorted(((iri, prefix) for prefix, iri in prefixes.items()), key=lambda pair: -len(pair[0]))
        self.cached = lru_cache(maxsize=4096)(self.__call__)

    def __call__(self, iri: str) -> str:
        """Return the prefixed name of an IRI, or the IRI if no prefix fits."""
        for namespace, prefix in self._namespaces:
            if iri.startswith(namespace):
                local = iri[len(namespace) :]
                # After a prefix, two slashes would make it an absolute IRI.
                return iri if local.startswith("//") else f"{prefix}:{local}"
        return iri
