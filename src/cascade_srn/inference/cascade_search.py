"""Prediction with any method: batches within memory, thresholds by label, results in the order of the input."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn

from cascade_srn.config import SearchLimits, Temperatures, Thresholds, require_choice, require_range
from cascade_srn.data.examples import Example
from cascade_srn.encoder.pieces import PIECES_PER_WORD, Row, WordPieces
from cascade_srn.errors import ConfigError, did_you_mean
from cascade_srn.inference.batching import by_word_budget, halve_on_out_of_memory
from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple

# Sentences whose rows are made at once, for batches of similar length. More would only take memory.
_PREPARED_AT_ONCE = 1 << 14

PRECISIONS = ("auto", "float32", "bf16")


class ScoredTriple(NamedTuple):
    """A triple with the score of its subject as a subject and that of its object as an object of that subject.

    The triple's own score is that of :func:`as_a_whole`.
    """

    triple: Triple
    subject: float
    object: float


def relation_score(head: Span, tail: Span, object_: float) -> float:
    """How sure it is that a triple is right in all its parts: the score of its object, and those of both entities.

    Entities that were given without a score are taken to be right. The subject's own score is left out: what is asked
    for a subject's objects also says whether there are any.
    """
    return object_ * sureness(head) * sureness(tail)


class SearchResult(NamedTuple):
    """A sentence with what was found in it; ``limited`` tells whether one of the ``SearchLimits`` applied."""

    sentence: Sentence
    triples: Sequence[ScoredTriple] = ()
    limited: bool = False


class SearchSettings(NamedTuple):
    """What a search in one batch goes by.

    Attributes:
        entity: what an entity has to reach, by its type. Shape: (n_entity_types,)
        subject: what a subject has to reach
        object: what an object has to reach, by the type of the relation. Shape: (n_relation_types,)
        temperatures: what logits are divided by, by turn
        batch_words: how many words may go through at once, padding included
        limits: bounds on what is looked at in one sentence
        check: called at short intervals during the work; it may raise to stop it
        half: whether the pretrained encoder computes in bf16; all that comes after it is float32
        device: where the network is
    """

    entity: Tensor
    subject: float
    object: Tensor
    temperatures: Temperatures
    batch_words: int
    limits: SearchLimits
    check: Callable[[], None]
    half: bool
    device: torch.device

    @property
    def pass_pieces(self) -> int:
        """Pieces that may go through the encoder at once, padding included."""
        return PIECES_PER_WORD * self.batch_words


def within_limits(
    entities: Sequence[list[Span]], sentences: Sequence[Sentence], limits: SearchLimits
) -> tuple[list[list[Span]], set[int]]:
    """Choose the entities that relations are looked for between: those of the best spans where there are very many.

    Returns:
        The chosen entities of each sentence, and the positions of the sentences where some were left out.
    """
    chosen, crowded = list(entities), set()
    for number, (there, sentence) in enumerate(zip(entities, sentences, strict=True)):
        most = limits.max_spans(len(sentence))
        if len(there) <= most:
            continue
        best: dict[tuple[int, int], float] = {}
        for entity in there:
            place = entity.start, entity.end
            best[place] = max(best.get(place, 0.0), sureness(entity))
        if len(best) > most:
            ranked = sorted((-score, place) for place, score in best.items())
            kept = {place for _, place in ranked[:most]}
            chosen[number] = [entity for entity in there if (entity.start, entity.end) in kept]
            crowded.add(number)
    return chosen, crowded


def sureness(entity: Span) -> float:
    """Return the score of an entity. One that was given without a score is taken to be right."""
    return 1.0 if entity.score is None else entity.score


def never_stop() -> None:
    """Let the work go on: the default ``check``."""


class Search(Protocol):
    """How a method finds things in one batch."""

    def find(self, examples: Sequence[Example], rows: Sequence[Row], *, given_entities: bool) -> list[SearchResult]:
        """Find entities and triples, or only triples between the entities that the sentences have.

        Args:
            examples: Sentences, at least one of which has words.
            rows: The same sentences as the encoder reads them first.
            given_entities: Whether the entities of the sentences are given.
        """


class TorchModule(Protocol):
    """The part of ``torch.nn.Module`` that the package uses on a network.

    A protocol cannot inherit from ``torch.nn.Module``, and the protocols of networks build on this one.
    """

    training: bool

    def eval(self) -> Self:
        """Switch to evaluation mode."""

    def train(self, mode: bool = True) -> Self:
        """Switch to training mode."""

    def to(self, device: torch.device | str) -> Self:
        """Move the weights to a device, in place."""

    def modules(self) -> Iterator[nn.Module]:
        """Iterate over all modules, this one included."""

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Iterate over the parameters."""

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, nn.Parameter]]:
        """Iterate over the parameters with their names."""

    def state_dict(self) -> dict[str, Any]:
        """Return the weights by name."""

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> Any:
        """Copy weights by name."""


class RowMaker(Protocol):
    """Turns sentences into rows for the encoder."""

    @property
    def pieces(self) -> WordPieces:
        """Words to pieces, and the cost of rows."""

    def plain(self, example: Example) -> Row:
        """Make the row that the encoder reads first."""


class Predictor:
    """Finds entities and triples in sentences. ``search`` makes its method's search, anew for every batch.

    ``batch_words`` bounds a batch, padding included, wherever the method reads text; it shrinks where the device runs
    out of memory. ``collator`` makes rows of sentences and says what each costs in a batch.
    ``limits`` bounds the work per sentence, and ``n_limited`` counts the sentences where it did. ``check`` is
    called at short intervals and may raise to stop the work. ``precision`` is that of the pretrained encoder:
    "float32", "bf16", or "auto" for bf16 on a GPU and float32 elsewhere (``half`` says which). All that comes after it
    is float32.
    """

    def __init__(
        self,
        network: TorchModule,
        schema: Schema,
        search: Callable[[SearchSettings], Search],
        collator: RowMaker,
        *,
        thresholds: Thresholds,
        temperatures: Temperatures | None = None,
        limits: SearchLimits | None = None,
        check: Callable[[], None] = never_stop,
        batch_words: int = 4096,
        precision: str = "auto",
    ) -> None:
        require_range("batch_words", batch_words, 1)
        require_choice("precision", precision, PRECISIONS)
        _refuse_unknown(thresholds, schema)
        self.network = network
        self.schema = schema
        self.search = search
        self.thresholds = thresholds
        self.temperatures = Temperatures() if temperatures is None else temperatures
        self.limits = SearchLimits() if limits is None else limits
        self.collator = collator
        self.check = check
        self.n_limited = 0
        self._warned_of_limits = False
        self.batch_words = batch_words
        self.half = precision == "bf16" or (precision == "auto" and self.device.type == "cuda")
        self._warned = False

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device

    def predict(self, examples: Sequence[Example], *, given_entities: bool = False) -> list[Sentence]:
        """The same sentences with what the model finds in them.

        With ``given_entities`` the entities of the sentences are taken as they are, whatever their scores, and only
        triples are looked for.
        """
        return [found.sentence for found in self.scored(examples, given_entities=given_entities)]

    @torch.inference_mode()
    def scored(self, examples: Sequence[Example], *, given_entities: bool = False) -> list[SearchResult]:
        """What :meth:`predict` finds, with the scores by which each triple was accepted."""
        if self.network.training:
            raise RuntimeError("the model is in training mode; call eval() on it before predicting")
        results: list[SearchResult] = []
        for begin in range(0, len(examples), _PREPARED_AT_ONCE):
            results += self._scored(examples[begin : begin + _PREPARED_AT_ONCE], given_entities)
        if self.n_limited and not self._warned_of_limits:
            self._warned_of_limits = True
            warnings.warn(
                "some sentences have more possible entities or relations than are considered; the best by score are "
                "kept: such text is often a list, a table or code, and model.settings.limits holds the bounds",
                stacklevel=3,
            )
        return results

    def _scored(self, examples: Sequence[Example], given_entities: bool) -> list[SearchResult]:
        results = [SearchResult(example.sentence) for example in examples]
        rows = [self.collator.plain(example) for example in examples]
        for group in self._groups([self.collator.pieces.cost(row) for row in rows]):
            self.check()
            members = [examples[i] for i in group], [rows[i] for i in group]
            for i, found in zip(group, self._within_memory(*members, given_entities), strict=True):
                self.n_limited += found.limited
                sure = self._sure(found)
                results[i] = sure if given_entities or self.thresholds.related is None else self._settled(sure)
        return results

    def _sure(self, found: SearchResult) -> SearchResult:
        """Without the triples that are not sure enough as a whole."""
        min_score = self.thresholds.relation
        if min_score is None:
            return found
        kept = [scored for scored in found.triples if scored.triple.score is None or scored.triple.score >= min_score]
        sentence = found.sentence.annotated(found.sentence.entities, [scored.triple for scored in kept])
        return found._replace(sentence=sentence, triples=kept)

    def _settled(self, found: SearchResult) -> SearchResult:
        """Without the entities that had to have a relation, and have none."""
        thresholds, sentence = self.thresholds, found.sentence
        related = {entity for triple in sentence.triples for entity in (triple.head, triple.tail)}
        kept = [
            entity
            for entity in sentence.entities
            if entity in related
            or entity.score is None
            or entity.score >= thresholds.entity_types.get(entity.label, thresholds.entity)
        ]
        return found._replace(sentence=sentence.annotated(kept, sentence.triples))

    def _groups(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Batches by the word budget, which may shrink on the way."""
        for group in by_word_budget(lengths, self.batch_words):
            for part in by_word_budget([lengths[i] for i in group], self.batch_words):
                yield [group[i] for i in part]

    def _terms(self) -> SearchSettings:
        thresholds, schema = self.thresholds, self.schema
        entity = _by_label(schema.entity_types, thresholds.entity_types, thresholds.entity)
        if thresholds.related is not None:
            entity = entity.clamp(max=thresholds.related)
        object_ = _by_label(schema.relation_types, thresholds.relation_types, thresholds.object)
        return SearchSettings(
            entity=entity.to(self.device),
            subject=thresholds.subject,
            object=object_.to(self.device),
            temperatures=self.temperatures,
            batch_words=self.batch_words,
            limits=self.limits,
            check=self.check,
            half=self.half,
            device=self.device,
        )

    def _within_memory(
        self, examples: Sequence[Example], rows: Sequence[Row], given_entities: bool
    ) -> list[SearchResult]:
        """A batch, in halves where the memory does not hold it: from then on, all batches are that small."""
        sentences = [example.sentence for example in examples]

        def find(numbers: Sequence[int]) -> list[SearchResult]:
            if not any(len(sentences[i]) for i in numbers):
                return [SearchResult(sentences[i].annotated((), ())) for i in numbers]
            members = [examples[i] for i in numbers], [rows[i] for i in numbers]
            return self.search(self._terms()).find(*members, given_entities=given_entities)

        def shrink(numbers: Sequence[int]) -> bool:
            # A single sentence is run again in smaller encoder passes, until a pass is one word of it.
            if len(numbers) == 1 and self.batch_words <= len(sentences[numbers[0]]):
                return False
            n_words = len(numbers) * max(self.collator.pieces.cost(rows[i]) for i in numbers)
            self.batch_words = max(1, min(self.batch_words, n_words) // 2)
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"the device ran out of memory on a batch of {n_words} words; going on with smaller ones: "
                    "give batch_words to choose their size",
                    stacklevel=6,
                )
            return True

        return halve_on_out_of_memory(find, range(len(examples)), shrink)


def _by_label(labels: Sequence[str], own: Mapping[str, float], threshold: float) -> Tensor:
    """The threshold of each label: its own, where it has one. Shape: (n_labels,)."""
    return torch.tensor([own.get(label, threshold) for label in labels])


def _refuse_unknown(thresholds: Thresholds, schema: Schema) -> None:
    """A threshold of a label that the model does not have is a mistake."""
    kinds = {"entity": (thresholds.entity_types, schema.entity_types)}
    kinds["relation"] = (thresholds.relation_types, schema.relation_types)
    for kind, (given, known) in kinds.items():
        for label in given:
            if label not in known:
                raise ConfigError(
                    f"there is a threshold for the {kind} type {label!r}, which the model does not have. "
                    f"{did_you_mean(label, known)}"
                )
