"""Descriptions of a model: the README.md of a model folder, and one phrase."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from cascade_srn.config import ModelSettings
from cascade_srn.schema import Schema

# Stands for the folder of the model in its card, until the model is uploaded.
FOLDER_IN_CARD = "path/to/this/folder"
# Labels with fewer training examples are named as a limit of the model.
_FEW_EXAMPLES = 20
_MAX_EXAMPLE = 80
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~$])")


@dataclass(frozen=True)
class CardScore:
    """Micro scores of one task on one part of the data, as fractions."""

    data: str  # Part of the data, such as "dev"
    task: str  # Name of the task, such as "NER"
    protocol: str  # How it is counted, such as "directed, micro"
    precision: float  # Precision
    recall: float  # Recall
    f1: float  # F1
    interval: tuple[float, float] | None = None  # Bounds of the 95 % interval of F1, if they are known


@dataclass(frozen=True)
class CardLabel:
    """An entity type or relation type, its number of training annotations, and an example, if it may be shown."""

    kind: str
    name: str
    count: int
    example: str = ""


@dataclass(frozen=True)
class CardDetails:
    """What is known about how a model was made. Everything is optional."""

    title: str = ""  # Name of the model
    description: str = ""  # A paragraph about it
    licence: str = ""  # Identifier of its licence, such as "apache-2.0".
    language: tuple[str, ...] = ()  # Codes of the languages, such as "en"
    scores: tuple[CardScore, ...] = ()  # Scores, the most important ones first
    score_notes: tuple[str, ...] = ()  # Sentences about them
    # F1 on text with noise: by kind of noise, and by name of the task
    noise: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    data: tuple[Mapping[str, str], ...] = ()  # Rows of a table about the data, by column
    labels: tuple[CardLabel, ...] = ()  # Labels with counts
    settings: Mapping[str, Any] = field(default_factory=dict)  # Training settings
    command: str = ""  # Command that made the model
    versions: Mapping[str, str] = field(default_factory=dict)  # Versions of packages and hardware, by name
    limits: tuple[str, ...] = ()  # Sentences about limits, besides those that all models have


def model_card(settings: ModelSettings, schema: Schema, encoder: str, details: CardDetails | None = None) -> str:
    """Return the model card as Markdown, with a header for the hub."""
    details = CardDetails() if details is None else details
    found = "entities and the relations between them" if settings.joint else "entities"
    rows = {"encoder": encoder, **_describe(settings), "entity types": ", ".join(schema.entity_types)}
    if settings.joint:
        names = [f"{name} (symmetric)" if name in schema.symmetric else name for name in schema.relation_types]
        rows["relation types"] = ", ".join(names) or "none"
    opening = f"Extracts {found} from text."
    usage = f"""```python
from cascade_srn import Extractor

extractor = Extractor.from_pretrained("{FOLDER_IN_CARD}")
document = extractor.extract("Some text.")
```"""
    parts = [
        f"---\n{_header(settings, encoder, details)}---",
        f"# {_cell(details.title) or 'A cascade-srn model'}",
        "\n\n".join(filter(None, (opening, details.description.strip()))),
        _table([("", ""), *((name, _cell(value)) for name, value in rows.items())]),
        usage,
        *_sections(settings, details),
    ]
    return "\n\n".join(parts) + "\n"


def _header(settings: ModelSettings, encoder: str, details: CardDetails) -> str:
    """Return the metadata that the hub reads."""
    header: dict[str, Any] = {}
    if details.licence:
        header["license"] = details.licence
    if details.language:
        header["language"] = details.language[0] if len(details.language) == 1 else list(details.language)
    header["library_name"] = "cascade-srn"
    header["pipeline_tag"] = "token-classification"
    header["tags"] = ["named-entity-recognition", *(["relation-extraction"] if settings.joint else [])]
    if encoder.count("/") == 1:
        header["base_model"] = encoder
    if details.scores:
        header["metrics"] = ["precision", "recall", "f1"]
        header["model-index"] = [{"name": details.title or "model", "results": list(_results(details.scores))}]
    return yaml.safe_dump(header, sort_keys=False, default_flow_style=None, allow_unicode=True, width=math.inf)


def _results(scores: Iterable[CardScore]) -> Iterator[dict[str, Any]]:
    """Yield the evaluation results in the form of the hub, one for each part of the data and task."""
    for score in scores:
        values = {"precision": score.precision, "recall": score.recall, "f1": score.f1}
        yield {
            "task": {"type": "token-classification", "name": score.task},
            "dataset": {"type": "custom", "name": score.data, "split": score.data},
            "metrics": [
                {"type": name, "value": round(value, 4), "name": f"{score.task}, {score.protocol}, {name}"}
                for name, value in values.items()
            ],
        }


def _sections(settings: ModelSettings, details: CardDetails) -> Iterator[str]:
    if details.scores:
        yield "## Scores"
        yield _table(
            [("data", "task", "protocol", "precision", "recall", "F1", "95 % interval of F1"), *_rows(details.scores)]
        )
        yield from filter(None, [" ".join(details.score_notes)])
    if details.noise:
        yield "## Robustness"
        yield "F1 on dev, from text: clean, and with noise."
        yield _noise_table(details.noise)
    if details.data:
        columns = list(dict.fromkeys(name for row in details.data for name in row))
        yield "## Data"
        yield _table([columns, *([_cell(row.get(name, "")) for name in columns] for row in details.data)])
    if details.labels:
        yield "## Labels"
        yield _labels_table(details.labels)
    if details.settings or details.command:
        yield "## Training"
        yield from filter(None, [details.command and f"```\n{details.command}\n```"])
        if details.settings:
            yield f"```yaml\n{yaml.safe_dump(dict(details.settings), sort_keys=False, allow_unicode=True)}```"
    if details.versions:
        yield "## Versions"
        yield _table([("", ""), *((_cell(name), _cell(value)) for name, value in details.versions.items())])
    if details != CardDetails():
        yield "## Limits"
        yield "\n".join(f"- {sentence}" for sentence in _limits(settings, details))
        yield "## Licence"
        yield (
            f"{_cell(details.licence)}."
            if details.licence
            else "Not stated. The licences of the encoder and of the training data may limit the use of the model."
        )


def _rows(scores: Iterable[CardScore]) -> Iterator[tuple[str, ...]]:
    for score in scores:
        figures = (f"{100 * value:.1f}" for value in (score.precision, score.recall, score.f1))
        interval = (
            "" if score.interval is None else "{:.1f} to {:.1f}".format(*(100 * value for value in score.interval))
        )
        yield score.data, score.task, score.protocol, *figures, interval


def _noise_table(noise: Mapping[str, Mapping[str, float]]) -> str:
    """Return a Markdown table of F1 by kind of noise and task."""
    tasks = next(iter(noise.values()))
    rows = [[kind, *(f"{100 * row[task]:.1f}" for task in tasks)] for kind, row in noise.items()]
    return _table([["noise", *tasks], *rows])


def _labels_table(labels: Sequence[CardLabel]) -> str:
    heading = ["label", "kind", "training annotations"]
    rows = [[escape(label.name), label.kind, f"{label.count:,}"] for label in labels]
    if any(label.example for label in labels):
        heading.append("example")
        for row, label in zip(rows, labels, strict=True):
            text = " ".join(label.example.split())
            row.append(escape(text if len(text) <= _MAX_EXAMPLE else f"{text[: _MAX_EXAMPLE - 1]}…"))
    return _table([heading, *rows])


def _limits(settings: ModelSettings, details: CardDetails) -> Iterator[str]:
    if settings.joint:
        yield "Relations are found within a sentence only."
    yield "The scores hold for text like the data above. On other text, more predictions may be wrong or missing."
    few = [f"{escape(label.name)} ({label.count})" for label in details.labels if label.count < _FEW_EXAMPLES]
    if few:
        yield f"Labels with few training annotations may not be found: {', '.join(few)}."
    yield from details.limits


def _table(rows: Sequence[Sequence[str]]) -> str:
    heading, *rest = rows
    lines = [heading, ["---"] * len(heading), *rest]
    return "\n".join(f"| {' | '.join(line)} |" if any(line) else "|" + " |" * len(line) for line in lines)


def _cell(text: str) -> str:
    """Return text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def escape(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def summarize(settings: ModelSettings, schema: Schema) -> str:
    """Describe a model in one phrase: its family, its encoder and its sequence encoder.

    Example:
        >>> from cascade_srn.config import EncoderSettings
        >>> summarize(ModelSettings(EncoderSettings("allenai/scibert"), method="pfn"), Schema(("Task",)))
        'PFN baseline over scibert, partition filter network'
    """
    encoder = settings.encoder.name.rpartition("/")[2]
    if settings.method == "pfn":
        return f"PFN baseline over {encoder}, partition filter network"
    if settings.method == "table-srn":
        return f"Table-SRN baseline over {encoder}, srn"
    if settings.method == "pipeline":
        return f"pipeline baseline over {encoder}"
    if not (settings.joint and schema.relation_types):
        return f"cascade for entities alone over {encoder}, {settings.sequence_encoder}"
    fusion = settings.fusion
    kind = fusion.preset or f"{fusion.entities} + {fusion.subject}"
    return f"{kind} fusion over {encoder}, {settings.sequence_encoder}"


def _describe(settings: ModelSettings) -> dict[str, str]:
    """Return the rows of the model card that depend on the model family."""
    width = f"hidden width {settings.hidden_width}"
    if settings.method == "pipeline":
        longest = settings.baseline.max_span_words
        return {
            "model family": f"baseline: classifies spans of up to {longest} words, then pairs of entities, with a "
            "separate encoder for each"
        }
    if settings.method != "cascade":
        sequence = "partition filter network" if settings.method == "pfn" else "srn of two tasks"
        return {
            "model family": f"baseline `{settings.method}`: fills a table of entities and a table of relations",
            "sequence encoder": f"{sequence}, {width}",
        }
    sequence_encoder = {"sequence encoder": f"{settings.sequence_encoder}, {width}"}
    if not settings.joint:
        return {"model family": "first turn of the cascade only: entities, no relations", **sequence_encoder}
    fusion = settings.fusion
    preset = f"`{fusion.preset}`" if fusion.preset else "no preset"
    return {"fusion": f"{preset}: entities by {fusion.entities}, subject by {fusion.subject}", **sequence_encoder}
