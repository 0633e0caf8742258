"""Descriptions of a model: the README.md of a model folder, and one phrase."""

from cascade_srn.config import ModelSettings
from cascade_srn.schema import Schema


def model_card(settings: ModelSettings, schema: Schema, encoder: str) -> str:
    """Return the model card as Markdown. ``encoder`` is the name of the encoder to show."""
    found = "entities and the relations between them" if settings.joint else "entities"
    tags = ["named-entity-recognition", *(["relation-extraction"] if settings.joint else [])]
    rows = {"encoder": encoder, **_describe(settings), "entity types": ", ".join(schema.entity_types)}
    if settings.joint:
        names = [f"{name} (symmetric)" if name in schema.symmetric else name for name in schema.relation_types]
        rows["relation types"] = ", ".join(names) or "none"
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"""---
library_name: cascade-srn
pipeline_tag: token-classification
tags: [{", ".join(tags)}]
---

# A cascade-srn model

Extracts {found} from text.

| | |
| --- | --- |
{table}

```python
from cascade_srn import Extractor

extractor = Extractor.from_pretrained("path/to/this/folder")
document = extractor.extract("Some text.")
```
"""


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
