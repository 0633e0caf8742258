"""The README.md of a saved model."""

from __future__ import annotations

from cascade_srn.config import ModelSettings
from cascade_srn.schema import Schema


def model_card(settings: ModelSettings, schema: Schema, encoder: str) -> str:
    """What the model is, what it finds, and how to use it, as Markdown."""
    fusion = settings.fusion
    preset = f"`{fusion.preset}`" if fusion.preset else "no preset"
    relations = ", ".join(f"{name} (symmetric)" if name in schema.symmetric else name for name in schema.relation_types)
    return f"""---
library_name: cascade-srn
pipeline_tag: token-classification
tags: [named-entity-recognition, relation-extraction]
---

# A cascade-srn model

Extracts entities and the relations between them from text.

| | |
| --- | --- |
| encoder | {encoder} |
| fusion | {preset}: entities by {fusion.entities}, subject by {fusion.subject} |
| sequence encoder | {settings.sequence_encoder}, hidden width {settings.hidden_width} |
| entity types | {", ".join(schema.entity_types)} |
| relation types | {relations or "none"} |

```python
from cascade_srn import Extractor

extractor = Extractor.from_pretrained("path/to/this/folder")
document = extractor.extract("Some text.")
```
"""
