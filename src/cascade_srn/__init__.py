"""Joint entity and relation extraction with a cascade of three span extractions over a selection recurrent network.

Names are imported on first use, so that reading and converting data does not load torch.

Example:
    >>> from cascade_srn import Extractor
    >>> document = Extractor.from_pretrained().extract("We train a CRF for named entity recognition.")
    >>> [(relation.head.text, relation.label, relation.tail.text) for relation in document.relations]
    [('CRF', 'USED-FOR', 'named entity recognition')]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cascade_srn.version import __version__

if TYPE_CHECKING:
    from cascade_srn.config import ModelSettings, Thresholds
    from cascade_srn.extractor import Extractor
    from cascade_srn.formats.registry import read_documents, read_schema, write_documents
    from cascade_srn.model.model import Model
    from cascade_srn.model.start import start_model
    from cascade_srn.schema import Schema
    from cascade_srn.training.run import train
    from cascade_srn.training.settings import TrainingSettings
    from cascade_srn.types import Document, Entity, Mention, Relation, Sentence, Span, Triple

_MODULES = {
    "config": ("ModelSettings", "Thresholds"),
    "formats.registry": ("read_documents", "read_schema", "write_documents"),
    "extractor": ("Extractor",),
    "model.model": ("Model",),
    "model.start": ("start_model",),
    "schema": ("Schema",),
    "training.run": ("train",),
    "training.settings": ("TrainingSettings",),
    "types": ("Document", "Entity", "Mention", "Relation", "Sentence", "Span", "Triple"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Document",
    "Entity",
    "Extractor",
    "Mention",
    "Model",
    "ModelSettings",
    "Relation",
    "Schema",
    "Sentence",
    "Span",
    "Thresholds",
    "TrainingSettings",
    "Triple",
    "__version__",
    "read_documents",
    "read_schema",
    "start_model",
    "train",
    "write_documents",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
