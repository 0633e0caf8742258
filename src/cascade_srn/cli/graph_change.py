"""``cascade-srn graph update``, ``remove`` and ``sync``: change a graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cascade_srn.cli.corpus import parse_workers, showing_job
from cascade_srn.cli.failures import print_note
from cascade_srn.cli.options import Device, TextEncoding

if TYPE_CHECKING:
    from cascade_srn.apps.graph import GraphReport

_Graph = Annotated[Path, typer.Argument(metavar="GRAPH", help="Folder of the graph.")]


def update(
    graph: _Graph,
    new: Annotated[list[Path], typer.Argument(metavar="NEW…", help="What graph build takes.")],
) -> None:
    """Add documents to a graph. Documents with known ids are replaced.

    The result is that of a build from all documents. Until it is complete, readers see the old graph.
    """
    from cascade_srn.apps.graph import update

    print_report(update(graph, new))


def remove(
    graph: _Graph,
    ids: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Id of a document. Repeatable. @FILE: a line each.")
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only documents of this input file; all of them without --ids.")
    ] = None,
) -> None:
    """Remove documents from a graph.

    The result is that of a build from the others. Until it is complete, readers see the old graph.
    """
    from cascade_srn.apps.graph import remove

    print_report(remove(graph, _read_ids(ids or []), file=file))


def sync(
    graph: Annotated[Path, typer.Argument(metavar="GRAPH", help="Folder of the graph, which may be new.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the files, with its subfolders.")],
    model: Annotated[
        str | None, typer.Option(metavar="M", help="Model folder, name or hub id. Default: that of the graph.")
    ] = None,
    field: Annotated[str | None, typer.Option(help="Field or column that contains the text. Default: text.")] = None,
    id_field: Annotated[str | None, typer.Option(help="Field or column of the document id. Default: id.")] = None,
    keep: Annotated[
        str | None, typer.Option(metavar="NAME,…", help="Fields or columns for dates and titles of the graph.")
    ] = None,
    encoding: TextEncoding = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Option of graph build, such as date_field=year. Repeatable."),
    ] = None,
    workers: Annotated[str, typer.Option(metavar="N|auto", help="Number of workers.")] = "auto",
    device: Device = "auto",
) -> None:
    """Make a graph of a folder of files, and keep it up to date: run the same command again.

    New and changed files are extracted, and documents of files that are gone are removed. After an interruption, the
    next run continues. Model and settings are those of the first run. The exit code is 1 if a file could not be
    processed.
    """
    from cascade_srn.apps.corpus import InputSettings
    from cascade_srn.apps.graph import GraphSettings, SyncSettings, sync

    kept = None if keep is None else keep.split(",")
    given = {"field": field, "id_field": id_field, "keep": kept, "encoding": encoding}
    values = {name: value for name, value in given.items() if value is not None}
    settings = SyncSettings(
        model=model,
        inputs=InputSettings.from_dict(values) if values else None,
        graph=GraphSettings.from_dict(_parse_settings(setting), "--set") if setting else None,
        workers=parse_workers(workers),
        device=device,
    )
    with showing_job("Run the same command again to continue.") as progress:
        report = sync(graph, folder, settings, progress=progress)
    print_report(report)
    if report.failed:
        raise typer.Exit(1)


def print_report(report: GraphReport) -> None:
    """Print notes, changes and the size of a graph."""
    for note in report.notes:
        print_note(note)
    if report.changes:
        typer.echo(", ".join(f"{count:,} {name}" for name, count in report.changes.items()))
    counts = report.counts
    typer.echo(
        f"{counts['nodes']:,} nodes and {counts['edges']:,} edges from {counts['mentions']:,} mentions and "
        f"{counts['evidence']:,} relations of {counts['documents']:,} documents, in {report.folder}"
    )
    print_counts("linked", report.links)


def print_counts(title: str, counts: Mapping[str, int]) -> None:
    """Print the counts that are not zero in one line."""
    shown = [f"{name} {count:,}" for name, count in counts.items() if count]
    if shown:
        typer.echo(f"{title}: {', '.join(shown)}")


def _read_ids(given: list[str]) -> list[str]:
    """Return ids, with those of files in place of their names."""
    from cascade_srn.formats.files import read_bytes

    found: list[str] = []
    for name in given:
        lines = read_bytes(Path(name[1:])).decode("utf-8", "replace").splitlines() if name.startswith("@") else [name]
        found += [line.strip() for line in lines if line.strip()]
    return found


def _parse_settings(given: list[str]) -> dict[str, object]:
    import yaml

    from cascade_srn.errors import ConfigError

    found: dict[str, object] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"the setting {text!r} has not the form NAME=VALUE", "Write it like date_field=year")
        found[name.strip().replace("-", "_")] = yaml.safe_load(value)
    return found
