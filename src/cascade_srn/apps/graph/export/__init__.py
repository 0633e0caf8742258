"""Export graphs to formats of other programs: the registry, and the tables as CSV."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

from cascade_srn.apps.graph.export import neo4j, rdf, xml
from cascade_srn.apps.graph.export.filtering import ExportFilter, FilteredGraph
from cascade_srn.apps.graph.questions import Graph
from cascade_srn.apps.graph.store import check_folder, open_graph
from cascade_srn.config import require_choice
from cascade_srn.errors import DataError
from cascade_srn.formats.table import FORMULA, NUMBER
from cascade_srn.storage.atomic import replacing, replacing_folder

__all__ = ["FORMATS", "ExportFilter", "ExportFormat", "ExportReport", "export_graph"]

RECORD = "export.json"
_KEY = "graph_export"


@dataclass(frozen=True)
class ExportFormat:
    """Format of an export.

    Attributes:
        title: Name for people.
        suffix: File name suffix that names the format; empty for a folder.
        write_file: Writes a graph to a file. The last argument is the base IRI, which only RDF uses.
        write_folder: Writes a graph to a folder, and returns the next step for the user.
    """

    title: str
    suffix: str = ""
    write_file: Callable[[FilteredGraph, BinaryIO, str], None] | None = None
    write_folder: Callable[[FilteredGraph, Path], str] | None = None


_ORDERS = {
    "nodes": "node",
    "edges": "edge",
    "mentions": "document, entity",
    "evidence": "document, relation",
    "links": "node, identifier",
    "documents": "document",
}

# With the names of the ends, for people.
_SOURCES = {
    "edges": """(
        SELECT edges.*, heads.name AS head_name, tails.name AS tail_name
        FROM edges JOIN nodes AS heads ON heads.node = head JOIN nodes AS tails ON tails.node = tail)"""
}


def _write_tables(graph: FilteredGraph, folder: Path) -> str:
    """Write one CSV file per table, as in RFC 4180. An empty field is a missing value, and ``""`` an empty text.

    Texts that spreadsheet programs would run are escaped as in :func:`.escape_cell`.
    """
    formula, number = (pattern.replace("'", "''") for pattern in (FORMULA, NUMBER))
    for table, order in _ORDERS.items():
        escaped = ", ".join(
            f"CASE WHEN regexp_matches({name}, '^{formula}') AND NOT regexp_full_match({name}, '{number}') "
            f"THEN chr(39) || {name} ELSE {name} END AS {name}"
            for name, kind, *_ in graph.rows(f"DESCRIBE FROM {_SOURCES.get(table, table)}")
            if kind == "VARCHAR"
        )
        by = ", ".join(f"{table}.{name}" for name in order.split(", "))  # not the escaped columns
        query = f"SELECT * REPLACE ({escaped}) FROM {_SOURCES.get(table, table)} AS {table} ORDER BY {by}"
        graph.copy(query, folder / f"{table}.csv", "FORMAT csv, HEADER true")
    return ""


FORMATS = {
    "graphml": ExportFormat("GraphML", ".graphml", write_file=xml.write_graphml),
    "gexf": ExportFormat("GEXF", ".gexf", write_file=xml.write_gexf),
    "turtle": ExportFormat("RDF 1.1 Turtle", ".ttl", write_file=partial(rdf.write, "turtle")),
    "ntriples": ExportFormat("RDF 1.1 N-Triples", ".nt", write_file=partial(rdf.write, "ntriples")),
    "jsonld": ExportFormat("JSON-LD", ".jsonld", write_file=partial(rdf.write, "jsonld")),
    "neo4j-csv": ExportFormat("CSV for neo4j-admin", write_folder=partial(neo4j.write, "csv")),
    "neo4j-parquet": ExportFormat("Parquet for neo4j-admin", write_folder=partial(neo4j.write, "parquet")),
    "csv": ExportFormat("CSV", write_folder=_write_tables),
}


@dataclass(frozen=True)
class ExportReport:
    """What was exported.

    Attributes:
        format: Name of the format.
        output: The file or folder.
        n_nodes: Number of nodes.
        n_edges: Number of edges.
        next_step: What to do with the result, such as a command to run; empty for most formats.
    """

    format: str
    output: Path
    n_nodes: int
    n_edges: int
    next_step: str = field(default="", repr=False)


def export_graph(
    graph: Graph | str | Path,
    output: str | Path,
    format: str | None = None,
    *,
    chosen: ExportFilter | None = None,
    base_iri: str = rdf.BASE_IRI,
    overwrite: bool = False,
) -> ExportReport:
    """Write a graph in a format of other programs.

    Args:
        graph: A graph, or its folder.
        output: The file to write; for ``csv``, ``neo4j-csv`` and ``neo4j-parquet`` a new or empty folder. It appears
            when it is complete.
        format: One of ``FORMATS``. By default, the suffix of ``output`` determines it.
        chosen: Nodes and edges to export; all by default.
        base_iri: Beginning of the IRIs of nodes, documents and facts in RDF.
        overwrite: Replace an existing file, or the folder of an earlier export.

    Raises:
        DataError: The output exists, or cannot be written, or a label does not occur in the graph.
        ConfigError: The format is not known, a setting is invalid, or a library is not installed.

    Example:
        >>> export_graph("graph", "graph.ttl")  # doctest: +SKIP
        ExportReport(format='turtle', output=PosixPath('graph.ttl'), n_nodes=5, n_edges=6)
    """
    path = Path(output)
    name = _guess_format(path) if format is None else format
    require_choice("format", name, tuple(FORMATS), option="format")
    rdf.check_base_iri(base_iri)
    write_file, write_folder = FORMATS[name].write_file, FORMATS[name].write_folder
    if write_file:
        _check_file(path, overwrite)
    else:
        check_folder(path, "an export", lambda folder: (folder / RECORD).is_file(), overwrite=overwrite)
    with _opened(graph) as source, FilteredGraph(source, chosen or ExportFilter()) as filtered:
        next_step = ""
        if write_file is not None:
            with replacing(path) as handle:
                write_file(filtered, handle, base_iri)
        elif write_folder is not None:
            with replacing_folder(path, marker=RECORD, key=_KEY) as fresh:
                next_step = write_folder(filtered, fresh)
                record = {
                    _KEY: name,
                    "filter": asdict(filtered.chosen),
                    "models": source.record.get("models", []),
                    "counts": {"nodes": filtered.n_nodes, "edges": filtered.n_edges},
                }
                (fresh / RECORD).write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return ExportReport(name, path, filtered.n_nodes, filtered.n_edges, next_step)


def _guess_format(path: Path) -> str:
    for name, format in FORMATS.items():
        if format.suffix and path.suffix.lower() == format.suffix:
            return name
    raise DataError(
        f"the format of {path} is not known from its name",
        f"Name it: {', '.join(FORMATS)}",
        option="format",
    )


@contextmanager
def _opened(graph: Graph | str | Path) -> Iterator[Graph]:
    if isinstance(graph, Graph):
        yield graph
        return
    with open_graph(graph) as opened:
        yield opened


def _check_file(path: Path, overwrite: bool) -> None:
    if path.is_dir():
        raise DataError(f"{path} is a folder, but this format is a file", "Give the path of a file", option="output")
    if os.path.isfile(path) and not overwrite:
        raise DataError(f"{path} exists", "Choose another path, or replace it", option="overwrite")
