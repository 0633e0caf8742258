"""``cascade-srn graph``: build a knowledge graph from extracted documents, ask it, and export it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cascade_srn.cli.failures import join_lines
from cascade_srn.cli.graph_ask import neighbours, path, trends, triples
from cascade_srn.cli.graph_change import print_counts, print_report, remove, sync, update
from cascade_srn.cli.graph_serve import serve
from cascade_srn.cli.options import make_settings

app = typer.Typer(help="Build, change, ask, export and explore knowledge graphs.", no_args_is_help=True)
for command in (triples, neighbours, path, trends, serve, update, remove, sync):
    app.command()(command)

# Typed here, since importing the exports would slow down the help.
EXPORT_FORMATS = "graphml, gexf, turtle, ntriples, jsonld, neo4j-csv, neo4j-parquet or csv"
_Files = Annotated[
    list[Path],
    typer.Argument(metavar="CORPUS…", help="Folders of corpus jobs, or extracted JSON lines, also compressed."),
]
_Labels = Annotated[str | None, typer.Option(metavar="A,B,…", help="Relation types without a direction.")]


@app.command()
def build(
    corpus: _Files,
    output: Annotated[Path, typer.Option(metavar="DIR", help="New folder for the graph.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a graph in this folder.")] = False,
    text: Annotated[
        bool, typer.Option("--text/--no-text", help="Merge forms that differ in case, hyphens, plural, …")
    ] = True,
    types: Annotated[bool, typer.Option("--types/--no-types", help="Merge types of the same text, by a vote.")] = True,
    heads: Annotated[bool, typer.Option("--heads/--no-heads", help='Merge "BERT model" with "BERT".')] = True,
    acronyms: Annotated[bool, typer.Option("--acronyms/--no-acronyms", help="Merge acronyms with long forms.")] = True,
    fuzzy: Annotated[bool, typer.Option("--fuzzy/--no-fuzzy", help="Merge misspelled and inflected forms.")] = True,
    fuzzy_threshold: Annotated[float, typer.Option(metavar="X", help="Minimum similarity of a fuzzy match.")] = 0.9,
    keep_generic: Annotated[bool, typer.Option("--keep-generic", help='Keep mentions such as "this method".')] = False,
    generic_label: Annotated[
        list[str] | None, typer.Option(metavar="TYPE", help="Entity type to leave out. Repeatable. Default: Generic.")
    ] = None,
    coreference: Annotated[
        bool, typer.Option("--coreference", help='Resolve "this method" by the clusters of JSON lines.')
    ] = False,
    aliases: Annotated[Path | None, typer.Option(metavar="FILE", help="Aliases: canonical, alias, label.")] = None,
    merges: Annotated[Path | None, typer.Option(metavar="FILE", help="Forms to merge: text, into, label.")] = None,
    splits: Annotated[Path | None, typer.Option(metavar="FILE", help="Forms to keep apart: text, from.")] = None,
    vocabulary: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Known things: CSV (id, name, aliases, type), SKOS or Wikidata.")
    ] = None,
    vocabulary_threshold: Annotated[
        float, typer.Option(metavar="X", help="Minimum similarity of a link by character n-grams.")
    ] = 0.75,
    vocabulary_language: Annotated[
        str, typer.Option(metavar="L", help="Language of names in SKOS and Wikidata; * for all.")
    ] = "en",
    schema: Annotated[
        Path | None, typer.Option(metavar="PATH", help="File with the label set, or folder of the model.")
    ] = None,
    symmetric: _Labels = None,
    acyclic: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Relation types whose cycles are flagged.")
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(metavar="negated,hedged", help="Relations to keep besides those that sentences assert."),
    ] = None,
    min_score: Annotated[float, typer.Option(metavar="X", help="Leave out relations with a lower score.")] = 0.0,
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="X|LABEL=X,…",
            help="Leave out relations so that the others have this precision, with 95 % confidence. The model that "
            "made them is --schema, or the bundled one.",
        ),
    ] = None,
    min_count: Annotated[int, typer.Option(metavar="N", help="Leave out edges with fewer relations.")] = 1,
    date_field: Annotated[
        str | None, typer.Option(metavar="NAME", help="Field of the documents with their date, or id.")
    ] = None,
    date_pattern: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Where the date is in that field, such as ^\\d{4}.")
    ] = None,
    title_field: Annotated[
        str | None, typer.Option(metavar="NAME", help="Field of the documents with their title.")
    ] = None,
) -> None:
    """Merge the entities and relations of many documents into a graph.

    The folder has the tables as Parquet and in a DuckDB file.
    """
    given = locals()
    from cascade_srn.apps.graph import GraphSettings
    from cascade_srn.apps.graph import build as build_graph

    settings = make_settings(
        GraphSettings,
        given | {name: _as_text(given[name]) for name in ("aliases", "merges", "splits", "vocabulary", "schema")},
        generic=keep_generic,
        generic_labels=tuple(generic_label) if generic_label else GraphSettings.generic_labels,
        symmetric=_as_list(symmetric),
        acyclic=_as_list(acyclic),
        keep=_as_list(keep) or (),
    )
    report = build_graph(corpus, output, settings, overwrite=overwrite)
    print_report(report)
    print_counts("merged", report.merges)
    print_counts("left out", report.dropped)
    print_counts("flagged", report.flags)


@app.command()
def explain(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the graph.")],
    node: Annotated[str, typer.Argument(help="Id of the node, or a name.")],
    limit: Annotated[int, typer.Option(metavar="N", help="Maximum number of lines in each part.", min=1)] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show the forms, merges, reasons and mentions of a node."""
    from cascade_srn.apps.graph import open_graph

    with open_graph(folder) as graph:
        found = graph.explain(graph.resolve(node), limit=None if json else limit)
    if json:
        from cascade_srn.formats.files import to_json

        typer.echo(to_json(found))
        return
    row = found["node"]
    typer.echo(f"{row['node']}: {row['name']} ({row['label']})")
    typer.echo(f"{row['n_mentions']:,} mentions in {row['n_documents']:,} documents, {row['degree']:,} edges")
    typer.echo(f"votes: {row['votes']}")
    _print_rows("Vocabulary", found.get("links", []), "{identifier}: {name} ({link}, {score:g})")
    _print_rows("Forms", found["forms"], "{n:>6}  {text} ({label}), {step}")
    _print_rows("Merges", found["merges"], "{step:>8}  {text} ({label}) into {into_text} ({into_label}): {reason}")
    _print_rows("Mentions", found["mentions"], "{document_id} [{start}, {end}): {text} ({label})")


@app.command()
def export(
    graph: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the graph.")],
    output: Annotated[Path, typer.Option(metavar="PATH", help="File to write; for neo4j and csv, a new folder.")],
    format: Annotated[
        str | None, typer.Option(metavar="F", help=f"{EXPORT_FORMATS}. Default: from the file ending of PATH.")
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

    chosen = ExportFilter(min_score, min_count, _as_list(labels) or (), _as_list(relations) or ())
    report = export_graph(graph, output, format, chosen=chosen, base_iri=base_iri, overwrite=overwrite)
    counts = f"{report.n_nodes:,} nodes and {report.n_edges:,} edges"
    typer.echo(join_lines(f"Wrote {counts} to {output} ({report.format})."), err=True)
    if report.next_step:
        typer.echo(f"To import the files, run this in {output}:", err=True)
        typer.echo(report.next_step)


def _print_rows(title: str, rows: list[dict[str, Any]], line: str) -> None:
    if rows:
        typer.echo(f"\n{title}")
    for row in rows:
        typer.echo(line.format_map(row))


def _as_text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _as_list(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())
