"""Search of the cascade: run the three turns over a batch of sentences and decode entities and triples.

The turns take and return NumPy arrays, so that the search does not depend on what computes a network. Features and tags
stay where the network computes them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nlargest
from typing import Any, NamedTuple, Protocol

import numpy as np

from cascade_srn.config import SearchLimits, Temperatures
from cascade_srn.encoder.pieces import PIECES_PER_WORD, Row, RowArrays
from cascade_srn.encoder.windows import Division, Integers
from cascade_srn.inference.batching import group_by_words
from cascade_srn.inference.decode import (
    Floats,
    ScoredTriple,
    SearchResult,
    find_candidates,
    find_entity,
    limit_entities,
    list_spans,
    pair_with_spans,
    relation_score,
    scale_relation,
    select_best,
)
from cascade_srn.network.examples import Example, RowCollator
from cascade_srn.types import Span, Triple

EntityScores = Callable[[Integers, Integers, Integers, Integers], Floats]
"""Returns match probabilities from row, first word, last word and label of spans. Shapes: (n_spans,) each."""
ObjectScores = Callable[[Integers, Integers], Callable[[], Floats]]
"""Starts the computation of scores from positions of queries and of spans, (n_pairs,) each.

Returns a function that waits for the scores and returns them, (n_pairs, n_labels).
"""


class SearchSettings(NamedTuple):
    """Settings of the search in one batch."""

    entity: Floats  # Threshold of each entity type. Shape: (n_entity_types,)
    subject: float  # Threshold of subjects
    object: Floats  # Threshold of objects by relation type. Shape: (n_relation_types,)
    temperatures: Temperatures  # Divisors of the logits, by turn
    entity_offset: Floats  # Added to the logits of each entity type after the division. Shape: (n_entity_types,)
    batch_words: int  # Maximum number of words that are encoded at once, padding included
    limits: SearchLimits  # Bounds on the work per sentence
    check: Callable[[], None]  # Called at short intervals. It may raise to stop the work.
    bf16: bool  # Whether the pretrained encoder computes in bfloat16. Everything after it computes in float32.
    device: Any  # Device of a PyTorch network, else None
    cuda_graphs: bool = False  # Whether a GPU replays batches as CUDA graphs

    @property
    def pass_pieces(self) -> int:
        """Maximum number of pieces per encoder pass, padding included."""
        return PIECES_PER_WORD * self.batch_words


class Search(Protocol):
    """Finds entities and triples in one batch. Each model family implements it."""

    def find(self, examples: Sequence[Example], rows: Sequence[Row], *, given_entities: bool) -> list[SearchResult]:
        """Find entities and triples. At least one of the sentences has words. The rows are without markers.

        With ``given_entities``, keep the entities of the sentences, and find triples only.
        """


class Turns(Protocol):
    """Computes probabilities of the three turns, with temperatures and offsets applied.

    A span passes if its start, end and match probabilities all pass, so its score is the smallest of them.
    """

    @property
    def has_relations(self) -> bool:
        """Whether the model has turns 2 and 3."""

    @property
    def pairs_at_once(self) -> int:
        """Number of pairs of a subject and an entity that turn 3 scores at a time, which bounds its memory."""

    @property
    def division(self) -> Division | None:
        """Divides the windows of a batch into encoder passes. None: equal passes."""

    def features(self, rows: RowArrays, *, entities: bool = False) -> Any:
        """Encode rows and return the features of their words. ``entities``: they are for :meth:`entities`."""

    def entities(self, features: Any) -> tuple[Floats, Floats, EntityScores]:
        """Compute turn 1: start and end probabilities, (n_rows, n_words, n_labels) each, and a function for matches."""

    def tags(self, entities: Integers, shape: tuple[int, int]) -> Any:
        """Return the entity tags of all words, or None.

        Shapes: entities (n_entities, 4): row, first word, last word and label; ``shape`` is (n_rows, n_words)
        """

    def subjects(self, features: Any, tags: Any, spans: Integers) -> Floats:
        """Compute turn 2 for spans. Shapes: spans (n_spans, 3): row, first and last word; returns (n_spans,)."""

    def objects(self, features: Any, tags: Any, subjects: Integers, spans: Integers) -> ObjectScores:
        """Return a function that computes turn 3 for chosen pairs of a subject and a span.

        Features are those of the rows, or one row for each subject if markers show it.

        Shapes: subjects (n_subjects, 3), spans (n_spans, 3): row, first word and last word
        """


@dataclass(frozen=True)
class _Objects:
    """Objects found by turn 3: positions of subject and span, label and score. Shapes: (n_objects,) each."""

    subject: Integers
    span: Integers
    label: Integers
    score: Floats


@dataclass(frozen=True)
class CascadeSearch:
    """Finds entities and triples in a batch with a cascade.

    ``batch_words`` of the settings also bounds the rows that turn 3 encodes at once.
    """

    turns: Turns
    collator: RowCollator
    settings: SearchSettings

    def find(self, examples: Sequence[Example], rows: Sequence[Row], *, given_entities: bool) -> list[SearchResult]:
        """Run the three turns, or turns 2 and 3 if the entities are given. See :class:`.Search`."""
        return self.finish(examples, rows, self.begin(examples, rows, given_entities=given_entities), given_entities)

    def begin(self, examples: Sequence[Example], rows: Sequence[Row], *, given_entities: bool) -> Any:
        """Encode the rows of the first turn and return their features. A GPU does this without waiting."""
        if given_entities and self._marks_entities:
            sentences = [example.sentence for example in examples]
            candidates, _ = limit_entities([list(s.entities) for s in sentences], sentences, self.settings.limits)
            return self._marked_features(rows, candidates)
        return self._features(rows, entities=not given_entities)

    def finish(
        self, examples: Sequence[Example], rows: Sequence[Row], features: Any, given_entities: bool
    ) -> list[SearchResult]:
        """Find entities and triples from the features that :meth:`begin` returned for the same rows."""
        sentences = [example.sentence for example in examples]
        limited: set[int] = set()
        if given_entities:
            entities = [list(sentence.entities) for sentence in sentences]
            columns = self.collator.entity_columns(entities)
        else:
            entities, columns = self._find_entities(features, [len(s.words) for s in sentences], limited)
        triples: list[list[ScoredTriple]] = [[] for _ in sentences]
        if self.turns.has_relations and len(columns):
            candidates, crowded = limit_entities(entities, sentences, self.settings.limits)
            if crowded:
                limited |= crowded
                columns = self.collator.entity_columns(candidates)
            if self._marks_entities and not given_entities:
                features = self._marked_features(rows, candidates)
            # The map of scores to probabilities is fitted to entities that were found.
            calibrate = not given_entities and self.settings.temperatures.scales_relations
            triples = self._find_triples(rows, features, candidates, columns, limited, calibrate=calibrate)
        return [
            SearchResult(
                sentence.with_predictions(spans, [scored.triple for scored in found]),
                found,
                number in limited,
                calibrated=not given_entities,
            )
            for number, (sentence, spans, found) in enumerate(zip(sentences, entities, triples, strict=True))
        ]

    def _features(self, rows: Sequence[Row], *, entities: bool = False) -> Any:
        """Encode rows and return the features of their words."""
        return self.turns.features(self._arrays(rows), entities=entities)

    def _arrays(self, rows: Sequence[Row]) -> RowArrays:
        return self.collator.pieces.arrays(rows, self.turns.division, max_pieces=self.settings.pass_pieces)

    @property
    def _marks_entities(self) -> bool:
        return self.collator.fusion.entities == "markers"

    def _marked_features(self, rows: Sequence[Row], entities: Sequence[list[Span]]) -> Any:
        """Encode rows with markers of their entities, for turn 2."""
        return self._features(self.collator.with_entities(rows, entities))

    def _find_entities(
        self, features: Any, n_words: Sequence[int], limited: set[int]
    ) -> tuple[list[list[Span]], Integers]:
        """Turn 1: find the entities, as spans of each sentence and as an array of row, first word, last word and label.

        Sentences with more entities than the limit are added to ``limited``.
        """
        threshold, limits = self.settings.entity, self.settings.limits
        start, end, match = self.turns.entities(features)
        row, first, last, label = find_candidates(start, end, np.asarray(n_words), threshold, limits.entity_words)
        # A span passes if its start, end and match probabilities all pass, so its score is the smallest of them.
        score = np.minimum(start[row, first, label], end[row, last, label])
        score = np.minimum(score, match(row, first, last, label))
        kept = score >= threshold[label]
        columns, score = np.stack((row, first, last, label), axis=1)[kept], score[kept]
        best = select_best(columns[:, 0], score, [limits.max_entities(n) for n in n_words])
        if best is not None:
            limited.update(columns[~best, 0].tolist())
            columns, score = columns[best], score[best]
        names = self.collator.schema.entity_types
        row, first, last, label = columns.T
        # Sorted at once, because comparing spans takes long.
        order = np.lexsort((_ranks(names)[label], last, first, row))
        entities: list[list[Span]] = [[] for _ in n_words]
        for (number, begin, stop, kind), value in zip(columns[order].tolist(), score[order].tolist(), strict=True):
            entities[number].append(Span(begin, stop + 1, names[kind], value))
        return entities, columns

    def _find_triples(
        self,
        rows: Sequence[Row],
        features: Any,
        entities: list[list[Span]],
        columns: Integers,
        limited: set[int],
        *,
        calibrate: bool,
    ) -> list[list[ScoredTriple]]:
        """Turns 2 and 3: find the triples between entities. ``columns`` are the same entities as an array.

        Adds the positions of sentences in which a limit applied to ``limited``. ``calibrate`` makes probabilities of
        the scores of triples.
        """
        n_words = max(len(row.word_items) for row in rows)
        tags = self.turns.tags(columns, (len(rows), n_words))
        # Subjects and objects are entities, so turns 2 and 3 score no other spans.
        spans = list_spans(columns[:, 0], columns[:, 1], columns[:, 2], n_words)
        score = self.turns.subjects(features, tags, spans)
        (position,) = (score >= np.float32(self.settings.subject)).nonzero()
        score = score[position]
        if self.collator.fusion.subject == "markers":
            row = spans[position, 0]
            best = select_best(row, score, [self.settings.limits.marked_subjects] * len(rows))
            if best is not None:
                limited.update(row[~best].tolist())
                position, score = position[best], score[best]
        subjects = spans[position]
        objects = self._find_objects(rows, features, entities, tags, spans, subjects)
        triples = self._make_triples(entities, spans, subjects, score, objects, calibrate=calibrate)
        for number, found in enumerate(triples):
            most = self.settings.limits.max_relations(len(rows[number].word_items))
            if len(found) > most:
                limited.add(number)
                triples[number] = sorted(nlargest(most, found, key=_product))
        return triples

    def _find_objects(
        self,
        rows: Sequence[Row],
        features: Any,
        entities: list[list[Span]],
        tags: Any,
        spans: Integers,
        subjects: Integers,
    ) -> _Objects:
        """Turn 3: find the objects of all subjects of a batch."""
        found = []
        waiting: Callable[[], tuple[Integers, Integers, Integers, Floats]] | None = None
        for group, group_features in self._object_features(rows, features, entities, subjects):
            chosen = subjects[group]
            score_pairs = self.turns.objects(group_features, tags, chosen, spans)
            for query, span in pair_with_spans(spans[:, 0], chosen[:, 0], len(rows), self.turns.pairs_at_once):
                self.settings.check()
                started = partial(self._accept_objects, group[query], span, score_pairs(query, span))
                # A GPU has its next work before the host waits for its scores.
                if waiting is not None:
                    found.append(waiting())
                waiting = started
        if waiting is not None:
            found.append(waiting())
        if not found:
            none = np.zeros(0, dtype=np.int64)
            return _Objects(none, none, none, none.astype(np.float32))
        return _Objects(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def _accept_objects(
        self, subject: Integers, span: Integers, scores: Callable[[], Floats]
    ) -> tuple[Integers, Integers, Integers, Floats]:
        """Return subject, span, label and score of the pairs that pass. Shapes: subject, span (n_pairs,)."""
        score = scores()
        position, label = (score >= self.settings.object).nonzero()
        return subject[position], span[position], label, score[position, label]

    def _object_features(
        self, rows: Sequence[Row], features: Any, entities: list[list[Span]], subjects: Integers
    ) -> Iterator[tuple[Integers, Any]]:
        """Yield positions of subjects and the features that turn 3 reads for them."""
        if self.collator.fusion.subject != "markers":
            yield np.arange(len(subjects)), features
            return
        marked = self.collator.with_subjects(rows, entities, subjects)
        groups = group_by_words(list(map(self.collator.pieces.cost, marked)), self.settings.batch_words)
        prepared = ((members, self._arrays([marked[i] for i in members])) for members in groups)
        following = next(prepared, None)
        while following is not None:
            self.settings.check()
            members, arrays = following
            features = self.turns.features(arrays)
            # Prepared while a GPU encodes the group before.
            following = next(prepared, None)
            yield np.asarray(members), features

    def _make_triples(
        self,
        entities: list[list[Span]],
        spans: Integers,
        subjects: Integers,
        subject_scores: Floats,
        objects: _Objects,
        *,
        calibrate: bool,
    ) -> list[list[ScoredTriple]]:
        """Return the triples of each sentence, sorted, with the entities that the spans stand for."""
        names, temperatures = self.collator.schema.relation_types, self.settings.temperatures
        triples: list[list[ScoredTriple]] = [[] for _ in entities]
        # Subjects are sorted by position, and so are spans. The head and the tail of two spans are always the same.
        order = np.lexsort((objects.span, _ranks(names)[objects.label], objects.subject))
        query, span, label = objects.subject[order], objects.span[order], objects.label[order]
        pairs = subjects[query], spans[span][:, 1:] + (0, 1), label[:, None]
        columns = np.concatenate(pairs, axis=1).tolist()
        scores = zip(subject_scores[query].tolist(), objects.score[order].tolist(), strict=True)
        # Indexed by position, so that a sentence with many entities is not searched again for every triple.
        sharing: dict[int, dict[tuple[int, int], list[Span]]] = {}
        for (row, first, last, start, end, kind), (subject, object_) in zip(columns, scores, strict=True):
            if row not in sharing:
                there = sharing[row] = {}
                for entity in entities[row]:
                    there.setdefault((entity.start, entity.end), []).append(entity)
            there = sharing[row]
            heads, tails = there[first, last + 1], there[start, end]
            # Most spans are one entity.
            head = heads[0] if len(heads) == 1 else find_entity(heads, first, last + 1)
            tail = tails[0] if len(tails) == 1 else find_entity(tails, start, end, not_this=head)
            score = relation_score(head, tail, object_)
            if calibrate:
                score = scale_relation(score, names[kind], temperatures)
            triples[row].append(ScoredTriple(Triple(head, names[kind], tail, score), subject, object_))
        return triples


def _product(scored: ScoredTriple) -> float:
    return relation_score(scored.triple.head, scored.triple.tail, scored.object)


def _ranks(names: Sequence[str]) -> Integers:
    """Return the position of each name in the order of names."""
    return np.argsort(np.argsort(np.asarray(names, dtype=object)))
