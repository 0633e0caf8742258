"""Search of the cascade: run the three turns over a batch of sentences and decode entities and triples."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest

import torch
from torch import Tensor

from cascade_srn.cascade import Cascade, StartEndMatch
from cascade_srn.data.collate import Collator
from cascade_srn.data.examples import Example
from cascade_srn.encoder.pieces import Row
from cascade_srn.fusion import Queries
from cascade_srn.heads import Pairs, SpanLabels
from cascade_srn.inference.batching import group_by_words
from cascade_srn.inference.decode import find_candidates, find_entity, list_spans, pair_with_spans_in_parts, select_best
from cascade_srn.inference.predictor import SearchSettings
from cascade_srn.inference.selection import ScoredTriple, SearchResult, limit_entities, relation_score
from cascade_srn.types import Span, Triple

# Pairs of a subject and an entity that turn 3 scores at a time, which bounds its memory. A CPU is faster with few
# pairs, because they stay in its cache.
_PAIRS_AT_ONCE, _PAIRS_AT_ONCE_ON_CPU = 1 << 13, 1 << 10


@dataclass(frozen=True)
class _Objects:
    """Objects found by turn 3: positions of subject and span, label and score. Shapes: (n_objects,) each."""

    subject: Tensor
    span: Tensor
    label: Tensor
    score: Tensor


@dataclass(frozen=True)
class CascadeSearch:
    """Finds entities and triples in a batch with a cascade.

    ``batch_words`` of the settings also bounds the rows that turn 3 encodes at once.
    """

    cascade: Cascade
    collator: Collator
    settings: SearchSettings

    def find(self, examples: Sequence[Example], rows: Sequence[Row], *, given_entities: bool) -> list[SearchResult]:
        """Run the three turns, or turns 2 and 3 if the entities are given. See :class:`.Search`."""
        sentences = [example.sentence for example in examples]
        features, lengths = self._features(rows)
        limited: set[int] = set()
        if given_entities:
            entities = [list(sentence.entities) for sentence in sentences]
            labels = self.collator.entity_labels(entities).to(self.settings.device)
        else:
            entities, labels = self._find_entities(features, lengths, [len(s) for s in sentences], limited)
        triples: list[list[ScoredTriple]] = [[] for _ in sentences]
        if self.cascade.relations is not None and labels.row.shape[0]:
            candidates, crowded = limit_entities(entities, sentences, self.settings.limits)
            if crowded:
                limited |= crowded
                labels = self.collator.entity_labels(candidates).to(self.settings.device)
            triples = self._find_triples(rows, features, candidates, labels, limited)
        return [
            SearchResult(sentence.annotated(spans, [scored.triple for scored in found]), found, number in limited)
            for number, (sentence, spans, found) in enumerate(zip(sentences, entities, triples, strict=True))
        ]

    def _features(self, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """Encode rows. Shapes: returns features (n_rows, n_words, *feature*) and numbers of words (n_rows,)."""
        batch = self.collator.pieces.batch(rows, max_pieces=self.settings.pass_pieces).to(self.settings.device)
        return self.cascade.features(batch, half=self.settings.half, check=self.settings.check), batch.word_lengths

    def _find_entities(
        self, features: Tensor, lengths: Tensor, n_words: Sequence[int], limited: set[int]
    ) -> tuple[list[list[Span]], SpanLabels]:
        """Turn 1: find the entities, as spans of each sentence and as tensors.

        Sentences with more entities than the limit are added to ``limited``.
        """
        threshold, temperature, limits = self.settings.entity, self.settings.temperatures.entity, self.settings.limits
        offset = self.settings.entity_offset
        *boundaries, match_logits = self.cascade.entity_boundaries(features)
        start, end = ((logits / temperature + offset).sigmoid() for logits in boundaries)
        row, first, last, label = find_candidates(start, end, lengths, threshold, limits.entity_words)
        match = match_logits(Pairs(row, first, last)).gather(1, label[:, None])[:, 0]
        match = (match / temperature + offset[label]).sigmoid()
        score = min_score(match, start[row, first, label], end[row, last, label])
        kept = (score >= threshold[label]).nonzero()[:, 0]
        columns, score = torch.stack((row, first, last, label))[:, kept], score[kept]
        found = columns.T.tolist()
        most = [limits.max_entities(n) for n in n_words]
        # Counted on the host, which needs the entities anyway. Counting on a GPU would wait for it once more.
        if any(count > most[i] for i, count in Counter(entity[0] for entity in found).items()):
            best = select_best(columns[0], score, most)
            assert best is not None
            limited.update(columns[0, ~best].tolist())
            columns, score = columns[:, best], score[best]
            found = columns.T.tolist()
        names = self.collator.schema.entity_types
        entities: list[list[Span]] = [[] for _ in n_words]
        for (number, begin, stop, kind), value in zip(found, score.tolist(), strict=True):
            entities[number].append(Span(begin, stop + 1, names[kind], value))
        return [sorted(spans) for spans in entities], SpanLabels(*columns.unbind(0))

    def _find_triples(
        self, rows: Sequence[Row], features: Tensor, entities: list[list[Span]], labels: SpanLabels, limited: set[int]
    ) -> list[list[ScoredTriple]]:
        """Turns 2 and 3: find the triples between entities. ``labels`` are the same entities as tensors.

        Adds the positions of sentences in which a limit applied to ``limited``.
        """
        if self.collator.fusion.entities == "markers":
            marked = [self.collator.with_entities(r, e) for r, e in zip(rows, entities, strict=True)]
            features, _ = self._features(marked)
        tags = self.cascade.tags(labels, (features.shape[0], features.shape[1]))
        # Subjects and objects are entities, so turns 2 and 3 score no other spans.
        spans = list_spans(labels, features.shape[1])
        logits = self.cascade.subject_span_logits(features, tags, spans)
        threshold = torch.full((1,), self.settings.subject, device=self.settings.device)
        position, _, score = _passing(logits, threshold, self.settings.temperatures.subject)
        if self.collator.fusion.subject == "markers":
            row = spans[position, 0]
            best = select_best(row, score, [self.settings.limits.marked_subjects] * len(rows))
            if best is not None:
                limited.update(row[~best].tolist())
                position, score = position[best], score[best]
        subjects = spans[position]
        objects = self._find_objects(rows, features, entities, tags, spans, subjects)
        triples = self._make_triples(entities, spans, subjects, score, objects)
        for number, found in enumerate(triples):
            most = self.settings.limits.max_relations(len(rows[number].word_items))
            if len(found) > most:
                limited.add(number)
                triples[number] = nlargest(most, found, key=lambda scored: scored.triple.score or 0.0)
        return [sorted(found) for found in triples]

    def _find_objects(
        self,
        rows: Sequence[Row],
        features: Tensor,
        entities: list[list[Span]],
        tags: Tensor | None,
        spans: Tensor,
        subjects: Tensor,
    ) -> _Objects:
        """Turn 3: find the objects of all subjects of a batch."""
        at_once = _PAIRS_AT_ONCE if spans.is_cuda else _PAIRS_AT_ONCE_ON_CPU
        found = []
        for group, group_features in self._object_features(rows, features, entities, subjects):
            queries = Queries(*subjects[group].unbind(1))
            object_logits = self.cascade.object_span_logits(group_features, tags, queries, spans)
            for query, span in pair_with_spans_in_parts(spans[:, 0], queries.sentence, len(rows), at_once):
                self.settings.check()
                logits = object_logits(query, span)
                position, label, score = _passing(logits, self.settings.object, self.settings.temperatures.object)
                found.append((group[query[position]], span[position], label, score))
        if not found:
            none = subjects.new_zeros(0)
            return _Objects(none, none, none, none.float())
        return _Objects(*(torch.cat(column) for column in zip(*found, strict=True)))

    def _object_features(
        self, rows: Sequence[Row], features: Tensor, entities: list[list[Span]], subjects: Tensor
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield positions of subjects and the features that turn 3 reads for them."""
        if self.collator.fusion.subject != "markers":
            yield torch.arange(len(subjects), device=self.settings.device), features
            return
        marked = [
            self.collator.with_subject(rows[row], entities[row], (first, last + 1))
            for row, first, last in subjects.tolist()
        ]
        for members in group_by_words(list(map(self.collator.pieces.cost, marked)), self.settings.batch_words):
            self.settings.check()
            features, _ = self._features([marked[i] for i in members])
            yield torch.tensor(members, device=self.settings.device), features

    def _make_triples(
        self, entities: list[list[Span]], spans: Tensor, subjects: Tensor, subject_scores: Tensor, objects: _Objects
    ) -> list[list[ScoredTriple]]:
        """Return the triples of each sentence, with the entities that the spans stand for."""
        names = self.collator.schema.relation_types
        heads, tails = subjects[objects.subject], spans[objects.span]
        columns = torch.cat((heads, tails[:, 1:], objects.label[:, None]), dim=1).tolist()
        scores = torch.stack((subject_scores[objects.subject], objects.score), dim=1).tolist()
        # Indexed by position, so that a sentence with many entities is not searched again for every triple.
        sharing: dict[tuple[int, int, int], list[Span]] = {}
        for row, spans_there in enumerate(entities):
            for span in spans_there:
                sharing.setdefault((row, span.start, span.end), []).append(span)
        triples: list[list[ScoredTriple]] = [[] for _ in entities]
        for (row, first, last, start, end, label), (subject, object_) in zip(columns, scores, strict=True):
            head = find_entity(sharing[row, first, last + 1], first, last + 1)
            tail = find_entity(sharing[row, start, end + 1], start, end + 1, not_this=head)
            triple = Triple(head, names[label], tail, relation_score(head, tail, object_))
            triples[row].append(ScoredTriple(triple, subject, object_))
        return triples


def _passing(logits: StartEndMatch, threshold: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return position, label and score of the spans that pass. Shapes: threshold (n_labels,); returns (n,) each."""
    score = min_score(*((part / temperature).sigmoid() for part in logits))
    position, label = (score >= threshold).nonzero(as_tuple=True)
    return position, label, score[position, label]


def min_score(first: Tensor, *others: Tensor) -> Tensor:
    """Return the elementwise minimum.

    A span passes if its start, end and match probabilities all pass, so its score is the smallest of them.
    """
    for other in others:
        first = torch.minimum(first, other)
    return first
