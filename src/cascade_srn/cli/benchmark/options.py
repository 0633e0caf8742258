"""What the benchmarks' options have in common, and how lists are written on a command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cascade_srn.errors import ConfigError

if TYPE_CHECKING:
    from cascade_srn.benchmarks.results import Result

Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N; auto is the GPU where there is one.")]
Repeats = Annotated[int, typer.Option(help="Runs that count; the median is reported.")]
Warmup = Annotated[int, typer.Option(help="Runs before them that do not count.")]
Encoder = Annotated[
    str | None, typer.Option(help="A pretrained encoder, by folder or hub id; a fresh small one when left out.")
]
SavedModel = Annotated[str | None, typer.Option(help="A saved model, by folder or hub id.")]
Data = Annotated[str | None, typer.Option(help="Annotated sentences; the example corpus when left out.")]
Sentences = Annotated[int, typer.Option(help="Sentences of the data to use, from its beginning.")]
BatchWords = Annotated[int, typer.Option(help="Words of a batch at most, padding included.")]
Presets = Annotated[str, typer.Option(metavar="A,B,…", help="Fusion presets.")]
Precision = Annotated[str, typer.Option(help="Of the pretrained encoder: auto (bf16 on a GPU), float32 or bf16.")]
Output = Annotated[Path | None, typer.Option(help="The JSON file; benchmarks/results/NAME-DEVICE.json when left out.")]


# Columns of a table that goes to a file, where nobody can widen a window.
FILE_WIDTH = 160


def names(value: str, *, separator: str = ",") -> tuple[str, ...]:
    """Return ``a,b`` as names."""
    return tuple(part.strip() for part in value.split(separator) if part.strip())


def numbers(option: str, value: str) -> tuple[int, ...]:
    """``1,2`` as numbers; empty for none."""
    try:
        return tuple(int(part) for part in names(value))
    except ValueError as error:
        raise ConfigError(f"{option} is {value!r}; give whole numbers with commas between them, as in 8,16") from error


def shapes(option: str, value: str) -> tuple[tuple[int, int], ...]:
    """``8x40,32x40`` as pairs."""
    try:
        pairs = [part.split("x") for part in names(value)]
        return tuple((int(batch), int(length)) for batch, length in pairs)
    except ValueError as error:
        raise ConfigError(f"{option} is {value!r}; give sentences x words, as in 8x40,32x40") from error


def listed(values: tuple[object, ...]) -> str:
    """The inverse of :func:`names` and :func:`numbers`, for showing defaults."""
    return ",".join(str(value) for value in values)


def publish(result: Result, output: Path | None) -> None:
    """Write the JSON file and show the table."""
    from rich.console import Console

    path = result.save(output)
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_WIDTH)
    console.print(result.table())
    console.print(f"written to {path}", soft_wrap=True)
