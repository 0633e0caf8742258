"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cascade_srn.config import Settings, require_choice

if TYPE_CHECKING:
    from cascade_srn.text.segment import Segmenter

SettingsT = TypeVar("SettingsT", bound=Settings)

Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N. auto uses a GPU if there is one.")]
Precision = Annotated[str, typer.Option(help="Precision of the encoder: auto (bf16 on a GPU), float32 or bf16.")]
BatchWords = Annotated[int, typer.Option(help="Maximum number of words in a batch, padding included.")]
Encoder = Annotated[
    str | None, typer.Option(help="Pretrained encoder: folder or hub id. Default: a small random encoder.")
]
SavedModel = Annotated[str | None, typer.Option(help="Model folder, name or hub id.")]
TextField = Annotated[str, typer.Option(help="Field of JSON records that contains the text.")]
DataFormat = Annotated[
    str | None, typer.Option(help="Format of the data: dygie, spert, brat or jsonl. Detected by default.")
]
Alignment = Annotated[
    str, typer.Option(metavar="exact|expand", help="Reject offsets inside a word, or expand them to the whole word.")
]
SegmenterName = Annotated[
    str,
    typer.Option(
        metavar="rules|lines|spaces",
        help="How to split text. lines: one sentence per line. spaces: also split words at spaces only.",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting of the recipe. Repeatable."),
]
Seeds = Annotated[
    int | None, typer.Option(metavar="N", help="Train with seeds 0 to N-1 and print mean and standard deviation.")
]
Jobs = Annotated[
    int, typer.Option(metavar="N", help="With --seeds: number of runs in parallel, one process each.", min=1)
]
ResampledUnit = Annotated[str, typer.Option(metavar="documents|sentences", help="Unit that the bootstrap resamples.")]


def make_settings(cls: type[SettingsT], arguments: Mapping[str, Any], **overrides: Any) -> SettingsT:
    """Create settings from the arguments of a command. Arguments that are not settings are ignored."""
    return cls(**{f.name: arguments[f.name] for f in fields(cls) if f.name in arguments} | overrides)


def find_segmenter(name: str) -> Segmenter:
    """Return the segmenter with this name."""
    from cascade_srn.text.presplit import SEGMENTERS

    require_choice("segmenter", name, tuple(SEGMENTERS))
    return SEGMENTERS[name]
