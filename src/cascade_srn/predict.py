"""The three turns over a batch: from sentences to entities and triples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cascade_srn.cascade import Cascade, words_at
from cascade_srn.data.batching import by_word_budget
from cascade_srn.data.collate import Collator
from cascade_srn.data.examples import Example
from cascade_srn.decode import (
    best_of_rows,
    boundary_candidates,
    distinct_spans,
    entity_at,
    spans_of_queries_in_parts,
)
from cascade_srn.encoder.pieces import Row
from cascade_srn.fusion import Queries
from cascade_srn.heads import Pairs, SpanExtractor, SpanLabels
from cascade_srn.prediction import Found, ScoredTriple, Terms, as_a_whole
from cascade_srn.types import Span, Triple


@dataclass(frozen=True)
class _Objects:
    """What turn 3 found. Shapes: (n_found,) each; ``query`` and ``span`` are positions."""

    query: Tensor
    span: Tensor
    label: Tensor
    score: Tensor


# Turn 3 looks at this many (subject, entity) pairs at a time, which bounds its memory. A processor is faster with
# few pairs, which stay in its cache.
_PAIRS_AT_ONCE, _PAIRS_AT_ONCE_ON_CPU = 1 << 13, 1 << 11


@dataclass(frozen=True)
class CascadeSearch:
    """Runs a cascade over the sentences of a batch; what turn 3 has to read anew keeps to ``batch_words`` as well."""

    cascade: Cascade
    collator: Collator
    terms: Terms

    def find(self, examples: Sequence[Example], rows: Sequence[Row], *, given_entities: bool) -> list[Found]:
        """What the three turns find, or, with entities that are given, turns 2 and 3 alone."""
        sentences = [example.sentence for example in examples]
        features, lengths = self._features(rows)
        n_words = [len(sentence) for sentence in sentences]
        limited: set[int] = set()
        if given_entities:
            entities = [list(sentence.entities) for sentence in sentences]
            found = self.collator.entity_labels(entities).to(self.terms.device)
            given = [1.0 if entity.score is None else entity.score for there in entities for entity in there]
            scores = torch.tensor(given, device=self.terms.device)
        else:
            found, scores = self._turn1(features, lengths, n_words, limited)
            entities = self._entities(found, scores, len(sentences))
        triples: list[list[ScoredTriple]] = [[] for _ in sentences]
        if self.cascade.relations is not None and found.row.shape[0]:
            triples = self._relations(rows, features, n_words, entities, found, scores, limited)
        return [
            Found(sentence.annotated(spans, [scored.triple for scored in there]), there, number in limited)
            for number, (sentence, spans, there) in enumerate(zip(sentences, entities, triples, strict=True))
        ]

    def _features(self, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """Encode rows. Shapes: features (n_rows, n_words, *feature*) and words of each row (n_rows,)."""
        batch = self.collator.pieces.batch(rows, max_pieces=self.terms.pass_pieces).to(self.terms.device)
        return self.cascade.features(batch, half=self.terms.half, check=self.terms.check), batch.word_lengths

    def _turn1(
        self, features: Tensor, lengths: Tensor, n_words: Sequence[int], limited: set[int]
    ) -> tuple[SpanLabels, Tensor]:
        """Find the entities of a batch and their scores. Rows with too many are added to ``limited``."""
        head, temperature, limits = self.cascade.entity_head, self.terms.temperatures.entity, self.terms.limits
        words = self.cascade.entity_inputs(features)
        start, end = ((logits / temperature).sigmoid() for logits in head.boundaries(words))
        threshold = self.terms.entity
        row, first, last, label = boundary_candidates(start, end, lengths, threshold, limits.entity_words)
        match = head.match(words, Pairs(row, first, last)).gather(1, label[:, None])[:, 0]
        score = least((match / temperature).sigmoid(), start[row, first, label], end[row, last, label])
        kept = (score >= threshold[label]).nonzero()[:, 0]
        best = best_of_rows(row[kept], score[kept], [limits.max_entities(n) for n in n_words])
        if best is not None:
            limited.update(row[kept[~best]].tolist())
            kept = kept[best]
        return SpanLabels(row[kept], first[kept], last[kept], label[kept]), score[kept]

    def _entities(self, found: SpanLabels, scores: Tensor, n_sentences: int) -> list[list[Span]]:
        names = self.collator.schema.entity_types
        entities: list[list[Span]] = [[] for _ in range(n_sentences)]
        columns = torch.stack((found.row, found.start, found.last, found.label), dim=1).tolist()
        for (row, first, last, label), score in zip(columns, scores.tolist(), strict=True):
            entities[row].append(Span(first, last + 1, names[label], score))
        return [sorted(spans) for spans in entities]

    def _relations(
        self,
        rows: Sequence[Row],
        features: Tensor,
        n_words: Sequence[int],
        entities: list[list[Span]],
        found: SpanLabels,
        scores: Tensor,
        limited: set[int],
    ) -> list[list[ScoredTriple]]:
        """Run turns 2 and 3, given the entities as Python objects (for markers) and as tensors with their scores.

        Rows in which a limit applies are added to ``limited``.
        """
        limits = self.terms.limits
        # Turns 2 and 3 only look at the distinct spans of entities, and at the best of them where there are very many.
        spans, which = distinct_spans(found, features.shape[1])
        span_scores = scores.new_zeros(len(spans)).scatter_reduce(0, which, scores, "amax", include_self=False)
        most = [limits.max_spans(n) for n in n_words]
        crowded = any(len(there) > limit for there, limit in zip(entities, most, strict=True))
        best = best_of_rows(spans[:, 0], span_scores, most) if crowded else None
        if best is not None:
            limited.update(spans[~best, 0].tolist())
            kept_labels = best[which]
            found = SpanLabels(*(part[kept_labels] for part in (found.row, found.start, found.last, found.label)))
            spans, span_scores = spans[best], span_scores[best]
            kept = {tuple(place) for place in spans.tolist()}
            entities = [
                [entity for entity in there if (row, entity.start, entity.end - 1) in kept]
                for row, there in enumerate(entities)
            ]
        if self.collator.fusion.entities == "markers":
            marked = [self.collator.with_entities(r, e) for r, e in zip(rows, entities, strict=True)]
            features, _ = self._features(marked)
        tags = self.cascade.tags(found, (features.shape[0], features.shape[1]))
        head = self.cascade.relation_turns.subject_head
        row, *edges = spans.unbind(1)
        shown = [None if tags is None else words_at(tags, row, edge) for edge in edges]
        first, last = (
            self.cascade.subject_inputs(words_at(features, row, edge), tag)
            for edge, tag in zip(edges, shown, strict=True)
        )
        threshold = torch.full((1,), self.terms.subject, device=self.terms.device)
        position, _, certainty = self._passing(head, first, last, threshold, self.terms.temperatures.subject)
        if self.collator.fusion.subject == "markers":
            best = best_of_rows(spans[position, 0], certainty, [limits.marked_subjects] * len(rows))
            if best is not None:
                limited.update(spans[position[~best], 0].tolist())
                position, certainty = position[best], certainty[best]
        subjects = spans[position]
        objects = self._turn3(rows, features, entities, tags, spans, subjects)
        objects = self._best_objects(objects, n_words, spans, span_scores, position, limited)
        return self._triples(entities, spans, subjects, certainty, objects)

    def _best_objects(
        self,
        objects: _Objects,
        n_words: Sequence[int],
        spans: Tensor,
        span_scores: Tensor,
        subjects: Tensor,
        limited: set[int],
    ) -> _Objects:
        """Keep the best relations of each row by their whole score, within ``limits.relations_per_word``.

        Shapes:
            spans: (n_spans, 3); span_scores: (n_spans,)
            subjects: (n_subjects,), positions of their spans
        """
        row = spans[objects.span, 0]
        score = objects.score * span_scores[objects.span] * span_scores[subjects[objects.query]]
        order = row.argsort(stable=True)
        most = [self.terms.limits.max_relations(n) for n in n_words]
        best = best_of_rows(row[order], score[order], most)
        if best is None:
            return objects
        limited.update(row[order[~best]].tolist())
        kept = order[best]
        return _Objects(objects.query[kept], objects.span[kept], objects.label[kept], objects.score[kept])

    def _passing(
        self, head: SpanExtractor, first: Tensor, last: Tensor, threshold: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Which spans pass start, end and match: position, label and score.

        Shapes:
            first, last: (n_spans, width), the representations of their first and last words
            threshold: (n_labels,)
        """
        score = least(*((logits / temperature).sigmoid() for logits in head.spans(first, last)))
        position, label = (score >= threshold).nonzero(as_tuple=True)
        return position, label, score[position, label]

    def _turn3(
        self,
        rows: Sequence[Row],
        features: Tensor,
        entities: list[list[Span]],
        tags: Tensor | None,
        spans: Tensor,
        subjects: Tensor,
    ) -> _Objects:
        """The objects of all subjects of a batch, as many subjects at a time as the budget holds."""
        head, threshold = self.cascade.relation_turns.object_head, self.terms.object
        parts = []
        for group, asked in self._object_features(rows, features, entities, subjects):
            queries = Queries(*subjects[group].unbind(1))
            shown = None if tags is None else tags[:, : asked.shape[1]]
            object_words = self.cascade.object_spans(asked, shown, queries, spans)
            at_once = _PAIRS_AT_ONCE if spans.is_cuda else _PAIRS_AT_ONCE_ON_CPU
            parted = spans_of_queries_in_parts(spans[:, 0], queries.sentence, len(rows), at_once)
            for query, span in parted:
                self.terms.check()
                first, last = object_words(query, span)
                position, label, score = self._passing(head, first, last, threshold, self.terms.temperatures.object)
                parts.append(_Objects(group[query[position]], span[position], label, score))
        if not parts:
            none = subjects.new_zeros(0)
            return _Objects(none, none, none, none.float())
        return _Objects(
            query=torch.cat([part.query for part in parts]),
            span=torch.cat([part.span for part in parts]),
            label=torch.cat([part.label for part in parts]),
            score=torch.cat([part.score for part in parts]),
        )

    def _object_features(
        self, rows: Sequence[Row], features: Tensor, entities: list[list[Span]], subjects: Tensor
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Groups of subjects (their positions) with the features that turn 3 reads for them."""
        if self.collator.fusion.subject != "markers":
            yield torch.arange(len(subjects), device=self.terms.device), features
            return
        marked = [
            self.collator.with_subject(rows[row], entities[row], (first, last + 1))
            for row, first, last in subjects.tolist()
        ]
        for members in by_word_budget(list(map(self.collator.pieces.cost, marked)), self.terms.batch_words):
            self.terms.check()
            features, _ = self._features([marked[i] for i in members])
            yield torch.tensor(members, device=self.terms.device), features

    def _triples(
        self,
        entities: list[list[Span]],
        spans: Tensor,
        subjects: Tensor,
        certainty: Tensor,
        objects: _Objects,
    ) -> list[list[ScoredTriple]]:
        """Triples between entities."""
        names = self.collator.schema.relation_types
        triples: list[list[ScoredTriple]] = [[] for _ in entities]
        heads, tails = subjects[objects.query], spans[objects.span]
        columns = torch.cat((heads, tails[:, 1:], objects.label[:, None]), dim=1).tolist()
        scores = torch.stack((certainty[objects.query], objects.score), dim=1).tolist()
        # By their words, so that a sentence in which very much passes is not searched anew for every triple.
        sharing: dict[tuple[int, int, int], list[Span]] = {}
        for row, spans_there in enumerate(entities):
            for span in spans_there:
                sharing.setdefault((row, span.start, span.end), []).append(span)
        for (row, first, last, start, end, label), (subject, object_) in zip(columns, scores, strict=True):
            head = entity_at(sharing[row, first, last + 1], first, last + 1)
            tail = entity_at(sharing[row, start, end + 1], start, end + 1, not_this=head)
            triple = Triple(head, names[label], tail, as_a_whole(head, tail, object_))
            triples[row].append(ScoredTriple(triple, subject, object_))
        return [sorted(found) for found in triples]


def least(first: Tensor, *others: Tensor) -> Tensor:
    """The smallest, position by position: the score of a span, all three of whose probabilities have to pass."""
    for other in others:
        first = torch.minimum(first, other)
    return first
