"""``cascade-srn graph export``: write a graph in a format of other programs."""

from pathlib import Path
from typing import Annotated

import typer

from cascade_srn.cli.failures import join_lines

FORMATS = "graphml, gexf, turtle, ntriples, jsonld, neo4j-csv, neo4j-parquet or csv"


def export(
    graph: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the graph.")],
    output: Annotated[Path, typer.Option(metavar="PATH", help="File to write; for neo4j and csv, a new folder.")],
    format: Annotated[
        str | None, typer.Option(metavar="F", help=f"{FORMATS}. Default: from the file ending of PATH.")
    ] = None,
    min_score: Annotated[float, typer.Option(help="Only edges whose best score is at least this.")] = 0.0,
    min_count: Annotated[int, typer.Option(help="Only edges with at least this number of relations.")] = 1,
    labels: Annotated[str, typer.Option(metavar="A,B", help="Only nodes of these types. Default: all.")] = "",
    relations: Annotated[str, typer.Option(metavar="A,B", help="Only edges of these types. Default: all.")] = "",
    base_iri: Annotated[
        str, typer.Option(metavar="IRI", help="RDF: beginning of the IRIs of nodes, documents and facts.")
    ] = "urn:cascade-srn:",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier export.")] = False,
) -> None:
    """Write a graph in a format of other programs.

    The output is written atomically. Nodes without an edge are left out if --min-score, --min-count or --relations is
    given.
    """
    from cascade_srn.apps.graph.export import ExportFilter, export_graph

    chosen = ExportFilter(min_score, min_count, _split(labels), _split(relations))
    report = export_graph(graph, output, format, chosen=chosen, base_iri=base_iri, overwrite=overwrite)
    counts = f"{report.n_nodes:,} nodes and {report.n_edges:,} edges"
    typer.echo(join_lines(f"Wrote {counts} to {output} ({report.format})."), err=True)
    if report.next_step:
        typer.echo(f"To import the files, run this in {output}:", err=True)
        typer.echo(report.next_step)


def _split(names: str) -> tuple[str, ...]:
    return tuple(name for part in names.split(",") if (name := part.strip()))
