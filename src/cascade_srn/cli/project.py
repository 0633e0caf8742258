"""``cascade-srn project``: create annotation projects, train with them, and exchange their annotations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cascade_srn.cli.failures import FoldedNotes, format_option, print_note
from cascade_srn.cli.options import (
    FORMAT_NAMES,
    Alignment,
    IdField,
    KeptParts,
    SegmenterName,
    TextEncoding,
    TextField,
    find_segmenter,
    make_settings,
    split_names,
)
from cascade_srn.errors import DataError, TrainingError

app = typer.Typer(
    help="Create annotation projects, train with them, and exchange and compare annotations.", no_args_is_help=True
)

_Folder = Annotated[Path, typer.Argument(metavar="PROJECT", help="Folder of the project.")]
_Per = Annotated[str, typer.Option(metavar="auto|file|line|record", help="Unit of raw text that is one document.")]
_Json = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]


@app.command()
def create(
    project: Annotated[Path, typer.Argument(metavar="PROJECT", help="New or empty folder.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE|FOLDER|PATTERN]…",
            help="Raw text: .txt, .jsonl, .csv, .tsv, .parquet and .pdf files, folders, or quoted patterns.",
        ),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Annotated documents, which are done already. Repeatable."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="YAML file with labels and definitions. Default: those of the data, or of the model."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="M", help="Model for suggestions and to train from: folder, name or hub id.")
    ] = None,
    guidelines: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Markdown file with guidelines for annotators.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the project. Default: that of the folder.")] = "",
    per: _Per = "auto",
    field: TextField = "text",
    id_field: IdField = "id",
    encoding: TextEncoding = None,
    from_format: Annotated[
        str | None, typer.Option("--from", metavar="F", help=f"Format of --data: {FORMAT_NAMES}. Default: detected.")
    ] = None,
    align: Alignment = "exact",
    segmenter: SegmenterName = "rules",
    keep_parts: KeptParts = "",
    annotator: Annotated[str, typer.Option(help="Name of the annotator of --data.")] = "imported",
    held_out: Annotated[
        float, typer.Option(metavar="X", help="Share of the documents to score models on, which are not trained on.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed of the choice of these documents and of training.")] = 0,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data. Default: by its size.")] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="E", help="Without --model: pretrained encoder to train. Default: start from the bundled model."
        ),
    ] = None,
) -> None:
    """Create an annotation project from raw text or annotated data."""
    from cascade_srn.apps.annotation.exchange import ProjectInput, create_project
    from cascade_srn.apps.annotation.project import ProjectSettings

    arguments = locals()
    split, kept = find_segmenter(segmenter), split_names(keep_parts)
    given = make_settings(
        ProjectInput,
        arguments,
        texts=texts or (),
        data=data or (),
        format=from_format,
        segmenter=split,
        keep_parts=kept,
    )
    settings = make_settings(ProjectSettings, arguments)
    notes = FoldedNotes()
    with (
        format_option("from"),
        create_project(project, given, name=name, settings=settings, tell=notes.tell) as made,
    ):
        notes.finish()
        n_sentences = sum(len(document.sentences) for document in made.documents.values())
        n_done = made.count_done()
        typer.echo(f"{len(made.documents):,} documents, {n_sentences:,} sentences, {n_done:,} annotated, in {project}")
    typer.echo(f"Annotate them with: cascade-srn annotate {project}")


@app.command()
def add(
    project: _Folder,
    texts: Annotated[
        list[str], typer.Argument(metavar="FILE|FOLDER|PATTERN…", help="Raw text, as for project create.")
    ],
    per: _Per = "auto",
    field: TextField = "text",
    id_field: IdField = "id",
    encoding: TextEncoding = None,
    segmenter: SegmenterName = "rules",
    keep_parts: KeptParts = "",
) -> None:
    """Add raw text to a project. Documents that it has already are left out."""
    from cascade_srn.apps.annotation.exchange import ProjectInput, add_texts
    from cascade_srn.apps.annotation.project import Project

    split, kept = find_segmenter(segmenter), split_names(keep_parts)
    given = make_settings(ProjectInput, locals(), segmenter=split, keep_parts=kept)
    notes = FoldedNotes()
    with Project.open(project) as opened:
        n_added = add_texts(opened, given, tell=notes.tell)
        notes.finish()
        typer.echo(f"{n_added:,} documents added, {len(opened.documents):,} in all")


@app.command()
def status(project: _Folder, json: _Json = False) -> None:
    """Show the labels, annotators and scores of a project. It may be open in a browser."""
    from cascade_srn.apps.annotation.learning import current_model, describe_uncertainty, read_curve
    from cascade_srn.apps.annotation.project import Project
    from cascade_srn.apps.annotation.teaching.summary import describe, summarize

    with Project.open(project, read_only=True) as opened:
        curve = read_curve(opened)
        taught = summarize(opened)
        found: dict[str, Any] = {
            "name": opened.name,
            "labels": opened.labels.to_dict(),
            "documents": len(opened.documents),
            "sentences": sum(len(document.sentences) for document in opened.documents.values()),
            "held_out": sum(map(opened.is_held_out, opened.documents)),
            "done": opened.count_done(),
            "annotators": {name: opened.count_done(name) for name in opened.annotators},
            "trained": current_model(opened) != opened.model,
            "model": None if opened.model is None else Path(opened.model).name,
            "curve": curve,
        }
        found |= {} if taught is None else {"teaching": taught}
    if json:
        _print_json(found)
        return
    kinds = {kind: ", ".join(one["label"] for one in found["labels"][kind]) for kind in ("entities", "relations")}
    typer.echo(
        f"{found['name']}: {found['documents']:,} documents, {found['sentences']:,} sentences, {found['done']:,} done"
    )
    typer.echo(f"Entities: {kinds['entities']}")
    typer.echo(f"Relations: {kinds['relations'] or 'none'}")
    typer.echo(f"Model: {found['model'] or 'none'}{', trained further' if found['trained'] else ''}")
    for name, count in found["annotators"].items():
        typer.echo(f"{name}: {count:,} documents done")
    for point in curve:
        typer.echo(_describe_point(point))
    if curve:
        typer.echo(describe_uncertainty(curve))
    for line in describe(taught) if taught is not None else ():
        typer.echo(line)


@app.command()
def train(
    project: _Folder,
    raw: Annotated[
        bool, typer.Option("--raw", help="Learn from the text of open documents, too. Takes several times as long.")
    ] = False,
) -> None:
    """Train a model with the documents that are done, score it, and compute suggestions.

    Ctrl-C cancels the training. The model and suggestions before it are kept.
    """
    from cascade_srn.apps.annotation.learning import CANCELLED, FAILED, Learner, describe_uncertainty, finds_nothing
    from cascade_srn.apps.annotation.project import Project
    from cascade_srn.runs.process import sigterm_as_exit

    shown = ""

    def show(progress: Mapping[str, Any]) -> None:
        nonlocal shown
        line = str(progress["message"])
        if line == "Training":
            line = f"Epoch {progress['epoch']} of {progress['n_epochs']}"
        if line != shown and not line.startswith("Suggestions for"):
            typer.echo(line, err=True)
        shown = line

    with Project.open(project) as opened, sigterm_as_exit():
        learner = Learner(opened, on_progress=show)
        try:
            learner.start(raw=raw)
            while not learner.wait(0.5):
                pass
        finally:
            learner.close()
        found = learner.status()
        folder = opened.folder
    if found["state"] in (FAILED, CANCELLED):
        hint = f"See {folder}/training/last-failure.log" if found["state"] == FAILED else ""
        raise TrainingError(found["message"], hint)
    typer.echo(_describe_point(found["curve"][-1]))
    typer.echo(describe_uncertainty(found["curve"]))
    typer.echo(found["message"])
    if finds_nothing(found["curve"][-1]) and not (folder / "training" / found["curve"][-1]["run"]).exists():
        return
    typer.echo(f"The model is in {folder}/training/{found['curve'][-1]['run']}/run/best")


@app.command()
def export(
    project: _Folder,
    target: Annotated[Path, typer.Argument(metavar="OUT", help="File or folder to write.")],
    to_format: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="F",
            help=f"{FORMAT_NAMES}. Default: from the file ending of OUT. review: suggestions marked right or wrong.",
        ),
    ] = None,
    annotator: Annotated[
        str | None,
        typer.Option(help="Whose annotations. Default: the adjudicated, or else the last ones of each document."),
    ] = None,
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Include documents that are not done.")] = False,
) -> None:
    """Write the annotated documents of a project in any format. It may be open in a browser."""
    from cascade_srn.apps.annotation.exchange import export_file
    from cascade_srn.apps.annotation.project import Project

    with format_option("to"), Project.open(project, read_only=True) as opened:
        report = export_file(opened, target, to_format, annotator, state="started" if unfinished else "done")
    typer.echo(f"{report.documents:,} documents in {target}")
    if report.lost:
        typer.echo(str(report), err=True)


@app.command("import")
def import_(
    project: _Folder,
    source: Annotated[Path, typer.Argument(metavar="IN", help="Annotated file or folder.")],
    from_format: Annotated[
        str | None, typer.Option("--from", metavar="F", help=f"{FORMAT_NAMES}. Default: detected from the content.")
    ] = None,
    annotator: Annotated[str, typer.Option(help="Name to store the annotations under.")] = "imported",
) -> None:
    """Add annotations, and documents that are new, to a project. If anything does not fit, nothing changes."""
    from cascade_srn.apps.annotation.exchange import import_file
    from cascade_srn.apps.annotation.project import Project

    with format_option("from"), Project.open(project) as opened:
        done = import_file(opened, source, from_format, annotator)
    typer.echo(f"{done.annotations:,} documents annotated by {annotator}, {done.documents:,} of them new")


@app.command()
def agreement(
    project: _Folder,
    annotators: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FIRST SECOND]", help="Two annotators. Default: the only two there are."),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="Maximum number of disagreements to list.", min=0)] = 20,
    json: _Json = False,
) -> None:
    """Compare two annotators: F1, kappa over words, and disagreements."""
    from cascade_srn.apps.annotation.agreement import measure_agreement
    from cascade_srn.apps.annotation.project import ADJUDICATED, Project

    with Project.open(project, read_only=True) as opened:
        names = annotators or [name for name in opened.annotators if name != ADJUDICATED]
        if len(names) != 2:
            known = ", ".join(opened.annotators) or "none"
            raise DataError(f"an agreement is between two annotators, not {len(names)}", f"Name two of: {known}")
        found = measure_agreement(opened, *names).to_dict()
    if json:
        _print_json(found)
        return
    typer.echo(f"{names[0]} and {names[1]}, {found['n_documents']:,} documents")
    for kind in ("entities", "relations"):
        f1 = found[kind]["f1"]
        typer.echo(f"{kind}: F1 {'-' if f1 is None else f'{100 * f1:.1f}'} ({found[kind]['n']:,} in all)")
    kappa = found["kappa"]
    typer.echo(f"kappa over words: {'does not apply' if kappa is None else f'{kappa:.3f}'}")
    for one in found["disagreements"][:limit]:
        first, second = (_describe_item(one[side]) for side in ("first", "second"))
        typer.echo(f"{one['document']}, sentence {one['sentence'] + 1}: {first} / {second}")
    if len(found["disagreements"]) > limit:
        print_note(f"{len(found['disagreements']) - limit} more disagreements; see --limit and --json")


def _describe_item(item: dict[str, Any] | None) -> str:
    if item is None:
        return "nothing"
    if "head" in item:
        return f"{item['head']['text']!r} {item['label']} {item['tail']['text']!r}"
    return f"{item['text']!r} {item['label']}"


def _describe_point(point: dict[str, Any]) -> str:
    parts = [f"{point['n_sentences']:,} sentences"]
    for name, key in (("NER", "ner"), ("strict RE", "re")):
        if point[key] is None:
            parts.append(f"{name} no score")
        else:
            low, high = 100 * point[f"{key}_low"], 100 * point[f"{key}_high"]
            parts.append(f"{name} F1 {100 * point[key]:.1f} ({low:.1f} to {high:.1f})")
    return ", ".join(parts)


def _print_json(value: Any) -> None:
    from cascade_srn.formats.files import to_json

    typer.echo(to_json(value))
