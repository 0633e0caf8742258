"""Units to annotate: sentences or documents of raw text, with the uncertain decisions of a model in them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import blake2b
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from cascade_srn.config import MAX_SEED, Thresholds, require_choice, require_range
from cascade_srn.errors import ConfigError
from cascade_srn.inputs.texts import sentence_key
from cascade_srn.types import Document, Sentence, Span

if TYPE_CHECKING:
    from cascade_srn.extractor import Extractor
    from cascade_srn.inference.decode import ScoredTriple, SearchResult
    from cascade_srn.inference.predictor import Predictor
    from cascade_srn.network.examples import Example

UNITS = ("sentence", "document")
# Words in a shingle. Sentences that share three words in a row by chance are rare.
_SHINGLE = 3
_DIGITS = re.compile(r"\d+")
# Candidates down to this share of their threshold count as possible annotations.
_POSSIBLE = 0.25


class Decision(NamedTuple):
    """An entity or relation that a model predicts, or nearly predicts."""

    label: str  # Its type
    key: str  # Words of the entity, or of both entities, in lower case
    probability: float  # Score of the model
    predicted: bool  # Whether the score passes the thresholds of the model

    @property
    def error(self) -> float:
        """Probability that an annotator has to correct the decision."""
        return 1 - self.probability if self.predicted else self.probability


@dataclass(frozen=True)
class Unit:
    """A sentence or a document that could be annotated."""

    document: Document  # The document, or the document of the sentence
    position: int  # Zero-based position of the document in the input
    sentence: int | None  # Zero-based position of the sentence in the document; None for a whole document
    place: int  # Random number from the seed and the words. It does not depend on the order of the input.
    decisions: tuple[Decision, ...] = ()  # What a model finds in it. Empty without a model.

    @property
    def sentences(self) -> Sequence[Sentence]:
        """The sentences of the unit."""
        return self.document.sentences if self.sentence is None else (self.document.sentences[self.sentence],)

    @property
    def n_words(self) -> int:
        """Number of words."""
        return sum(map(len, self.sentences))

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words in lower case, with all numbers alike."""
        return plain_words(self.sentences)

    def as_document(self, sentences: Sequence[Sentence]) -> Document:
        """Return the unit as a document of its own, with the annotations of ``sentences``."""
        if self.sentence is None:
            return replace(self.document, sentences=tuple(sentences))
        (sentence,) = sentences
        start = sentence.start
        offsets = tuple((first - start, last - start) for first, last in sentence.offsets)
        text = self.document.text[start : sentence.end]
        moved = Sentence(sentence.words, offsets, sentence.entities, sentence.triples, sentence.escaped)
        id = f"{self.document.id}:{self.sentence}" if self.document.id else f"{self.position}:{self.sentence}"
        return Document(text, (moved,), id, self.document.schema)


def plain_words(sentences: Iterable[Sentence]) -> tuple[str, ...]:
    """Return the words of sentences in lower case, with all numbers alike."""
    return tuple(_DIGITS.sub("0", word.casefold()) for sentence in sentences for word in sentence.words)


def shingles(words: Sequence[str]) -> set[tuple[str, ...]]:
    """Return all sequences of three words, or the words themselves if there are fewer."""
    if len(words) < _SHINGLE:
        return {tuple(words)}
    return {tuple(words[at : at + _SHINGLE]) for at in range(len(words) - _SHINGLE + 1)}


@dataclass(frozen=True)
class UnitSettings:
    """What counts as a unit.

    Attributes:
        unit: "sentence" or "document".
        min_words: Sentences with fewer words are left out. Documents need one sentence that is not left out.
        max_words: Sentences with more words, which are often tables or lists, are left out likewise.
        seed: Seed of random choices.
    """

    unit: str = "sentence"
    min_words: int = 4
    max_words: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        require_choice("unit", self.unit, UNITS)
        require_range("min_words", self.min_words, 1)
        require_range("seed", self.seed, 0, MAX_SEED)
        if self.max_words < self.min_words:
            raise ConfigError(
                f"max_words is {self.max_words}, which is less than min_words, {self.min_words}",
                "Give a larger number",
                option="max_words",
            )

    def split(self, document: Document, position: int) -> Iterator[Unit]:
        """Yield the units of a document."""
        fitting = [at for at, s in enumerate(document.sentences) if self.min_words <= len(s) <= self.max_words]
        if self.unit == "sentence":
            for at in fitting:
                yield Unit(document, position, at, self._place(document.sentences[at].words))
        elif fitting:
            words = (word for sentence in document.sentences for word in sentence.words)
            yield Unit(document, position, None, self._place(words))

    def _place(self, words: Iterable[str]) -> int:
        seed = self.seed.to_bytes(8, "big")
        return int.from_bytes(blake2b(sentence_key(words), digest_size=8, key=seed).digest(), "big")


class DecisionFinder:
    """Finds the decisions of a model in units: candidates that pass its thresholds, or nearly do.

    Entities and relations are found in two passes. Turns 2 and 3 read the entities of turn 1, and entities below their
    thresholds would change the scores of relations.
    """

    def __init__(self, extractor: Extractor, batch_words: int = 4096) -> None:
        self.extractor = extractor
        self.thresholds = thresholds = extractor.model.settings.thresholds
        # Overlaps and constraints would hide candidates that an annotator has to decide on.
        make = partial(
            extractor.model.predictor,
            overlaps="all",
            constraints="off",
            precision=extractor.precision,
            batch_words=batch_words,
        )
        # A subject threshold of 1 skips the later turns.
        entities = Thresholds(_POSSIBLE * thresholds.entity, 1.0, 1.0, _lower(thresholds.entity_types))
        relations = replace(
            thresholds,
            subject=_POSSIBLE * thresholds.subject,
            object=_POSSIBLE * thresholds.object,
            relation_types=_lower(thresholds.relation_types),
            relation=None,
        )
        self._entities: Predictor = make(thresholds=entities)
        joint = extractor.model.settings.joint and bool(extractor.schema.relation_types)
        self._relations: Predictor | None = make(thresholds=relations) if joint else None

    def find(self, units: Sequence[Unit]) -> list[Unit]:
        """Return the units with their decisions."""
        examples = _examples(self.extractor, units)
        with warnings.catch_warnings():
            # Low thresholds reach the limits on candidates often. The best candidates are kept, which is enough here.
            warnings.filterwarnings("ignore", message="some sentences have more candidate")
            entities = self._entities.predict(examples)
            related = None if self._relations is None else self._relations.predict_with_scores(examples)
        found = [list(self._entity_decisions(sentence)) for sentence in entities]
        for decisions, result in zip(found, related or (), strict=related is not None):
            decisions += self._relation_decisions(result)
        rest = iter(found)
        return [replace(unit, decisions=_joined(islice(rest, len(unit.sentences)))) for unit in units]

    def _entity_decisions(self, sentence: Sentence) -> Iterator[Decision]:
        for span in sentence.entities:
            yield Decision(span.label, _key(sentence, span), span.score or 0.0, self._passes(span))

    def _relation_decisions(self, result: SearchResult) -> Iterator[Decision]:
        for scored in result.triples:
            triple = scored.triple
            key = f"{_key(result.sentence, triple.head)}\t{_key(result.sentence, triple.tail)}"
            yield Decision(triple.label, key, triple.score or 0.0, self._is_predicted(scored))

    def _passes(self, span: Span) -> bool:
        return (span.score or 0.0) >= self.thresholds.entity_types.get(span.label, self.thresholds.entity)

    def _is_predicted(self, scored: ScoredTriple) -> bool:
        triple, thresholds = scored.triple, self.thresholds
        return (
            scored.subject >= thresholds.subject
            and scored.object >= thresholds.relation_types.get(triple.label, thresholds.object)
            and (triple.score or 0.0) >= (thresholds.relation or 0.0)
        )


def _key(sentence: Sentence, span: Span) -> str:
    return " ".join(sentence.words[span.start : span.end]).casefold()


def _joined(decisions: Iterable[list[Decision]]) -> tuple[Decision, ...]:
    return tuple(chain.from_iterable(decisions))


def _lower(thresholds: Mapping[str, float]) -> dict[str, float]:
    return {label: _POSSIBLE * value for label, value in thresholds.items()}


def annotate(extractor: Extractor, units: Sequence[Unit], batch_words: int = 4096) -> list[Document]:
    """Return units as documents with the predictions of the extractor, as ``extract`` gives them."""
    predicted = iter(extractor.predictor(None, batch_words).predict(_examples(extractor, units)))
    made = [unit.as_document(list(islice(predicted, len(unit.sentences)))) for unit in units]
    return [replace(document, schema=extractor.schema) for document in made]


def _examples(extractor: Extractor, units: Sequence[Unit]) -> list[Example]:
    """Return the sentences of units with the context that the model reads."""
    from cascade_srn.inference.predictor import refuse_forked

    refuse_forked(survives=extractor.model.survives_fork)
    found = {unit.position: unit.document for unit in units}
    of_document = {position: extractor.examples([document]) for position, document in found.items()}
    examples: list[Example] = []
    for unit in units:
        own = of_document[unit.position]
        examples += own if unit.sentence is None else [own[unit.sentence]]
    return examples
