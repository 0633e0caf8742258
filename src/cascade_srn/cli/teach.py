"""``cascade-srn teach``: label sentences with a language model, for a person to check and a small model to learn."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cascade_srn.cli.failures import FoldedNotes, mark_reported, print_note
from cascade_srn.cli.options import IdField, SegmenterName, TextEncoding, TextField, UnitOfText, find_segmenter
from cascade_srn.errors import ConfigError

if TYPE_CHECKING:
    from cascade_srn.apps.annotation.teaching.endpoint import EndpointSettings
    from cascade_srn.apps.annotation.teaching.ledger import Ledger
    from cascade_srn.apps.annotation.teaching.prompts import Question
    from cascade_srn.types import Document

# Exit code if some questions have no answer.
SOME_OPEN = 1


def teach(
    labels: Annotated[
        Path, typer.Argument(metavar="LABELS", help="YAML file with types, their descriptions and examples.")
    ],
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|FOLDER|PATTERN…",
            help="Raw text: .txt, .jsonl, .csv, .tsv, .parquet and .pdf files, folders, or quoted patterns.",
        ),
    ],
    endpoint: Annotated[
        str, typer.Option(metavar="URL", help="OpenAI-compatible server. Its key is in $CASCADE_SRN_TEACHER_KEY.")
    ],
    model: Annotated[str, typer.Option(metavar="NAME", help="Model of the server.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PROJECT", help="Folder of the project; an existing one goes on.")
    ],
    sentences: Annotated[int, typer.Option(metavar="N", help="Number of sentences to label.")] = 300,
    budget: Annotated[
        float | None, typer.Option(metavar="X", help="Most that all answers may cost. Needs --price.")
    ] = None,
    price: Annotated[
        str | None, typer.Option(metavar="IN,OUT", help="Prices of a million tokens of questions and of answers.")
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Most tokens of all questions and answers.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Estimate the cost, and send and write nothing.")] = False,
    rounds: Annotated[
        int, typer.Option(metavar="N", help="Rounds of choosing sentences. From the second on, by a student's doubt.")
    ] = 2,
    samples: Annotated[int, typer.Option(metavar="N", help="Answers for each sentence.")] = 2,
    agreement: Annotated[
        float, typer.Option(metavar="X", help="Share of the answers that have to agree on a label.")
    ] = 0.5,
    prompt: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Own prompt. Repeatable. Default: two bundled ones.")
    ] = None,
    temperature: Annotated[float, typer.Option(metavar="X", help="Temperature if a prompt is used again.")] = 0.7,
    max_tokens: Annotated[int, typer.Option(metavar="N", help="Most tokens of an answer.")] = 1024,
    parallel: Annotated[int, typer.Option(metavar="N", help="Requests at a time.")] = 4,
    timeout: Annotated[float, typer.Option(metavar="S", help="Seconds for a whole answer.")] = 120.0,
    retries: Annotated[int, typer.Option(metavar="N", help="How often a failed request is repeated.")] = 4,
    per: UnitOfText = "auto",
    field: TextField = "text",
    id_field: IdField = "id",
    encoding: TextEncoding = None,
    segmenter: SegmenterName = "rules",
    min_words: Annotated[int, typer.Option(metavar="N", help="Leave out sentences with fewer words.")] = 4,
    max_words: Annotated[int, typer.Option(metavar="N", help="Leave out sentences with more words.")] = 100,
    held_out: Annotated[
        float, typer.Option(metavar="X", help="Share of the sentences that a person checks to score models.")
    ] = 0.2,
    encoder: Annotated[
        str | None, typer.Option(metavar="E", help="Encoder of the student. Default: start from the bundled model.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of random choices.")] = 0,
) -> None:
    """Label some hundred sentences with a language model, and write an annotation project to check them in.

    Sentences are sent to the endpoint and nowhere else. The same command resumes a run that was stopped, without asking
    anything twice. The exit code is 1 if some questions have no answer, for example because the budget is spent.
    """
    from cascade_srn.apps.annotation.annotations import read_labels
    from cascade_srn.apps.annotation.project import ProjectSettings
    from cascade_srn.apps.annotation.selection import ReadableTexts
    from cascade_srn.apps.annotation.teaching.endpoint import KEY_VARIABLE, Endpoint, EndpointSettings
    from cascade_srn.apps.annotation.teaching.ledger import Budget, BudgetSpent, Ledger
    from cascade_srn.apps.annotation.teaching.prompts import DEFAULT_PROMPTS, answer_schema
    from cascade_srn.apps.annotation.teaching.run import Teaching, TeachSettings
    from cascade_srn.apps.annotation.teaching.summary import describe, summarize
    from cascade_srn.apps.annotation.units import UnitSettings
    from cascade_srn.inputs.sources import Sources
    from cascade_srn.runs.process import sigterm_as_exit

    if "-" in texts:
        raise ConfigError("texts are read once for each round, which standard input does not allow", "Pass a file")
    settings = TeachSettings(
        sentences,
        rounds,
        samples,
        tuple(prompt or DEFAULT_PROMPTS),
        temperature,
        agreement,
        parallel,
        UnitSettings("sentence", min_words, max_words, seed),
        ProjectSettings(held_out=held_out, seed=seed, encoder=encoder),
    )
    server = EndpointSettings(endpoint, model, os.environ.get(KEY_VARIABLE, "").strip(), max_tokens, timeout, retries)
    limits = Budget(budget, budget_tokens, _read_prices(price))
    split, notes = find_segmenter(segmenter), FoldedNotes()

    def read() -> Iterable[Document]:
        sources = Sources(
            texts, per=per, field=field, id_field=id_field, encoding=encoding, output=output, tell=notes.tell
        )
        return ReadableTexts(sources, split, tell=notes.tell)

    teaching = Teaching(output, read_labels(labels), read, settings, tell=notes.tell)
    ledger = Ledger(output, model, limits, max_tokens)
    if dry_run:
        _print_estimate(teaching.preview(ledger), ledger)
        notes.finish()
        return
    try:
        with teaching.open() as project, sigterm_as_exit():
            ledger = Ledger(output, model, limits, max_tokens)
            ledger.open_for_writing()
            questions = teaching.open_questions(project.documents.values(), ledger)
            _announce(server, questions, ledger, sentences - len(project.documents))
            try:
                with _show_progress() as progress:
                    asking = Endpoint(server, answer_schema(project.labels), tell=notes.tell)
                    teaching.run(project, ledger, asking, progress)
            except BudgetSpent:
                print_note("the budget does not allow another request. Raise it and run the command again to go on")
            except KeyboardInterrupt as error:
                print_note("stopped. All answers are stored, and the same command goes on")
                mark_reported(error)
                raise
            finally:
                ledger.close()
                notes.finish()
            found, n_open = summarize(project), len(teaching.open_questions(project.documents.values(), ledger))
    finally:
        notes.finish()
    if n_open:
        print_note(f"{n_open:,} questions have no answer. Run the command again to ask them")
    elif found is not None and found["sentences"] < sentences:
        print_note(f"the texts have only {found['sentences']:,} different sentences of the given length")
    for line in describe(found) if found is not None else ():
        typer.echo(line)
    typer.echo(f"Check them with: cascade-srn annotate {output}")
    typer.echo(f"Train with: cascade-srn project train {output}")
    if n_open:
        raise typer.Exit(SOME_OPEN)


def _read_prices(price: str | None) -> tuple[float, float] | None:
    if price is None:
        return None
    try:
        first, second = map(float, price.split(","))
    except ValueError:
        raise ConfigError(f"the prices are {price!r}", "Give two numbers such as 0.15,0.60", option="price") from None
    return first, second


def _print_estimate(questions: list[Question], ledger: Ledger) -> None:
    (asked, answered), most = ledger.estimate(questions)
    typer.echo(f"{len(questions):,} requests would be sent")
    typer.echo(f"About {asked:,} tokens of questions and {answered:,} of answers (at most {most:,})")
    if ledger.budget.prices is not None:
        cost, highest = ledger.budget.cost((asked, answered)), ledger.budget.cost((asked, most))
        typer.echo(f"About {cost:.4f} in money, at most about {highest:.4f}")


def _announce(server: EndpointSettings, questions: list[Question], ledger: Ledger, n_more: int) -> None:
    """Say what is sent where, before anything is."""
    from cascade_srn.apps.annotation.teaching.endpoint import KEY_VARIABLE

    if not questions and n_more <= 0:
        return
    n_sentences = len({question.document for question in questions})
    via = f" through the proxy {server.proxy}" if server.proxy else ""
    key = f"with the key of {KEY_VARIABLE}" if server.key else "without a key"
    more = f", and later those about {n_more:,} more," if n_more > 0 else ""
    typer.echo(
        f"{len(questions):,} requests about {n_sentences:,} sentences{more} are sent to {server.address}{via} and "
        f"nowhere else, {key}.",
        err=True,
    )
    if ledger.answers:
        typer.echo(f"{len(ledger.answers):,} answers are stored already.", err=True)
    if server.sends_key_in_clear:
        print_note("the connection is not encrypted: others on the network can read texts and key. Use https")


@contextmanager
def _show_progress() -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console

    from cascade_srn.runs.display import ProgressRow, show_progress

    def row(numbers: tuple[int, int]) -> ProgressRow:
        n_done, n_all = numbers
        return ProgressRow("asking", n_done, n_all, "answers", line=f"{n_done:,} of {n_all:,} answers")

    with show_progress(Console(stderr=True, soft_wrap=True), row) as display:
        yield lambda n_done, n_all: display.progress((n_done, n_all))
