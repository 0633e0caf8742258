"""Units to annotate: sentences or documents of raw text, with the uncertain decisions of a model in them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from cascade_srn.config import MAX_SEED, Thresholds, require_choice, require_range
from cascade_srn.data.raw_text import sentence_key
from cascade_srn.errors import ConfigError
from cascade_srn.types import Document, Sentence

if TYPE_CHECKING:
    from cascade_srn.data.examples import Example
    from cascade_srn.extractor import Extractor
    from cascade_srn.inference.predictor import Predictor
    from cascade_srn.inference.selection import ScoredTriple, SearchResult

UNITS = ("sentence", "document")
# Words in a shingle. Sentences that share three words in a row by chance are rare.
_SHINGLE = 3
_DIGITS = re.compile(r"\d+")
# Candidates down to this share of their threshold count as possible annotations.
_POSSIBLE = 0.25


class Decision(NamedTuple):
    """An entity or relation that a model predicts, or nearly predicts.

    Attributes:
        label: Its type.
        key: Words of the entity, or of both entities, in lower case.
        probability: Score of the model.
        predicted: Whether the score passes the thresholds of the model.
    """

    label: str
    key: str
    probability: float
    predicted: bool

    @property
    def error(self) -> float:
        """Probability that an annotator has to correct the decision."""
        return 1 - self.probability if self.predicted else self.probability


@dataclass(frozen=True)
class Unit:
    """A sentence or a document that could be annotated.

    Attributes:
        document: The document, or the document of the sentence.
        position: Zero-based position of the document in the input.
        sentence: Zero-based position of the sentence in the document; None for a whole document.
        place: Random number from the seed and the words. It does not depend on the order of the input.
        decisions: What a model finds in it. Empty without a model.
    """

    document: Document
    position: int
    sentence: int | None
    place: int
    decisions: tuple[Decision, ...] = ()

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
    """Finds the decisions of a model in units: candidates that pass its thresholds, or nearly do."""

    def __init__(self, extractor: Extractor, batch_words: int = 4096) -> None:
        self.extractor = extractor
        self.thresholds = extractor.model.settings.thresholds
        # Overlaps and constraints would hide candidates that an annotator has to decide on.
        self.predictor: Predictor = extractor.model.predictor(
            thresholds=_lower(self.thresholds),
            overlaps="all",
            constraints="off",
            precision=extractor.precision,
            batch_words=batch_words,
        )

    def find(self, units: Sequence[Unit]) -> list[Unit]:
        """Return the units with their decisions."""
        examples = _examples(self.extractor, units)
        with warnings.catch_warnings():
            # Low thresholds reach the limits on candidates often. The best candidates are kept, which is enough here.
            warnings.filterwarnings("ignore", message="some sentences have more candidate")
            results = iter(self.predictor.predict_with_scores(examples))
        return [replace(unit, decisions=tuple(self._decisions(islice(results, len(unit.sentences))))) for unit in units]

    def _decisions(self, results: Iterable[SearchResult]) -> Iterator[Decision]:
        for result in results:
            words = [word.casefold() for word in result.sentence.words]
            text = {span: " ".join(words[span.start : span.end]) for span in result.sentence.entities}
            for span in result.sentence.entities:
                yield Decision(span.label, text[span], span.score or 0.0, self._passes(span.label, span.score))
            for scored in result.triples:
                triple = scored.triple
                key = f"{text[triple.head]}\t{text[triple.tail]}"
                yield Decision(triple.label, key, triple.score or 0.0, self._is_predicted(scored))

    def _passes(self, label: str, score: float | None, *, related: bool = False) -> bool:
        threshold = self.thresholds.entity_types.get(label, self.thresholds.entity)
        if related and self.thresholds.related is not None:
            threshold = min(threshold, self.thresholds.related)
        return (score or 0.0) >= threshold

    def _is_predicted(self, scored: ScoredTriple) -> bool:
        triple, thresholds = scored.triple, self.thresholds
        return (
            self._passes(triple.head.label, triple.head.score, related=True)
            and self._passes(triple.tail.label, triple.tail.score, related=True)
            and scored.subject >= thresholds.subject
            and scored.object >= thresholds.relation_types.get(triple.label, thresholds.object)
            and (triple.score or 0.0) >= (thresholds.relation or 0.0)
        )


def annotate(extractor: Extractor, units: Sequence[Unit], batch_words: int = 4096) -> list[Document]:
    """Return units as documents with the predictions of the extractor, as ``extract`` gives them."""
    predicted = iter(extractor.predictor(None, batch_words).predict(_examples(extractor, units)))
    made = [unit.as_document(list(islice(predicted, len(unit.sentences)))) for unit in units]
    return [replace(document, schema=extractor.schema) for document in made]


def _examples(extractor: Extractor, units: Sequence[Unit]) -> list[Example]:
    """Return the sentences of units with the context that the model reads."""
    found = {unit.position: unit.document for unit in units}
    of_document = {position: extractor.examples([document]) for position, document in found.items()}
    examples: list[Example] = []
    for unit in units:
        own = of_document[unit.position]
        examples += own if unit.sentence is None else [own[unit.sentence]]
    return examples


def _lower(thresholds: Thresholds) -> Thresholds:
    return Thresholds(
        entity=_POSSIBLE * min(thresholds.entity, thresholds.related or 1.0),
        subject=_POSSIBLE * thresholds.subject,
        object=_POSSIBLE * thresholds.object,
        entity_types={label: _POSSIBLE * value for label, value in thresholds.entity_types.items()},
        relation_types={label: _POSSIBLE * value for label, value in thresholds.relation_types.items()},
    )
