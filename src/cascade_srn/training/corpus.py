"""Documents as sentences to learn from and to score."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from cascade_srn.data import read_documents, read_schema
from cascade_srn.data.alignment import Align
from cascade_srn.data.examples import Example, examples_of
from cascade_srn.data.labelled.labels import LabelledText
from cascade_srn.data.reports import ReadReport
from cascade_srn.errors import DataError, SchemaError
from cascade_srn.model.model import Model
from cascade_srn.schema import Schema
from cascade_srn.storage.files import checksum
from cascade_srn.training.recipe import DataSettings
from cascade_srn.types import Document


@dataclass(frozen=True)
class Split:
    """The documents of one path, and the account of reading them."""

    name: str
    path: str
    documents: list[Document]
    report: ReadReport
    sha256: str

    def to_dict(self) -> dict[str, Any]:
        """What a run folder says of it."""
        report = self.report
        return {
            "path": self.path,
            "sha256": self.sha256,
            "documents": report.documents,
            "sentences": report.sentences,
            "words": sum(len(sentence) for document in self.documents for sentence in document.sentences),
            "entities": report.entities,
            "relations": report.relations,
            "skipped": dict(report.skipped),
            "noted": dict(report.noted),
        }


@dataclass(frozen=True)
class Corpus:
    """All splits of a recipe, the labels to learn, and text that teachers labelled with them, where there is any."""

    splits: dict[str, Split]
    schema: Schema
    labelled: LabelledText | None = None

    @property
    def train(self) -> list[Document]:
        """What is learned from."""
        return self.splits["train"].documents

    @property
    def dev(self) -> list[Document]:
        """What the best weights are chosen on; none where the recipe names none."""
        return self.splits["dev"].documents if "dev" in self.splits else []

    @property
    def test(self) -> list[Document]:
        """What is scored once, at the end; none where the recipe names none."""
        return self.splits["test"].documents if "test" in self.splits else []

    def to_dict(self) -> dict[str, Any]:
        """What a run folder says of it."""
        found = {"schema": self.schema.to_dict()} | {name: split.to_dict() for name, split in self.splits.items()}
        if self.labelled is not None:
            found["labels"] = {
                "path": str(self.labelled.path),
                "sha256": self.labelled.sha256,
                "sentences": len(self.labelled),
                "words": int(self.labelled.n_words.sum()),
            }
        return found

    @property
    def checksums(self) -> dict[str, tuple[str, str]]:
        """The path and the checksum of everything that is learned from or scored, by its key in ``data``."""
        found = {name: (split.path, split.sha256) for name, split in self.splits.items()}
        if self.labelled is not None:
            found["labels"] = str(self.labelled.path), self.labelled.sha256
        return found


def read_corpus(settings: DataSettings) -> Corpus:
    """Read everything that a recipe names."""
    # Missing files first, all splits: nobody wants to hear of a mistyped test path after reading the rest.
    for name, path in (*settings.splits.items(), ("schema", settings.schema), ("labels", settings.labels)):
        if path is not None and not Path(path).exists():
            raise DataError(
                f"data.{name} is {path!r}, which does not exist; check the path and the working folder, or give "
                f"another one by data.{name}=…"
            )
    splits = {name: _read(name, path, settings) for name, path in settings.splits.items()}
    if not any(len(sentence) for document in splits["train"].documents for sentence in document.sentences):
        raise DataError(
            f"data.train, {settings.train!r}, holds no sentence with words; give annotated sentences to learn from"
        )
    if "dev" in splits and not splits["dev"].report.entities:
        raise DataError(
            f"data.dev, {settings.dev!r}, holds no entity, so that no weights could be told to be the best; give "
            "annotated documents, or none by data.dev=null"
        )
    if settings.schema is not None:
        schema = read_schema(settings.schema)
    else:
        # All splits: a label that only dev has must count there, as one that is missed.
        documents = [document for split in splits.values() for document in split.documents]
        schema = Schema.from_documents(documents, symmetric=settings.symmetric)
    if settings.labels is None:
        return Corpus(splits, schema)
    labelled = LabelledText(settings.labels)
    return Corpus(splits, teachers_schema(labelled.schema, schema, settings), labelled)


def known_checksums(settings: DataSettings) -> dict[str, tuple[str, str]]:
    """The paths and checksums of the annotated documents that are still there, which are not read."""
    return {n: (p, checksum(Path(p))) for n, p in settings.splits.items() if p is not None and Path(p).exists()}


def teachers_schema(theirs: Schema, own: Schema, settings: DataSettings) -> Schema:
    """The labels that teachers know, among which those of the data must be."""
    lacking = [
        *(label for label in own.entity_types if label not in theirs.entity_types),
        *(label for label in own.relation_types if label not in theirs.relation_types),
    ]
    named = settings.schema is not None or settings.symmetric
    if lacking or (named and own.symmetric != theirs.symmetric):
        raise SchemaError(
            f"the teachers know other labels than the data has: {'; '.join(own.differences(theirs))}; use teachers "
            "that were trained for the labels of the data"
        )
    return theirs


def _read(name: str, path: str, settings: DataSettings) -> Split:
    stream = read_documents(
        path, settings.format, strict=not settings.skip_malformed, align=cast(Align, settings.align)
    )
    documents = list(stream)
    return Split(name, path, documents, stream.report, checksum(Path(path)))


def training_examples(
    model: Model, documents: Iterable[Document], dev: Iterable[Document]
) -> tuple[list[Example], list[Example]]:
    """Sentences to learn from (those that have words) and to score, labels checked."""
    context = model.settings.encoder.context_words
    examples = [e for e in examples_of(_documents(documents, "training"), context) if len(e.sentence)]
    dev_examples = examples_of(_documents(dev, "development"), context)
    _check(model.schema, examples, "training")
    _check(model.schema, dev_examples, "development")
    if not examples:
        raise DataError("the training documents hold no sentence with words; give annotated sentences to learn from")
    return examples, dev_examples


def _documents(given: Iterable[Document], which: str) -> list[Document]:
    """Refuse what is easily given in the place of documents: a path, one document, sentences."""
    if isinstance(given, str | Path | Document) or not isinstance(given, Iterable):
        raise DataError(
            f"the {which} documents are one {type(given).__name__}, but a list of Documents was expected; read those "
            "of a file by read_documents(path), or pass [document]"
        )
    documents = list(given)
    for number, document in enumerate(documents):
        if not isinstance(document, Document):
            raise DataError(
                f"item {number} of the {which} documents is a {type(document).__name__}, but a Document was expected; "
                "make one by Document.from_sentences, or read them by read_documents(path)"
            )
    return documents


def _check(schema: Schema, examples: Sequence[Example], which: str) -> None:
    for number, example in enumerate(examples):
        start = " ".join(example.sentence.words[:6])
        schema.check(example.sentence, f"sentence {number} of the {which} documents ({start!r} …)")
