"""Suggest a recipe for annotated documents: a YAML file with comments, to train with or to edit."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from cascade_srn.config import FRESH
from cascade_srn.encoder.pretrained import encoder_width
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.formats.files import replacing
from cascade_srn.formats.reports import ReadReport
from cascade_srn.model.start import Start
from cascade_srn.storage.bundled import DEFAULT, bundled_models, is_cached
from cascade_srn.text.language import LanguageCounts
from cascade_srn.training.corpus import count_labels, read_split
from cascade_srn.training.defaults import FEW_SENTENCES, SMALL_WIDTH, default_training
from cascade_srn.training.recipe import DataSettings, parse_yaml
from cascade_srn.types import Document

# Share of the annotations whose labels the bundled model has, from which no encoder is a better start.
_SHARED_LABELS = 0.5
# Documents from which a tenth of them is enough for dev, instead of a fifth.
_MANY_DOCUMENTS = 50
# Cross-validation is suggested if there is no test set, and at least _FOLDS but fewer documents than _FOLD_DOCUMENTS.
_FOLDS, _FOLD_DOCUMENTS = 5, 200
_LABELS_SHOWN = 40


@dataclass(frozen=True)
class SuggestedEncoder:
    """A pretrained encoder, its width, and the sentences per second and thread that training reads, estimated."""

    name: str
    per_thread: float
    width: int = 384


# By language and size. The small English encoder was measured on one ARM core, in batches of 4 sentences of 14 words;
# the others are estimated by their number of operations.
ENCODERS = {
    ("English", "small"): SuggestedEncoder("sentence-transformers/all-MiniLM-L6-v2", 10),
    ("English", "base"): SuggestedEncoder("sentence-transformers/all-mpnet-base-v2", 1.5, 768),
    ("other", "small"): SuggestedEncoder("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", 5),
    ("other", "base"): SuggestedEncoder("FacebookAI/xlm-roberta-base", 1.5, 768),
}
# Sentences per second on a GPU, from the cost of recipes/scierc.yaml on a shared H200.
_GPU_SPEED = 300
# Seconds between the states of a training on few sentences, by the estimate of its time.
_STATE_SECONDS = 30


@dataclass(frozen=True)
class DataSummary:
    """Counts of annotated documents."""

    format: str  # Format of the file
    documents: int  # Number of documents
    annotated: int  # Number of documents with annotations
    sentences: int  # Number of sentences with words
    entities: Counter[str]  # Number of entities by type
    relations: Counter[str]  # Number of relations by type
    language: str  # "English" or "other"

    @classmethod
    def of(cls, documents: Iterable[Document], format: str) -> DataSummary:
        """Count documents."""
        n_documents = n_annotated = n_sentences = 0
        language = LanguageCounts()
        counts: dict[str, Counter[str]] = {"entity": Counter(), "relation": Counter()}
        for document in documents:
            n_documents += 1
            labels = count_labels(document)
            n_annotated += bool(labels)
            for (kind, label), count in labels.items():
                counts[kind][label] += count
            for sentence in document.sentences:
                n_sentences += bool(len(sentence))
                language.add(sentence.words)
        name = "English" if language.is_english else "other"
        return cls(format, n_documents, n_annotated, n_sentences, counts["entity"], counts["relation"], name)

    def __str__(self) -> str:
        return (
            f"{self.documents} documents, {self.sentences} sentences, {self.entities.total()} entities, "
            f"{self.relations.total()} relations"
        )


def summarise_data(
    data: DataSettings, on_read: Callable[[ReadReport], None] = lambda report: None
) -> dict[str, DataSummary]:
    """Read and count each split. ``on_read`` gets the report of each.

    Raises:
        DataError: If a file cannot be read, or train or dev has no entity.
    """
    found: dict[str, DataSummary] = {}
    for name, path in data.splits.items():
        stream = read_split(path, data)
        found[name] = DataSummary.of(stream, stream.format)
        on_read(stream.report)
        if name != "test" and not found[name].entities:
            raise DataError(
                f"{path} contains no entity to learn from ({found[name]}; read as {found[name].format})",
                "Give annotated documents, or name another format",
                option="format",
            )
    return found


@dataclass(frozen=True)
class RecipeSuggestion:
    """A recipe for annotated documents. Make one with :meth:`for_data`.

    Example:
        >>> suggestion = RecipeSuggestion.for_data(DataSettings("train.jsonl"))
        >>> suggestion.write("recipe.yaml")
    """

    data: DataSettings  # The data, and how to read them
    summaries: Mapping[str, DataSummary]  # Counts of each split
    start: Start | None  # Trained model to start from, or None
    encoder: SuggestedEncoder  # Pretrained encoder, if there is no start
    training: Mapping[str, Any]  # How to train, by the rule of training/defaults.py
    dev_share: float | None  # Share of train to hold out, if there is no dev and more than one document
    folds: int | None  # Number of folds to suggest for scores, because the data are few, or None
    seconds: float  # Expected time of training, a rough estimate
    device: str  # The device that the time is for, in words
    is_gpu: bool  # Whether that is a GPU

    @classmethod
    def for_data(
        cls,
        data: DataSettings,
        *,
        start: str | None = None,
        encoder: str | None = None,
        device: str = "auto",
        on_read: Callable[[ReadReport], None] = lambda report: None,
    ) -> RecipeSuggestion:
        """Read documents and choose settings by simple rules (docs/training.md).

        Args:
            data: The data, and how to read them.
            start: Trained model to start from: folder, name or hub id. None: the bundled model, unless there is a GPU
                and a better encoder that need not be downloaded.
            encoder: Pretrained encoder to train instead, by hub id or folder.
            device: Where to train.
            on_read: Called with the report of each file.

        Raises:
            ConfigError: If both a start and an encoder are given.
            ModelError: If there is no such model to start from.
        """
        import torch

        from cascade_srn.runs.device import find_device

        if start is not None and encoder is not None:
            raise ConfigError("a model to start from and an encoder were given", "Use one of the two", option="encoder")
        named = None if start is None else Start(start)
        summaries = summarise_data(data, on_read)
        train, found = summaries["train"], find_device(device)
        is_gpu = found.type == "cuda"
        chosen, suggested = _choose_start(train, named, encoder, is_gpu=is_gpu)
        if "dev" in summaries or train.documents < 2:
            share = None
        else:
            share = 0.1 if train.documents >= _MANY_DOCUMENTS else 0.2
        n_dev = summaries["dev"].sentences if "dev" in summaries else round((share or 0) * train.sentences)
        n_train = train.sentences - (0 if "dev" in summaries else n_dev)
        is_fresh = encoder == FRESH
        training = default_training(n_train, width=suggested.width, n_dev=n_dev, is_gpu=is_gpu, is_fresh=is_fresh)
        n_threads = torch.get_num_threads()
        speed = _GPU_SPEED if is_gpu else suggested.per_thread * n_threads
        few = _FOLDS <= train.annotated < _FOLD_DOCUMENTS
        folds = _FOLDS if few and "test" not in summaries else None
        described = torch.cuda.get_device_name(found) if is_gpu else f"a CPU with {n_threads} threads"
        seconds = training["epochs"] * n_train / speed
        if n_train <= FEW_SENTENCES:  # epochs are short, and writing a state takes seconds
            training["save_every"] = max(1, training["epochs"] // max(1, round(seconds / _STATE_SECONDS)))
        return cls(data, summaries, chosen, suggested, training, share, folds, seconds, described, is_gpu)

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the recipe to a file.

        Raises:
            ConfigError: If the file exists and ``overwrite`` is false.
        """
        check_target(path, overwrite=overwrite)
        with replacing(Path(path)) as handle:
            handle.write(self.to_yaml(path).encode())

    def to_yaml(self, path: str | Path = "recipe.yaml") -> str:
        """Return the text of the recipe. ``path`` is its name in the comment with the command."""
        parts = (
            self._heading(path),
            self._model(),
            self._data(),
            self._training(),
            [f"output: {_scalar(self.output)}"],
        )
        return "\n".join(line for part in parts for line in part) + "\n"

    def _heading(self, path: str | Path) -> Iterator[str]:
        train = self.summaries["train"]
        yield f"# Recipe for {_comment(self.data.train)}, suggested by cascade-srn init. See docs/training.md."
        yield "#"
        yield f"#   cascade-srn train {_comment(str(path))}"
        yield "#"
        for name, summary in self.summaries.items():
            yield f"# {name}: {summary}"
        for kind, counts in (("Entity", train.entities), ("Relation", train.relations)):
            yield f"# {kind} types: {_list_labels(counts)}"
        yield f"# Expected time: {_duration(self.seconds)} on {self.device}, roughly. Training shows the time left."

    def _model(self) -> Iterator[str]:
        yield "model:"
        if self.start is not None:
            yield f"  # A trained model that has {self._shared_labels(self.start)}. Others start from similar ones."
            yield f"  start: {_scalar(self.start.name)}"
            yield "  # Start from a pretrained encoder instead, which is downloaded once:"
            yield "  # encoder:"
            yield f"  #   name: {self.encoder.name}"
            return
        yield "  encoder:"
        yield f"    name: {_scalar(self.encoder.name)}  # hub id, downloaded once, or folder"
        yield "  # Start from a trained model instead of the encoder. It needs no network, and may have other labels:"
        yield f"  # start: {DEFAULT}"

    def _data(self) -> Iterator[str]:
        data, train = self.data, self.summaries["train"]
        yield "data:"
        yield f"  train: {_scalar(data.train)}"
        if data.dev is not None:
            yield f"  dev: {_scalar(data.dev)}"
        elif self.dev_share is not None:
            yield f"  dev: {self.dev_share}  # share of the documents of train to hold out, or a file"
            yield "  split_seed: 0"
        else:
            yield "  # There is a single document, of which nothing can be held out. Without dev, the last weights are"
            yield "  # kept and no thresholds are chosen."
            yield "  dev: null"
        yield (
            f"  test: {_scalar(data.test)}" if data.test is not None else "  # test: test.jsonl  # scored at the end"
        )
        if self.folds is not None:
            yield f"  # The data are few for a test set. This scores each document once, with {self.folds} models:"
            yield f"  # folds: {self.folds}"
        same = {summary.format for summary in self.summaries.values()} == {train.format}
        if same:
            yield f"  format: {train.format}"
        for name, default in (("align", "exact"), ("skip_malformed", False), ("keep_escapes", False), ("map", None)):
            if (value := getattr(data, name)) != default:
                yield f"  {name}: {_scalar(value)}"
        symmetric = sorted(self.start.schema.symmetric & train.relations.keys()) if self.start is not None else []
        yield f"  symmetric: {_scalar(symmetric)}  # relation types without direction"

    def _training(self) -> Iterator[str]:
        notes = {
            "corruption": "share of wrong entities that relations are learned with, as in prediction",
            "masking": "share of the words that are hidden from the encoder",
            "swapping": "share of the entities that get the words of others of their type",
            "frozen": "share of the layers that keep their weights: the embeddings" if self.training["frozen"] else "",
            "evaluate_every": "dev is small, so the last weights are kept"
            if not self.training["evaluate_every"]
            else "",
            "save_every": "epochs between states that an interrupted training continues from",
        }
        yield "training:"
        for name, value in self.training.items():
            note = f"  # {notes[name]}" if notes.get(name) else ""
            yield f"  {name}: {_scalar(value)}{note}"
        if self.is_gpu:
            yield "  precision: tf32"

    @property
    def output(self) -> str:
        """Folder of the run."""
        path = Path(self.data.train)
        stem = path.name.partition(".")[0]
        # The folder says more than the name of a split.
        name = path.absolute().parent.name if stem in ("train", "training") else stem
        return f"runs/{name or 'mine'}"

    def _shared_labels(self, start: Start) -> str:
        train = self.summaries["train"]
        shared = [*(train.entities.keys() & set(start.schema.entity_types))]
        shared += train.relations.keys() & set(start.schema.relation_types)
        return f"{len(shared)} of the {len(train.entities) + len(train.relations)} labels"


def check_target(path: str | Path, *, overwrite: bool = False) -> None:
    """Refuse a file that exists, unless it is to be overwritten."""
    if Path(path).is_dir():
        raise ConfigError(f"{str(path)!r} is a folder", "Give the name of a YAML file", option="output")
    if Path(path).exists() and not overwrite:
        raise ConfigError(f"{str(path)!r} exists", "Choose another name, or overwrite it", option="overwrite")


def _choose_start(
    train: DataSummary, named: Start | None, encoder: str | None, *, is_gpu: bool
) -> tuple[Start | None, SuggestedEncoder]:
    """Return the trained model to start from, or None, and the encoder to train without it.

    A model that has learned other labels is a better start than an encoder of its size (docs/training.md).
    """
    if named is not None:
        size = "small" if named.width <= SMALL_WIDTH else "base"
        return named, replace(ENCODERS[train.language, size], width=named.width)
    suggested = ENCODERS[train.language, "base" if is_gpu else "small"]
    if encoder is not None:
        known = {one.name: one for one in ENCODERS.values()}
        width = encoder_width(encoder) or suggested.width
        return None, known.get(encoder, replace(suggested, name=encoder, width=width))
    if DEFAULT not in bundled_models() or train.language != "English":
        return None, suggested
    start = Start(DEFAULT)
    counts = ((train.entities, start.schema.entity_types), (train.relations, start.schema.relation_types))
    shared = sum(found[label] for found, labels in counts for label in labels)
    has_labels = shared >= _SHARED_LABELS * (train.entities.total() + train.relations.total())
    if is_gpu and not has_labels and is_cached(suggested.name):
        return None, suggested
    return start, ENCODERS[train.language, "small"]


def _list_labels(counts: Counter[str]) -> str:
    shown = [f"{_comment(label)} ({count})" for label, count in counts.most_common(_LABELS_SHOWN)]
    more = f", and {len(counts) - _LABELS_SHOWN} more" if len(counts) > _LABELS_SHOWN else ""
    return (", ".join(shown) or "none") + more


def _comment(text: str) -> str:
    """Return text for a comment, on one line and without characters that YAML refuses."""
    return text if text.isprintable() else json.dumps(text)


def _scalar(value: Any) -> str:
    """Return a value as YAML on one line."""
    for style in (None, '"'):
        text = yaml.safe_dump(value, default_flow_style=True, default_style=style, width=math.inf, allow_unicode=True)
        text = text.removesuffix("...\n").rstrip("\n")
        # A recipe reads a few plain words, such as 1e5, in another way than YAML 1.1.
        if parse_yaml(text, "the value") == value:
            break
    return text


def _duration(seconds: float) -> str:
    if seconds < 90:
        return "about a minute"
    if seconds < 5400:
        return f"about {math.ceil(seconds / 60)} minutes"
    return f"about {math.ceil(seconds / 3600)} hours"
