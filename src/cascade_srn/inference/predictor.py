"""Prediction with any model: batches, thresholds, memory, the interface of models, and checks of what callers pass."""

from __future__ import annotations

import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any, Protocol, TypeVar

import numpy as np

from cascade_srn.config import (
    CONSTRAINTS,
    OVERLAPS,
    PRECISIONS,
    ModelSettings,
    SearchLimits,
    Temperatures,
    Thresholds,
    require_choice,
    require_range,
)
from cascade_srn.encoder.pieces import Row, WordPieces
from cascade_srn.errors import CascadeError, ConfigError, did_you_mean
from cascade_srn.inference.batching import Helpers, is_out_of_memory, run_beside
from cascade_srn.inference.cascade_search import Search, SearchSettings
from cascade_srn.inference.decode import Floats, Postprocessor, SearchResult
from cascade_srn.inference.precision import MinScores, PrecisionRecord
from cascade_srn.network.examples import Example
from cascade_srn.runs.garbage import without_garbage_collection
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence

# Sentences that are sorted by length and batched together. More sentences take more memory for little less padding.
_PREPARED_AT_ONCE = 1 << 14
# Sentences of similar length that are sorted by their number of pieces, which is known when their rows are made. A GPU
# waits for the rows of the first ones.
_SORTED_AT_ONCE = 1 << 9

# Words of a batch, padding included. A GPU is faster with more.
_BATCH_WORDS, _BATCH_WORDS_ON_GPU = 4096, 16384
# Smaller batches, in words, are searched one after the other.
_MIN_OVERLAPPED = 1024
# Batches of each thread if several search at the same time, so that they end at about the same time.
_BATCHES_PER_THREAD = 2

Item = TypeVar("Item")
Result = TypeVar("Result")


def never_stop() -> None:
    """Do nothing. The default ``check``."""


class RowMaker(Protocol):
    """Turns sentences into rows for the encoder."""

    @property
    def pieces(self) -> WordPieces:
        """The conversion of words to pieces."""

    def plain(self, example: Example) -> Row:
        """Return the row of a sentence without markers."""


def halve_on_out_of_memory(
    run: Callable[[Sequence[Item]], list[Result]], batch: Sequence[Item], shrink: Callable[[Sequence[Item]], bool]
) -> list[Result]:
    """Run a function on a batch. If memory runs out, run it on both halves of the batch, and so on.

    ``shrink`` is called with a batch that does not fit into memory, and returns False to raise the error. If it returns
    True for a single item, the item is run again, so it must have lowered another limit.
    """
    try:
        return run(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error) or not shrink(batch):
            raise
    # After the except clause, because the error keeps the tensors of the failed batch alive.
    if (torch := sys.modules.get("torch")) is not None:
        torch.cuda.empty_cache()
    middle = (len(batch) + 1) // 2
    parts = [part for part in (batch[:middle], batch[middle:]) if part]
    return [result for part in parts for result in halve_on_out_of_memory(run, part, shrink)]


def unless_out_of_memory(run: Callable[[], Result]) -> Result | None:
    """Return the result of a function, or None if memory runs out."""
    try:
        return run()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    return None


class Predictor:
    """Finds entities and triples in any number of sentences.

    Args:
        model: The model, in evaluation mode.
        thresholds: Minimum scores.
        temperatures: Divisors and offsets of the logits, by turn.
        limits: Bounds on the work per sentence. :attr:`n_limited` counts the sentences in which one applied.
        overlaps: "flat", "nested" or "all". See :mod:`.overlaps`. Given entities are all kept.
        check: Called at short intervals, when :attr:`n_sentences` sentences are done. It may raise to stop the work.
        batch_words: Maximum number of words per batch, padding included. None: 4,096, and 16,384 on a GPU. It shrinks
            if the device runs out of memory.
        precision: Precision of the pretrained encoder: "float32", "bf16", or "auto" for bf16 on a GPU and float32
            elsewhere. Everything after the encoder computes in float32.
        constraints: "on" applies the constraints of the schema to the relations of each sentence.
        cuda_graphs: Whether a GPU replays batches as CUDA graphs.
        min_scores: Scores that predictions must have besides all thresholds, which decide what is searched for.
    """

    def __init__(
        self,
        model: BaseModel,
        *,
        thresholds: Thresholds,
        temperatures: Temperatures | None = None,
        limits: SearchLimits | None = None,
        overlaps: str = "all",
        check: Callable[[], None] = never_stop,
        batch_words: int | None = None,
        precision: str = "auto",
        constraints: str = "off",
        cuda_graphs: bool = False,
        min_scores: MinScores | None = None,
    ) -> None:
        require_choice("constraints", constraints, CONSTRAINTS, option="constraints")
        require_choice("precision", precision, PRECISIONS)
        self.temperatures = Temperatures() if temperatures is None else temperatures
        require_choice("overlaps", overlaps, OVERLAPS, option="overlaps")
        schema = model.schema
        _check_labels("a threshold", schema, thresholds.entity_types, thresholds.relation_types)
        _check_labels("an offset", schema, self.temperatures.entity_offsets, self.temperatures.relation_offsets)
        self.model = model
        self.schema = schema
        self.search = model.search
        self.thresholds = thresholds
        self.limits = SearchLimits() if limits is None else limits
        self.overlaps = overlaps
        self.collator = model.collator
        self.check = check
        self.n_sentences = self.n_limited = 0
        self._warned_of_limits = False
        self.constraints = constraints
        self.cuda_graphs = cuda_graphs
        self.min_scores = min_scores
        has_gpu = getattr(self.device, "type", None) == "cuda"
        self.batch_words = (_BATCH_WORDS_ON_GPU if has_gpu else _BATCH_WORDS) if batch_words is None else batch_words
        require_range("batch_words", self.batch_words, 1, option="batch_words")
        self.bf16 = precision == "bf16" or (precision == "auto" and has_gpu)
        self._warned = False

    @property
    def device(self) -> Any:
        """Device of the network. See :class:`BaseModel`."""
        return self.model.device

    def predict(self, examples: Sequence[Example], *, given_entities: bool = False) -> list[Sentence]:
        """Annotate sentences, in the same order.

        With ``given_entities``, keep the entities of the sentences, whatever their scores, and find triples only.
        """
        return [found.sentence for found in self.predict_with_scores(examples, given_entities=given_entities)]

    def predict_with_scores(self, examples: Sequence[Example], *, given_entities: bool = False) -> list[SearchResult]:
        """Annotate sentences as :meth:`predict` does, and return the scores of each triple as well."""
        results: list[SearchResult] = []
        with self.model.inference(), without_garbage_collection():
            for begin in range(0, len(examples), _PREPARED_AT_ONCE):
                results += self._scored(examples[begin : begin + _PREPARED_AT_ONCE], given_entities)
        if self.n_limited and not self._warned_of_limits:
            self._warned_of_limits = True
            warnings.warn(
                "some sentences have more candidate entities or relations than the limits allow, as lists, tables and "
                "code often do. The candidates with the best scores are kept. The limits are in model.settings.limits",
                stacklevel=3,
            )
        return results

    def _scored(self, examples: Sequence[Example], given_entities: bool) -> list[SearchResult]:
        results = [SearchResult(example.sentence) for example in examples]
        postprocessor = Postprocessor(
            self.schema, self.thresholds, self.temperatures, self.overlaps, self.constraints, self.min_scores
        )
        n_words = sum(len(example.sentence.words) for example in examples)
        helped = self.model.helpers() if n_words >= _MIN_OVERLAPPED else nullcontext()
        with helped as helpers, closing(self._searched(examples, given_entities, helpers)) as batches:
            for group, searched in batches:
                self.n_sentences += len(group)
                for i, found in zip(group, searched, strict=True):
                    self.n_limited += found.limited
                    results[i] = postprocessor.apply(found, given_entities=given_entities)
        return results

    def _searched(
        self, examples: Sequence[Example], given_entities: bool, helpers: Helpers | None
    ) -> Generator[tuple[list[int], list[SearchResult]], None, None]:
        """Yield batches and what was found in them. A GPU reads the next batch before one is decoded."""
        if helpers is not None:

            def search(batch: tuple[list[int], list[Row]], check: Callable[[], None]) -> list[SearchResult]:
                return self._within_memory([examples[i] for i in batch[0]], batch[1], given_entities, check)

            batches = self.batches(examples, n_threads=helpers.n + 1)
            yield from ((group, found) for (group, _), found in run_beside(batches, search, helpers, self.check))
            return
        begun: tuple[list[int], Callable[[], list[SearchResult]]] | None = None
        for group, rows in self.batches(examples):
            self.check()
            members = [examples[i] for i in group], rows
            finish = self._begin(*members, given_entities)
            if begun is not None:
                yield begun[0], begun[1]()
            begun = None if finish is None else (group, finish)
            if finish is None:
                yield group, self._within_memory(*members, given_entities, self.check)
        if begun is not None:
            yield begun[0], begun[1]()

    def _begin(
        self, examples: Sequence[Example], rows: Sequence[Row], given_entities: bool
    ) -> Callable[[], list[SearchResult]] | None:
        """Let the GPU begin with a batch, and return a function for the rest of the search, or None."""
        if sum(len(row.sizes) for row in rows) < _MIN_OVERLAPPED or getattr(self.device, "type", None) != "cuda":
            return None
        begin = getattr(self.search(self._search_settings(self.check)), "begin", None)
        if begin is None:
            return None
        finish = unless_out_of_memory(lambda: begin(examples, rows, given_entities=given_entities))
        if finish is None:
            return None

        def find() -> list[SearchResult]:
            found = unless_out_of_memory(finish)
            return self._within_memory(examples, rows, given_entities, self.check) if found is None else found

        return find

    def batches(self, examples: Sequence[Example], *, n_threads: int = 1) -> Iterator[tuple[list[int], list[Row]]]:
        """Batch sentences of similar length by the word budget, which may shrink between two batches.

        ``n_threads`` search batches at the same time, and share the budget.

        The longest sentences come first, so that a batch that does not fit into memory fails early. Blocks of them are
        sorted by pieces, to which a batch is padded. Rows are made block by block, so that a GPU starts soon.
        """
        pieces = self.collator.pieces
        group: list[int] = []
        rows: list[Row] = []
        longest = 0
        n_words = sum(len(example.sentence.words) for example in examples)
        order = sorted(range(len(examples)), key=lambda i: -len(examples[i].sentence.words))
        for begin in range(0, len(order), _SORTED_AT_ONCE):
            members = order[begin : begin + _SORTED_AT_ONCE]
            made = self._plain_rows([examples[i] for i in members])
            block = zip(map(pieces.cost, made), members, made, strict=True)
            for cost, i, row in sorted(block, key=lambda member: -member[0]):
                budget = self.batch_words
                if n_threads > 1:
                    budget = min(budget, n_words) // (_BATCHES_PER_THREAD * n_threads)
                # All members are padded to the longest.
                if group and max(longest, cost) * (len(group) + 1) > budget:
                    yield group, rows
                    group, rows, longest = [], [], 0
                group.append(i)
                rows.append(row)
                longest = max(longest, cost)
        if group:
            yield group, rows

    def _plain_rows(self, examples: Sequence[Example]) -> list[Row]:
        others = [example for example in examples if example.row is None]
        if any(example.left or example.right for example in others):
            made = [self.collator.plain(example) for example in others]
        else:
            made = self.collator.pieces.rows([example.sentence.words for example in others])
        following = iter(made)
        return [next(following) if example.row is None else example.row for example in examples]

    def _search_settings(self, check: Callable[[], None]) -> SearchSettings:
        thresholds, schema = self.thresholds, self.schema
        entity = _by_label(schema.entity_types, thresholds.entity_types, thresholds.entity)
        if thresholds.related is not None:
            entity = np.minimum(entity, np.float32(thresholds.related))
        object_ = _by_label(schema.relation_types, thresholds.relation_types, thresholds.object)
        return SearchSettings(
            entity=entity,
            subject=thresholds.subject,
            object=object_,
            temperatures=self.temperatures,
            entity_offset=_by_label(schema.entity_types, self.temperatures.entity_offsets, 0.0),
            batch_words=self.batch_words,
            limits=self.limits,
            check=check,
            bf16=self.bf16,
            device=self.device,
            cuda_graphs=self.cuda_graphs,
        )

    def _within_memory(
        self, examples: Sequence[Example], rows: Sequence[Row], given_entities: bool, check: Callable[[], None]
    ) -> list[SearchResult]:
        """Search a batch. If it does not fit into memory, halve it, and all later batches."""
        sentences = [example.sentence for example in examples]

        def find(numbers: Sequence[int]) -> list[SearchResult]:
            if not any(sentences[i].words for i in numbers):
                return [SearchResult(sentences[i].annotated((), ())) for i in numbers]
            members = [examples[i] for i in numbers], [rows[i] for i in numbers]
            return self.search(self._search_settings(check)).find(*members, given_entities=given_entities)

        def shrink(numbers: Sequence[int]) -> bool:
            # A single sentence is run again in smaller encoder passes, until a pass is one word of it.
            if len(numbers) == 1 and self.batch_words <= len(sentences[numbers[0]]):
                return False
            n_words = len(numbers) * max(self.collator.pieces.cost(rows[i]) for i in numbers)
            self.batch_words = max(1, min(self.batch_words, n_words) // 2)
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"the device ran out of memory on a batch of {n_words} words. Continuing with smaller batches. "
                    "Set batch_words to choose their size",
                    stacklevel=6,
                )
            return True

        return halve_on_out_of_memory(find, range(len(examples)), shrink)


class BaseModel(ABC):
    """A model that an :class:`.Extractor` can use. See :class:`.Model` for the attributes."""

    settings: ModelSettings
    schema: Schema
    precision_record: PrecisionRecord | None = None

    @property
    @abstractmethod
    def collator(self) -> RowMaker:
        """Makes rows for the encoder."""

    @property
    @abstractmethod
    def device(self) -> Any:
        """Device of a PyTorch network, else None."""

    @property
    @abstractmethod
    def survives_fork(self) -> bool:
        """Whether a process that is forked after the model was used can use it. Threads do not survive a fork."""

    @abstractmethod
    def to(self, device: Any) -> None:
        """Move the network to a device, in place. Raises a ConfigError if the device is not available."""

    @abstractmethod
    def eval(self) -> None:
        """Switch to evaluation mode."""

    @abstractmethod
    def search(self, settings: SearchSettings) -> Search:
        """Make the search of the model family. It is called for every batch."""

    @abstractmethod
    def inference(self) -> AbstractContextManager[Any]:
        """Return a context in which the network only predicts. Refuse a network in training mode."""

    def helpers(self) -> AbstractContextManager[Helpers | None]:
        """Return a context with threads that search batches beside the caller, or with None if there are none."""
        return nullcontext()

    def check_precision(self, precision: str) -> None:  # noqa: B027 (most models have all precisions)
        """Raise a ConfigError if the model cannot compute in a precision."""

    def capture_cuda_graphs(self, bf16: bool) -> None:  # noqa: B027 (most models have none)
        """Capture the CUDA graphs of single sentences now, if the model has some. ``bf16``: for bfloat16."""

    def cost(self, example: Example) -> int:
        """Return the cost of a sentence in ordinary words. See ``WordPieces.cost``."""
        return self.collator.pieces.cost(self.collator.plain(example))

    @property
    def overlaps(self) -> str:
        """What to do with entities that share words: the choice stored with the model, else "flat"."""
        return self.settings.overlaps or OVERLAPS[0]

    def predictor(
        self,
        *,
        thresholds: Thresholds | None = None,
        overlaps: str | None = None,
        batch_words: int | None = None,
        precision: str = "auto",
        check: Callable[[], None] = never_stop,
        constraints: str | None = None,
        cuda_graphs: bool = False,
        min_scores: MinScores | None = None,
    ) -> Predictor:
        """Make a predictor. See :class:`.Predictor`."""
        return Predictor(
            self,
            thresholds=self.settings.thresholds if thresholds is None else thresholds,
            temperatures=self.settings.temperatures,
            limits=self.settings.limits,
            overlaps=self.overlaps if overlaps is None else overlaps,
            check=check,
            batch_words=batch_words,
            precision=precision,
            constraints=self.settings.constraints if constraints is None else constraints,
            cuda_graphs=cuda_graphs,
            min_scores=min_scores,
        )


def _by_label(labels: Sequence[str], own: Mapping[str, float], otherwise: float) -> Floats:
    """Return the value of each label. Shape: (n_labels,)."""
    return np.array([own.get(label, otherwise) for label in labels], dtype=np.float32)


def _check_labels(what: str, schema: Schema, entities: Iterable[str], relations: Iterable[str]) -> None:
    """Refuse thresholds and offsets of labels that the model does not have."""
    for kind, labels, known in (
        ("entity types", entities, schema.entity_types),
        ("relation types", relations, schema.relation_types),
    ):
        for label in labels:
            if label not in known:
                raise ConfigError(
                    f"{what} is set for {label!r}, which is not one of the {kind} of the model",
                    did_you_mean(label, known),
                )


# The process in which a model first ran. A forked process inherits it.
_first_used_in: int | None = None


def refuse_forked(*, survives: bool) -> None:
    """Raise an error in a process that was forked after a model ran, unless the model survives that."""
    global _first_used_in
    _first_used_in = os.getpid() if _first_used_in is None else _first_used_in
    if _first_used_in != os.getpid() and not survives:
        raise CascadeError(
            "this process was forked after a model was used, and the threads of the model do not survive a fork",
            "Start processes with 'spawn', or call torch.set_num_threads(1) in them first",
        )


def list_documents(documents: Iterable[Document]) -> list[Document]:
    """Return documents as a list, or raise an error if they are something else."""
    if isinstance(documents, str | Document):
        raise CascadeError(
            f"documents is a {type(documents).__name__}, not a list of Documents",
            "Pass [document], or use extract for a single text",
        )
    listed = list(documents)
    for number, document in enumerate(listed):
        if not isinstance(document, Document):
            raise CascadeError(
                f"item {number} is a {type(document).__name__}, not a Document",
                "Make one with Document.from_text, or use extract or stream for texts",
            )
    return listed


def check_characters(text: str) -> None:
    """Refuse unpaired surrogates, which no tokenizer accepts and no UTF-8 file can contain."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CascadeError(
            f"the text contains an unpaired surrogate, {text[error.start]!r}, at character {error.start}",
            "Remove it, or replace it with text.encode('utf-8', 'replace').decode()",
        ) from None
