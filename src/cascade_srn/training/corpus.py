"""The documents of a recipe, and the sentences to learn from and to score."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from cascade_srn.errors import ConfigError, DataError, SchemaError
from cascade_srn.formats.alignment import Align
from cascade_srn.formats.label_map import read_label_map
from cascade_srn.formats.registry import read_documents, read_schema
from cascade_srn.formats.reports import ReadReport
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example, examples_of
from cascade_srn.schema import Schema
from cascade_srn.storage.files import checksum
from cascade_srn.training.holdout import divide, hold_out
from cascade_srn.training.labelled.labels import LabelledText
from cascade_srn.training.recipe import DataSettings
from cascade_srn.types import Document


@dataclass(frozen=True)
class Split:
    """The documents of one path, with the report of the reader."""

    name: str
    path: str
    documents: list[Document]
    report: ReadReport
    sha256: str
    held_out: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the description for ``data.json``."""
        report = self.report
        described = {
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
        return described | ({"held_out": [document.id for document in self.documents]} if self.held_out else {})


@dataclass(frozen=True)
class Corpus:
    """All splits of a recipe, the schema, and text labelled by teachers, if there is any."""

    splits: dict[str, Split]
    schema: Schema
    labelled: LabelledText | None = None

    @property
    def train(self) -> list[Document]:
        """Documents to learn from."""
        return self.splits["train"].documents

    @property
    def dev(self) -> list[Document]:
        """Documents to choose the best weights on; may be empty."""
        return self.splits["dev"].documents if "dev" in self.splits else []

    @property
    def test(self) -> list[Document]:
        """Documents to score once, at the end; may be empty."""
        return self.splits["test"].documents if "test" in self.splits else []

    def to_dict(self) -> dict[str, Any]:
        """Return the description for ``data.json``."""
        described = {"schema": self.schema.to_dict()} | {name: split.to_dict() for name, split in self.splits.items()}
        if self.labelled is not None:
            described["labels"] = {
                "path": str(self.labelled.path),
                "sha256": self.labelled.sha256,
                "sentences": len(self.labelled),
                "words": int(self.labelled.n_words.sum()),
            }
        return described

    @property
    def checksums(self) -> dict[str, tuple[str, str]]:
        """Path and checksum of each split and of the labels, by key in ``data``."""
        checksums = {name: (split.path, split.sha256) for name, split in self.splits.items()}
        if self.labelled is not None:
            checksums["labels"] = str(self.labelled.path), self.labelled.sha256
        return checksums


def read_corpus(settings: DataSettings) -> Corpus:
    """Read the data of a recipe."""
    if settings.folds is not None and settings.fold is None:
        raise ConfigError(
            f"data.folds is {settings.folds}, but data.fold does not say which of them this run leaves out",
            "Give its position, or train all folds",
            option="data.fold",
        )
    # Check all paths first, so that a mistyped path is reported at once.
    for name, path in (*settings.splits.items(), ("schema", settings.schema), ("labels", settings.labels)):
        if path is not None and not Path(path).exists():
            raise DataError(
                f"data.{name} is {path!r}, which does not exist",
                "Check the path and the working directory",
                option=f"data.{name}",
            )
    splits = {name: _read(name, path, settings) for name, path in settings.splits.items()}
    if settings.folds is not None and settings.fold is not None:
        parts = divide(splits["train"].documents, settings.folds, settings.split_seed)
        splits["train"], splits["test"] = _separate(splits["train"], parts[settings.fold], "test")
    if settings.held_out is not None:
        _, held = hold_out(splits["train"].documents, settings.held_out, settings.split_seed)
        splits["train"], splits["dev"] = _separate(splits["train"], held, "dev")
    splits = {name: splits[name] for name in ("train", "dev", "test") if name in splits}
    if not any(len(sentence) for document in splits["train"].documents for sentence in document.sentences):
        raise DataError(
            f"data.train, {settings.train!r}, contains no sentence with words",
            "Give annotated sentences to learn from",
            option="data.train",
        )
    if "dev" in splits and not splits["dev"].report.entities:
        raise DataError(
            f"data.dev, {settings.dev!r}, contains no entity, so the best weights cannot be chosen",
            "Give annotated documents, or set it to null",
            option="data.dev",
        )
    if settings.schema is not None:
        schema = read_schema(settings.schema)
    else:
        # Of all splits, because a label that only dev has counts as missed in its scores.
        documents = [document for split in splits.values() for document in split.documents]
        schema = Schema.from_documents(documents, symmetric=settings.symmetric, constraints=settings.constraints)
    labelled = None if settings.labels is None else LabelledText(settings.labels)
    if labelled is not None:
        own, schema = schema, check_teacher_schema(labelled.schema, schema, settings)
        # Constraints of the recipe take precedence over those of the teachers.
        schema = replace(schema, constraints={**schema.constraints, **own.constraints})
    schema = schema.learn_pairs(splits["train"].documents, settings.min_pair_count)
    return Corpus(splits, schema, labelled)


def compute_checksums(settings: DataSettings) -> dict[str, tuple[str, str]]:
    """Return paths and checksums of the annotated documents that still exist, by setting, without parsing them."""
    return {
        f"data.{name}": (path, checksum(Path(path))) for name, path in settings.splits.items() if Path(path).exists()
    }


def check_teacher_schema(theirs: Schema, own: Schema, settings: DataSettings) -> Schema:
    """Return the schema of the teachers. It must contain all labels of the data."""
    missing = [
        *(label for label in own.entity_types if label not in theirs.entity_types),
        *(label for label in own.relation_types if label not in theirs.relation_types),
    ]
    is_given = settings.schema is not None or settings.symmetric
    if missing or (is_given and own.symmetric != theirs.symmetric):
        raise SchemaError(
            f"the teachers have other labels than the data: {'; '.join(own.differences(theirs))}",
            "Use teachers that were trained with the labels of the data",
        )
    return theirs


def _read(name: str, path: str, settings: DataSettings) -> Split:
    stream = read_documents(
        path,
        settings.format,
        strict=not settings.skip_malformed,
        align=cast(Align, settings.align),
        keep_escapes=settings.keep_escapes,
        labels=read_label_map(settings.map),
    )
    documents = list(stream)
    return Split(name, path, documents, stream.report, checksum(Path(path)))


def _separate(train: Split, held: Sequence[Document], name: str) -> tuple[Split, Split]:
    """Return train without the held-out documents, and the split of these."""
    numbers = set(map(id, held))
    documents = [document for document in train.documents if id(document) not in numbers]
    report = ReadReport(skipped=train.report.skipped, noted=train.report.noted, examples=train.report.examples)
    for document in documents:
        report.count(document)
    counted = ReadReport()
    for document in held:
        counted.count(document)
    return (
        replace(train, documents=documents, report=report),
        Split(name, train.path, list(held), counted, train.sha256, held_out=True),
    )


def training_examples(
    model: Model, documents: Iterable[Document], dev: Iterable[Document]
) -> tuple[list[Example], list[Example]]:
    """Return the sentences to learn from and those to score, after checking their labels."""
    context = model.settings.encoder.context_words
    examples = [e for e in examples_of(_check_documents(documents, "training"), context) if len(e.sentence)]
    dev_examples = examples_of(_check_documents(dev, "development"), context)
    for which, checked in (("training", examples), ("development", dev_examples)):
        for number, example in enumerate(checked):
            start = " ".join(example.sentence.words[:6])
            model.schema.check(example.sentence, f"sentence {number} of the {which} documents ({start!r} …)")
    if not examples:
        raise DataError("the training documents contain no sentence with words", "Give annotated sentences")
    return examples, dev_examples


def _check_documents(given: Iterable[Document], which: str) -> list[Document]:
    """Refuse values that are easily confused with documents: a path, a single document, sentences."""
    if isinstance(given, str | Path | Document) or not isinstance(given, Iterable):
        raise DataError(
            f"the {which} documents are a {type(given).__name__}, but a list of Documents was expected",
            "Use list(read_documents(path)) for a file, or [document] for a single document",
        )
    documents = list(given)
    for number, document in enumerate(documents):
        if not isinstance(document, Document):
            raise DataError(
                f"item {number} of the {which} documents is a {type(document).__name__}, but a Document was expected",
                "Use Document.from_sentences, or read_documents(path) for a file",
            )
    return documents
