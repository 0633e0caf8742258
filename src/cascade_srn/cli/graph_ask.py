"""``cascade-srn graph triples``, ``neighbours``, ``path`` and ``trends``: questions to a graph."""

import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cascade_srn.cli.failures import print_note
from cascade_srn.config import require_choice

if TYPE_CHECKING:
    from cascade_srn.apps.graph import Filters

Row = Mapping[str, Any]

_Folder = Annotated[Path, typer.Argument(metavar="GRAPH", help="Folder of the graph.")]
_Format = Annotated[str, typer.Option(metavar="table|csv|json", help="Format of the answer.")]
_Relations = Annotated[list[str] | None, typer.Option(metavar="TYPE", help="Relation type. Repeatable. Default: all.")]
_Evidence = Annotated[int, typer.Option(metavar="N", min=0, help="Sentences to show for each relation.")]
_MinScore = Annotated[float, typer.Option(metavar="X", help="Only relations whose best score is at least this.")]
_MinCount = Annotated[int, typer.Option(metavar="N", help="Only relations with at least this number of sentences.")]
_FirstYear = Annotated[int | None, typer.Option(metavar="YEAR", help="Count documents of this year and later.")]
_LastYear = Annotated[int | None, typer.Option(metavar="YEAR", help="Count documents of this year and earlier.")]

FORMATS = ("table", "csv", "json")
_EDGE = {
    **{"head": "head", "head_name": "head_name", "head_type": "head_label", "relation": "label"},
    **{"tail": "tail", "tail_name": "tail_name", "tail_type": "tail_label", "documents": "n_documents"},
    **{"sentences": "n", "best_score": "best_score", "first_date": "first_date", "last_date": "last_date"},
    "flag": "flag",
}
# Only with a vocabulary.
_IDENTIFIERS = ("head_identifier", "tail_identifier")
_SENTENCE = ("document_id", "title", "date", "score", "sentence_text", "head_text", "tail_text")


def triples(
    graph: _Folder,
    head: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name, id or entity type of the head; * stands for any characters."),
    ] = None,
    head_type: Annotated[str | None, typer.Option(metavar="TYPE", help="Entity type of the head.")] = None,
    relation: _Relations = None,
    tail: Annotated[str | None, typer.Option(metavar="NAME", help="The same of the tail.")] = None,
    tail_type: Annotated[str | None, typer.Option(metavar="TYPE", help="Entity type of the tail.")] = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Most rows; with --by year, of each year.")] = 30,
    by: Annotated[str | None, typer.Option(metavar="year", help="Count each year by itself.")] = None,
    evidence: _Evidence = 0,
    min_score: _MinScore = 0.0,
    min_count: _MinCount = 1,
    first_year: _FirstYear = None,
    last_year: _LastYear = None,
    format: _Format = "table",
) -> None:
    """List relations by their ends and type, those in the most documents first."""
    require_choice("format", format, FORMATS, option="format")
    if by is not None:
        require_choice("by", by, ("year",), option="by")
    from cascade_srn.apps.graph import open_graph

    chosen = _filters((), relation, min_score, min_count, first_year, last_year)
    with open_graph(graph) as opened:
        rows = opened.triples(
            head,
            tail,
            chosen,
            head_type=head_type,
            tail_type=tail_type,
            by_year=by is not None,
            limit=top,
            evidence=evidence,
        )
    _print_edges(rows, format, {"year": "year"} if by else {})


def neighbours(
    graph: _Folder,
    node: Annotated[str, typer.Argument(help="Name or id of the node.")],
    relation: _Relations = None,
    type: Annotated[
        list[str] | None, typer.Option(metavar="TYPE", help="Entity type of the neighbours. Repeatable.")
    ] = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Most relations.")] = 30,
    evidence: _Evidence = 0,
    min_score: _MinScore = 0.0,
    min_count: _MinCount = 1,
    first_year: _FirstYear = None,
    last_year: _LastYear = None,
    format: _Format = "table",
) -> None:
    """List the relations of a node in both directions, those in the most documents first."""
    require_choice("format", format, FORMATS, option="format")
    from cascade_srn.apps.graph import open_graph

    chosen = _filters(type or (), relation, min_score, min_count, first_year, last_year)
    with open_graph(graph) as opened:
        rows = opened.neighbours(node, chosen, limit=top, evidence=evidence)
    _print_edges(rows, format)
    if rows and rows[0]["total"] > len(rows):
        print_note(f"{rows[0]['total'] - len(rows):,} more relations. Show more with --top.")


def path(
    graph: _Folder,
    start: Annotated[str, typer.Argument(metavar="A", help="Name or id of the first node.")],
    end: Annotated[str, typer.Argument(metavar="B", help="Name or id of the last node.")],
    relation: _Relations = None,
    type: Annotated[
        list[str] | None, typer.Option(metavar="TYPE", help="Entity type of the nodes between. Repeatable.")
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Node that must not be on the way. Repeatable.")
    ] = None,
    max_length: Annotated[int, typer.Option(metavar="N", help="Most steps of a path.")] = 5,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Most paths.")] = 3,
    evidence: _Evidence = 1,
    min_score: _MinScore = 0.0,
    min_count: _MinCount = 1,
    first_year: _FirstYear = None,
    last_year: _LastYear = None,
    format: _Format = "table",
) -> None:
    """Find the shortest paths between two nodes, with a sentence for each step."""
    require_choice("format", format, FORMATS, option="format")
    from cascade_srn.apps.graph import open_graph

    chosen = _filters(type or (), relation, min_score, min_count, first_year, last_year)
    with open_graph(graph) as opened:
        paths = opened.paths(
            start, end, chosen, without=without or (), max_length=max_length, limit=top, evidence=evidence
        )
    if format == "json":
        _print_json(paths)
    elif format == "csv":
        steps = [
            {"path": number, "step": place, **step}
            for number, found in enumerate(paths, 1)
            for place, step in enumerate(found["steps"], 1)
        ]
        _print_csv(steps, {"path": "path", "step": "step", **_EDGE})
    else:
        for number, found in enumerate(paths, 1):
            typer.echo(f"{number}. " + _line(" – ".join(node["name"] for node in found["nodes"])))
            for step in found["steps"]:
                arrow = f"–{step['label']}–" if step["symmetric"] else f"–{step['label']}→"
                typer.echo(_line(f"   {step['head_name']} {arrow} {step['tail_name']} ({step['n_documents']:,})"))
                _print_sentences(step, "      ")
    if not paths:
        print_note(f"no path of at most {max_length} steps")


def trends(
    graph: _Folder,
    nodes: Annotated[
        list[str] | None, typer.Argument(metavar="NAME…", help="Names or ids. Default: the most frequent nodes.")
    ] = None,
    type: Annotated[str | None, typer.Option(metavar="TYPE", help="Entity type of the most frequent nodes.")] = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Number of the most frequent nodes.")] = 5,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Picture to draw: .svg, .png or .pdf.")] = None,
    first_year: _FirstYear = None,
    last_year: _LastYear = None,
    format: _Format = "table",
) -> None:
    """Count the documents of each year that mention nodes."""
    require_choice("format", format, FORMATS, option="format")
    from cascade_srn.apps.graph import open_graph

    chosen = _filters((), None, 0.0, 1, first_year, last_year)
    with open_graph(graph) as opened:
        names = nodes or [row["node"] for row in opened.ranking(type=type, filters=chosen, limit=top)["rows"]]
        rows = opened.trends(names, chosen)
    if plot is not None:
        from cascade_srn.apps.graph.plot import plot_trends

        plot_trends(rows, plot)
    if format == "json":
        _print_json(rows)
    elif format == "csv":
        _print_csv(rows, {name: name for name in ("node", "name", "label", "year", "n_documents", "n_all", "share")})
    elif rows:
        years = sorted({row["year"] for row in rows})
        counts = {(row["node"], row["year"]): row["n_documents"] for row in rows}
        shown = {row["node"]: row["name"] for row in rows}
        lines = [[name, *(f"{counts[node, year]:,}" for year in years)] for node, name in shown.items()]
        totals = {row["year"]: row["n_all"] for row in rows}
        lines.append(["all documents", *(f"{totals[year]:,}" for year in years)])
        _print_table(["documents", *map(str, years)], lines, n_left=1)


def _filters(
    types: Sequence[str],
    relations: Sequence[str] | None,
    min_score: float,
    min_count: int,
    first_year: int | None,
    last_year: int | None,
) -> "Filters":
    from cascade_srn.apps.graph import Filters

    return Filters(tuple(types), tuple(relations or ()), min_score, min_count, first_year, last_year)


def _print_edges(rows: Sequence[Row], format: str, more: Mapping[str, str] | None = None) -> None:
    more = more or {}
    if format == "json":
        _print_json(rows)
    elif format == "csv":
        _print_csv(rows, {**more, **_EDGE, **{name: name for name in _IDENTIFIERS if rows and name in rows[0]}})
    elif not rows:
        print_note("no relation matches")
    else:
        lines = [
            [
                *(str(row[name]) for name in more.values()),
                *(row["head_name"], row["label"], row["tail_name"], f"{row['n_documents']:,}"),
                "" if row["best_score"] is None else f"{row['best_score']:.2f}",
            ]
            for row in rows
        ]
        headings = [*more, "head", "relation", "tail", "documents", "score"]
        _print_table(headings, lines, n_left=len(more) + 3, after=rows)


def _print_table(
    headings: Sequence[str], lines: Sequence[Sequence[str]], *, n_left: int, after: Sequence[Row] = ()
) -> None:
    """Print aligned columns, the first ones to the left, and the sentences of each row below it."""
    cells = [[_line(cell) for cell in line] for line in (headings, *lines)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for number, line in enumerate(cells):
        padded = [
            cell.ljust(width) if place < n_left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        typer.echo("  ".join(padded).rstrip())
        if number and after:
            _print_sentences(after[number - 1], "    ")


def _print_sentences(row: Row, indent: str) -> None:
    for one in row.get("evidence", ()):
        typer.echo(indent + _line(f"{one['document_id']}: {one['sentence_text'] or ''}"))


def _print_csv(rows: Iterable[Row], columns: Mapping[str, str]) -> None:
    """Print CSV. A row with evidence is repeated for each of its sentences."""
    from cascade_srn.formats.table import escape_cell

    rows = list(rows)
    sentences = _SENTENCE if any("evidence" in row for row in rows) else ()
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*columns, *sentences])
    for row in rows:
        for one in row.get("evidence") or [{}]:
            cells = [*(row[name] for name in columns.values()), *(one.get(name) for name in sentences)]
            writer.writerow(map(escape_cell, cells))


def _print_json(rows: Sequence[Row]) -> None:
    from cascade_srn.formats.files import to_json

    typer.echo(to_json(list(rows)))


def _line(text: str) -> str:
    from cascade_srn.apps.extract.writers import sanitise

    # Spaces at the start are kept.
    return text[: len(text) - len(text.lstrip())] + sanitise(text)
