"""Count what models find in text of another kind, where there should be little to find."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.evaluation.errors import SentenceShare
from cascade_srn.evaluation.items import format_table
from cascade_srn.evaluation.options import ForeignOptions
from cascade_srn.evaluation.result import display_name, display_names
from cascade_srn.extractor import Extractor
from cascade_srn.inputs.texts import find_texts, read_texts
from cascade_srn.storage.bundled import is_model
from cascade_srn.types import Document

FORMAT_VERSION = 1
CONDITION = "foreign text"


@dataclass(frozen=True)
class Findings:
    """Entities or relations that a model found: number by label, and share of the sentences with any."""

    per_label: Mapping[str, int]
    sentences: SentenceShare

    @property
    def n(self) -> int:
        """Number of findings."""
        return sum(self.per_label.values())

    @property
    def per_100_sentences(self) -> float:
        """Number of findings in 100 sentences."""
        return 100 * self.n / self.sentences.n_sentences

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {
            "n": self.n,
            "per_100_sentences": self.per_100_sentences,
            "sentences": self.sentences.to_dict(),
            "per_label": dict(self.per_label),
        }


def count_findings(documents: Sequence[Document]) -> dict[str, Findings]:
    """Count entities and relations of documents, which have at least one sentence in all."""
    sentences = [sentence for document in documents for sentence in document.sentences]
    found = {}
    for name, of_sentences in (
        ("entities", [[entity.label for entity in s.entities] for s in sentences]),
        ("relations", [[triple.label for triple in s.triples] for s in sentences]),
    ):
        counts = Counter(label for labels in of_sentences for label in labels)
        share = SentenceShare(len(sentences), sum(map(bool, of_sentences)))
        found[name] = Findings(dict(sorted(counts.items())), share)
    return found


@dataclass(frozen=True)
class ForeignEvaluation:
    """Result of :func:`evaluate_foreign`: predictions by model name. All models have the same texts."""

    options: ForeignOptions
    predicted: Mapping[str, list[Document]]
    environment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def findings(self) -> dict[str, dict[str, Findings]]:
        """Entities and relations by model name."""
        return {name: count_findings(documents) for name, documents in self.predicted.items()}

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {
            "format_version": FORMAT_VERSION,
            "condition": CONDITION,
            "data": {"names": [display_name(text) for text in self.options.texts], "n_texts": self._n_texts()},
            "models": [
                {"name": name} | {key: one.to_dict() for key, one in found.items()}
                for name, found in self.findings.items()
            ],
            "environment": dict(self.environment),
        }

    def table(self, *, per_label: bool = False) -> str:
        """Format the counts as text for a terminal."""
        names = ", ".join(display_name(text) for text in self.options.texts)
        rows = [("found", "number", "per 100 sentences", "sentences", "with any", "share")]
        for model, found in self.findings.items():
            for key, one in found.items():
                name = f"{model}, {key}" if len(self.predicted) > 1 else key
                share = one.sentences
                rows.append((name, f"{one.n:,}", f"{one.per_100_sentences:.1f}", f"{share.n_sentences:,}",
                             f"{share.n_predicted:,}", f"{100 * (share.share or 0):.1f}"))  # fmt: skip
                if per_label:
                    rows += [(f"{name}, label {label}", f"{n:,}", "", "", "", "") for label, n in one.per_label.items()]
        models = next(iter(self.predicted)) if len(self.predicted) == 1 else f"{len(self.predicted)} models"
        return f"{models} on {names}, {CONDITION}, {self._n_texts():,} texts; shares in percent\n\n{format_table(rows)}"

    def _n_texts(self) -> int:
        return len(next(iter(self.predicted.values())))


def evaluate_foreign(
    options: ForeignOptions, *, device: str | torch.device = "auto", environment: Mapping[str, Any] | None = None
) -> ForeignEvaluation:
    """Load models one after the other and extract from raw text of another kind."""
    for path in options.models:
        if Path(path).is_file() and not is_model(path):
            raise ConfigError(f"{path!r} is a file, not a model", "Give models only, and no annotated data")
    texts = list(read_texts(find_texts(options.texts), field=options.field, encoding=options.encoding))
    if not texts:
        raise DataError(f"{', '.join(options.texts)} has no text", "Use files with at least one sentence")
    predicted = {}
    for path, name in zip(options.models, display_names(options.models), strict=True):
        extractor = Extractor.from_pretrained(path, device=device, precision=options.precision)
        predicted[name] = list(extractor.stream(texts, batch_words=options.batch_words, on_error="raise"))
        if not any(document.sentences for document in predicted[name]):
            raise DataError(f"{', '.join(options.texts)} has no sentences", "Use files with at least one sentence")
    return ForeignEvaluation(options, predicted, environment or {})
