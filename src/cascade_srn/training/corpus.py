"""The documents of a recipe, divided by whole documents, and the sentences to learn from and to score."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from cascade_srn.errors import ConfigError, DataError, SchemaError
from cascade_srn.formats.alignment import Align
from cascade_srn.formats.files import DocumentStream
from cascade_srn.formats.label_map import read_label_map
from cascade_srn.formats.registry import read_documents, read_schema
from cascade_srn.formats.reports import ReadReport
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example, examples_of
from cascade_srn.schema import Schema
from cascade_srn.storage.files import checksum
from cascade_srn.training.labelled import LabelledText
from cascade_srn.training.recipe import DataSettings
from cascade_srn.types import Document


@dataclass(frozen=True)
class CorpusSplit:
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
            "by_label": self._count_by_label(),
            "skipped": dict(report.skipped),
            "noted": dict(report.noted),
        }
        return described | ({"held_out": [document.id for document in self.documents]} if self.held_out else {})

    def _count_by_label(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for document in self.documents:
            counts.update(entity.label for entity in document.entities)
            counts.update(relation.label for relation in document.relations)
        return dict(counts.most_common())


@dataclass(frozen=True)
class Corpus:
    """All splits of a recipe, the schema, and text labelled by teachers, if there is any."""

    splits: dict[str, CorpusSplit]
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
    schema = schema.learn_constraints(splits["train"].documents, settings.min_pair_count)
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


def read_split(path: str, settings: DataSettings) -> DocumentStream:
    """Open annotated documents in the way that a recipe says."""
    return read_documents(
        path,
        settings.format,
        strict=not settings.skip_malformed,
        align=cast(Align, settings.align),
        keep_escapes=settings.keep_escapes,
        labels=read_label_map(settings.map),
    )


def _read(name: str, path: str, settings: DataSettings) -> CorpusSplit:
    stream = read_split(path, settings)
    documents = list(stream)
    return CorpusSplit(name, path, documents, stream.report, checksum(Path(path)))


def _separate(train: CorpusSplit, held: Sequence[Document], name: str) -> tuple[CorpusSplit, CorpusSplit]:
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
        CorpusSplit(name, train.path, list(held), counted, train.sha256, held_out=True),
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


LabelCounts = Counter[tuple[str, str]]
"""Numbers of annotations by kind and label."""

# The documents themselves, whose share counts like that of a label.
_DOCUMENT = ("document", "")
_MAX_PASSES, _LEAST_GAIN = 20, 1e-9


def hold_out(documents: Sequence[Document], share: float, seed: int = 0) -> tuple[list[Document], list[Document]]:
    """Divide documents into a large part to learn from and a small part to score, each in the given order.

    Starting from a random choice, single documents are moved as long as that brings the shares of all labels nearer to
    the wanted one. Documents stay whole, so the shares are approximate. A label of a single document stays in the large
    part if possible. Both parts have an entity.

    Raises:
        DataError: If there are fewer than two documents with entities.
    """
    counts = [count_labels(document) for document in documents]
    annotated = [number for number, found in enumerate(counts) if found]
    if len(annotated) < 2:
        raise DataError(
            f"data.dev is {share:g}, but a share can only be held out of two or more documents with entities "
            f"(found: {len(annotated)})",
            "Divide the data into more documents, or give a file",
            option="data.dev",
        )
    order = list(range(len(documents)))
    random.Random(seed).shuffle(order)
    held = _choose(counts, order, share)
    rest = [number for number in order if number not in held and counts[number]]
    if not any(counts[number] for number in held):
        held.add(_least_needed(rest, counts))
    elif not rest:
        held.discard(next(number for number in order if number in held and counts[number]))
    parts: tuple[list[Document], list[Document]] = [], []
    for number, document in enumerate(documents):
        parts[number in held].append(document)
    return parts


def divide(documents: Sequence[Document], n_parts: int, seed: int = 0) -> list[list[Document]]:
    """Divide documents into parts of about the same size and labels, each in the given order.

    LabelCounts are considered from the rarest on. A document with the label goes to the part that lacks most of it
    (iterative stratification; Sechidis, Tsoumakas and Vlahavas 2011). Documents without annotations come last. Each
    part has an entity.

    Raises:
        DataError: If there are fewer documents with entities than parts.
    """
    counts = [count_labels(document) for document in documents]
    n_annotated = sum(map(bool, counts))
    if n_annotated < n_parts:
        raise DataError(
            f"data.folds is {n_parts}, but there are only {n_annotated} documents with entities",
            "Use fewer folds, or divide the data into more documents",
            option="data.folds",
        )
    order = list(range(len(documents)))
    random.Random(seed).shuffle(order)
    parts = _assign(counts, order, n_parts)
    for part in parts:
        while not any(counts[number] for number in part):
            richest = max(parts, key=lambda other: sum(bool(counts[number]) for number in other))
            moved = next(number for number in richest if counts[number])
            richest.remove(moved)
            part.append(moved)
    return [[documents[number] for number in sorted(part)] for part in parts]


def _assign(counts: Sequence[LabelCounts], order: Sequence[int], n_parts: int) -> list[list[int]]:
    """Return the numbers of the documents of each part."""
    sizes = [Counter({_DOCUMENT: 1}) + found for found in counts]
    total: LabelCounts = sum(sizes, Counter())
    # Number of annotations of each label that each part still lacks.
    lacking = [{label: count / n_parts for label, count in total.items()} for _ in range(n_parts)]
    n_documents = Counter(label for found in sizes for label in found)
    parts: list[list[int]] = [[] for _ in range(n_parts)]
    left = set(order)
    # Documents themselves count as the most frequent label, so that those without annotations come last.
    for label in sorted(n_documents, key=lambda label: (label == _DOCUMENT, n_documents[label], label)):
        for number in (number for number in order if number in left and label in sizes[number]):
            chosen = max(range(n_parts), key=lambda part: (lacking[part][label], lacking[part][_DOCUMENT]))
            parts[chosen].append(number)
            left.remove(number)
            for found, count in sizes[number].items():
                lacking[chosen][found] -= count
    return parts


def count_labels(document: Document) -> LabelCounts:
    """Count the entities and relations of a document by kind and label."""
    found: LabelCounts = Counter()
    for sentence in document.sentences:
        found.update(("entity", entity.label) for entity in sentence.entities)
        found.update(("relation", triple.label) for triple in sentence.triples)
    return found


def _choose(counts: Sequence[LabelCounts], order: Sequence[int], share: float) -> set[int]:
    """Return the numbers of the documents to hold out."""
    sizes = [Counter({_DOCUMENT: 1}) + found for found in counts]
    total: LabelCounts = sum(sizes, Counter())
    n_documents = Counter(label for found in counts for label in found)
    held = set(order[: round(share * len(order))])
    # Number of held annotations of each label, minus the number to hold.
    excess = {label: -share * count for label, count in total.items()}
    for number in held:
        for label, count in sizes[number].items():
            excess[label] += count

    def gain(number: int, sign: int) -> float:
        """Return by how much the squared errors, relative to the number of annotations, fall if a document moves."""
        return sum(-n * (2 * sign * excess[label] + n) / total[label] for label, n in sizes[number].items())

    for _ in range(_MAX_PASSES):
        before = set(held)
        for number in order:
            sign = -1 if number in held else 1
            is_only = any(n_documents[label] == 1 for label in counts[number])
            if (sign < 0 and is_only) or (gain(number, sign) > _LEAST_GAIN and not is_only):
                held.symmetric_difference_update({number})
                for label, n in sizes[number].items():
                    excess[label] += sign * n
        if held == before:
            break
    return held


def _least_needed(numbers: Sequence[int], counts: Sequence[LabelCounts]) -> int:
    """Return the first document whose labels the others have as well, or else the first with the fewest other ones."""
    n_documents = Counter(label for number in numbers for label in counts[number])
    return min(numbers, key=lambda number: sum(n_documents[label] == 1 for label in counts[number]))
