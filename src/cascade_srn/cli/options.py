"""Options that several commands share."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from cascade_srn.apps.web.settings import KEY_VARIABLE
from cascade_srn.config import CONSTRAINTS, OVERLAPS, Settings, require_choice
from cascade_srn.errors import ConfigError
from cascade_srn.text.presplit import SEGMENTERS

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from cascade_srn.text.segment import Segmenter

SettingsT = TypeVar("SettingsT", bound="DataclassInstance")

# Help for settings of several commands.
COMMON = {
    "batch_words": "Maximum number of words in a batch, padding included.",
    "data": "Annotated sentences. Default: the example corpus.",
    "device": "auto, cpu, cuda or cuda:N. auto uses a GPU if there is one.",
    "encoder": "Pretrained encoder: folder or hub id. Default: a small random encoder.",
    "model": "Model folder, name or hub id.",
    "precision": "Precision of the encoder: auto (bf16 on a GPU), float32 or bf16.",
    "presets": "Fusion presets.",
    "repeats": "Measured runs; the median is reported.",
    "sentences": "Number of sentences to use, from the beginning of the data.",
    "warmup": "Runs before them that are not measured.",
}

Device = Annotated[str, typer.Option(help=COMMON["device"])]
Precision = Annotated[str, typer.Option(help=COMMON["precision"])]
PromisedPrecision = Annotated[
    str,
    typer.Option(
        metavar="X|NAME=X,…|FORMAT",
        help="Keep only predictions with this precision, with 95 % confidence: 0.6, relations=0.6,entities=0.9, "
        "USED-FOR=0.7. Or the number format of the encoder: auto (bf16 on a GPU), float32 or bf16.",
    ),
]
BatchWords = Annotated[int, typer.Option(help=COMMON["batch_words"])]
OptionalBatchWords = Annotated[
    int | None, typer.Option(help=f"{COMMON['batch_words']} Default: 4,096, and 16,384 on a GPU.", show_default=False)
]
Constraints = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(CONSTRAINTS),
        help="Apply the constraints of the schema to relations. Default: the choice of the model.",
    ),
]
Overlaps = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(OVERLAPS),
        help="Entities that share words: keep the best (flat), allow one inside another (nested), or keep all. "
        "Default: the choice stored with the model, else flat.",
    ),
]
# Raw text, and how to read it.
RawText = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE|FOLDER|PATTERN|-]…",
        help="Raw text: .txt, .jsonl, .csv, .tsv and .pdf files (also .gz, .xz, .bz2), .parquet files, folders, "
        "quoted patterns, or - for standard input.",
    ),
]
UnitOfText = Annotated[
    str,
    typer.Option(
        metavar="auto|file|line|record",
        help="Unit that is one document. auto: a record of .jsonl, a whole .txt file. Tables: always a row.",
    ),
]
IdField = Annotated[str, typer.Option(help="Field of JSON records that contains the id of the document.")]
TextEncoding = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Encoding of the text, such as cp1252. Default: UTF-8, or by byte-order mark."),
]
SkippedParts = Annotated[
    str, typer.Option(metavar="PART,…", help="Leave out parts of the texts: references, code, tables (with commas).")
]
KeptParts = Annotated[
    str,
    typer.Option(
        metavar="PART,…", help="Parts of PDF files to keep, which are left out by default: headers, references."
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first unreadable text.")]
BundledModel = Annotated[
    str | None, typer.Option(metavar="M", help="Model folder, name or hub id. Default: the bundled model.")
]
# Options of the commands that serve a page.
Host = Annotated[str, typer.Option(help="Address to listen on. 0.0.0.0: all addresses.")]
Port = Annotated[int, typer.Option(help="Port to listen on. 0: any free port.")]
ApiKeyFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help=f"File with the key that requests must send. Default: ${KEY_VARIABLE}."),
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Additional name allowed in the Host header; '*' for all. Repeatable."),
]
OpenPage = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Do not log requests.")]
TextField = Annotated[str, typer.Option(help="Field of JSON records that contains the text.")]
FORMAT_NAMES = (
    "dygie, spert, brat, jsonl, label-studio, doccano, prodigy, bioc, pubtator, cas, conll, spacy, datasets, table or "
    "triples"
)
DataFormat = Annotated[str | None, typer.Option(help=f"Format of the data: {FORMAT_NAMES}. Detected by default.")]
LabelMapFile = Annotated[
    Path | None, typer.Option("--map", metavar="FILE", help="YAML file with new names of labels, and labels to drop.")
]
Alignment = Annotated[
    str, typer.Option(metavar="exact|expand", help="Reject offsets inside a word, or expand them to the whole word.")
]
KeepEscapes = Annotated[
    bool, typer.Option("--keep-escapes", help="Read tokens such as -LRB- as they are, not as brackets and quotes.")
]
SegmenterName = Annotated[
    str,
    typer.Option(
        metavar="|".join(SEGMENTERS),
        help="How to split text. lines: one sentence per line. spaces: also split words at spaces only.",
    ),
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a setting of the recipe. Repeatable.")
]
Seeds = Annotated[
    int | None, typer.Option(metavar="N", help="Train with seeds 0 to N-1 and print mean and standard deviation.")
]
Jobs = Annotated[
    int, typer.Option(metavar="N", help="With --seeds or --folds: number of runs in parallel, one process each.", min=1)
]
ResampledUnit = Annotated[str, typer.Option(metavar="documents|sentences", help="Unit that the bootstrap resamples.")]


def make_settings(cls: type[SettingsT], arguments: Mapping[str, Any], **overrides: Any) -> SettingsT:
    """Create settings from the arguments of a command. Arguments that are not settings are ignored."""
    return cls(**{f.name: arguments[f.name] for f in fields(cls) if f.name in arguments} | overrides)


def settings_as_options(cls: type[Settings]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter ``settings`` of a command by one option for each setting of a class.

    Types and defaults are those of the class. The help is that of its docstring, or of ``COMMON``.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            parameters += _options_of(cls) if parameter.name == "settings" else [parameter]

        @wraps(command)
        def run(**arguments: Any) -> None:
            hints = get_type_hints(cls)
            values = {f.name: arguments.pop(f.name) for f in fields(cls)}
            command(settings=cls(**{k: _parse_list(k, v, hints[k]) for k, v in values.items()}), **arguments)

        keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
        return run

    return decorate


def _options_of(cls: type[Settings]) -> Iterator[inspect.Parameter]:
    hints, help_texts = get_type_hints(cls), COMMON | dict(_attributes(cls))
    for setting in fields(cls):
        kind, metavar, default = _as_text(hints[setting.name], setting.default)
        option = typer.Option(_flag(setting.name), metavar=metavar, help=help_texts[setting.name])
        yield inspect.Parameter(
            setting.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is MISSING else default,
            annotation=Annotated[kind, option],
        )


def _flag(name: str) -> str:
    return f"--{name.removeprefix('n_').replace('_', '-')}"


def _attributes(cls: type[Settings]) -> Iterator[tuple[str, str]]:
    """Yield the names and descriptions of the settings in the docstring of a class, those of its bases first."""
    for base in reversed(cls.__mro__):
        section = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2]
        for name, text in re.findall(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", section, re.MULTILINE):
            yield name, re.sub(r"``(\w+)``", lambda found: _flag(found[1]), " ".join(text.split()))


def _as_text(hint: Any, default: Any) -> tuple[Any, str | None, Any]:
    """Return type, metavar and default of an option. Lists are given as text."""
    if get_origin(hint) is not tuple:
        return hint, None, default
    if get_origin(get_args(hint)[0]) is tuple:
        return str, "BxL,…", ",".join(f"{batch}x{length}" for batch, length in default)
    return str, "N,…" if get_args(hint)[0] is int else "A,B,…", ",".join(map(str, default))


def _parse_list(name: str, value: Any, hint: Any) -> Any:
    """Parse the text of a list: ``a,b``, ``8,16`` or ``8x40,32x40``."""
    if get_origin(hint) is not tuple:
        return value
    parts = [part.strip() for part in value.split(",") if part.strip()]
    kind, form = get_args(hint)[0], "integers such as 8,16"
    try:
        if get_origin(kind) is tuple:
            form = "sentences x words, such as 8x40,32x40"
            pairs = [part.split("x") for part in parts]
            return tuple((int(batch), int(length)) for batch, length in pairs)
        return tuple(map(kind, parts))
    except ValueError as error:
        raise ConfigError(f"{name} is {value!r}", f"Give {form}", option=name) from error


def split_names(names: str) -> list[str]:
    """Return names that are separated by commas."""
    return [name for part in names.split(",") if (name := part.strip())]


def find_segmenter(name: str, skip: str = "") -> Segmenter:
    """Return the segmenter with this name. ``skip`` has the names of the parts to leave out, separated by commas."""
    from cascade_srn.text.segment import make_segmenter

    require_choice("segmenter", name, tuple(SEGMENTERS))
    return make_segmenter(SEGMENTERS[name], split_names(skip))
