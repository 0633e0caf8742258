"""The three turns over a batch: from sentences to entities and triples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest

import torch
from torch import Tensor

from cascade_srn.cascade import Cascade, words_at
from cascade_srn.data.collate import Collator
from cascade_srn.data.examples import Example
from cascade_srn.encoder.pieces import Row
from cascade_srn.fusion import Queries
from cascade_srn.heads import Pairs, SpanExtractor, SpanLabels
from cascade_srn.inference.batching import by_word_budget
from cascade_srn.inference.cascade_search import (
    ScoredTriple,
    SearchResult,
    SearchSettings,
    relation_score,
    within_limits,
)
from cascade_srn.inference.decode import (
    best_of_rows,
    boundary_candidates,
    distinct_spans,
    entity_at,
    spans_of_queries_in_parts,
)
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
_PAIRS_AT_ONCE, _PAIRS_AT_ONCE_ON_CPU = 1 << 13, 1 << 10


@dataclass(frozen=True)
class CascadeSearch:
    """Runs a cascade over the sentences of a batch; what turn 3 has to read anew keeps to ``batch_words`` as well."""

    cascade: Cascade
    collator: Collator
    settings: SearchSettings

    def find(self, examples: Sequence[Example], rows: Sequence[Row], *, given_entities: bool) -> list[SearchResult]:
        """What the three turns find, or, with entities that are given, turns 2 and 3 alone."""
        sentences = [example.sentence for example in examples]
        features, lengths = self._features(rows)
        limited: set[int] = set()
        if given_entities:
            entities = [list(sentence.entities) for sentence in sentences]
            found = self.collator.entity_labels(entities).to(self.settings.device)
        else:
            entities, found = self._turn1(features, lengths, [len(sentence) for sentence in sentences], limited)
        triples: list[list[ScoredTriple]] = [[] for _ in sentences]
        if self.cascade.relations is not None and found.row.shape[0]:
            shown, crowded = within_limits(entities, sentences, self.settings.limits)
            if crowded:
                limited |= crowded
                found = self.collator.entity_labels(shown).to(self.settings.device)
            triples = self._relations(rows, features, shown, found, limited)
        return [
            SearchResult(sentence.annotated(spans, [scored.triple for scored in there]), there, number in limited)
            for number, (sentence, spans, there) in enumerate(zip(sentences, entities, triples, strict=True))
        ]

    def _features(self, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """Encode rows. Shapes: features (n_rows, n_words, *feature*) and words of each row (n_rows,)."""
        batch = self.collator.pieces.batch(rows, max_pieces=self.settings.pass_pieces).to(self.settings.device)
        return self.cascade.features(batch, half=self.settings.half, check=self.settings.check), batch.word_lengths

    def _turn1(
        self, features: Tensor, lengths: Tensor, n_words: Sequence[int], limited: set[int]
    ) -> tuple[list[list[Span]], SpanLabels]:
        """Find the entities of a batch, as Python objects and as tensors. Rows with too many are ``limited``."""
        head, temperature, limits = (
            self.cascade.entity_head,
            self.settings.temperatures.entity,
            self.settings.limits,
        )
        words = self.cascade.entity_inputs(features)
        start, end = ((logits / temperature).sigmoid() for logits in head.boundaries(words))
        threshold = self.settings.entity
        row, first, last, label = boundary_candidates(start, end, lengths, threshold, limits.entity_words)
        match = head.match(words, Pairs(row, first, last)).gather(1, label[:, None])[:, 0]
        score = min_score((match / temperature).sigmoid(), start[row, first, label], end[row, last, label])
        kept = (score >= threshold[label]).nonzero()[:, 0]
        found, scores = SpanLabels(row[kept], first[kept], last[kept], label[kept]), score[kept]
        columns = torch.stack((found.row, found.start, found.last, found.label), dim=1).tolist()
        most = [limits.max_entities(n) for n in n_words]
        # Counted on the host, where the entities go anyway: asking a GPU would make it wait.
        if any(count > most[i] for i, count in Counter(column[0] for column in columns).items()):
            best = best_of_rows(found.row, scores, most)
            assert best is not None
            limited.update(found.row[~best].tolist())
            found = SpanLabels(*(part[best] for part in (found.row, found.start, found.last, found.label)))
            scores = scores[best]
            columns = torch.stack((found.row, found.start, found.last, found.label), dim=1).tolist()
        names = self.collator.schema.entity_types
        entities: list[list[Span]] = [[] for _ in n_words]
        for (number, begin, stop, kind), sure in zip(columns, scores.tolist(), strict=True):
            entities[number].append(Span(begin, stop + 1, names[kind], sure))
        return [sorted(spans) for spans in entities], found

    def _relations(
        self,
        rows: Sequence[Row],
        features: Tensor,
        entities: list[list[Span]],
        found: SpanLabels,
        limited: set[int],
    ) -> list[list[ScoredTriple]]:
        """Turns 2 and 3, given the entities: as Python objects where markers are made of them, and as tensors.

        Sentences in which a limit applies are added to ``limited``.
        """
        if self.collator.fusion.entities == "markers":
            marked = [self.collator.with_entities(r, e) for r, e in zip(rows, entities, strict=True)]
            features, _ = self._features(marked)
        tags = self.cascade.tags(found, (features.shape[0], features.shape[1]))
        # The distinct words of the entities, by sentence: the only spans that turns 2 and 3 need to look at.
        spans = distinct_spans(found, features.shape[1])
        head = self.cascade.relation_turns.subject_head
        row, *edges = spans.unbind(1)
        shown = [None if tags is None else words_at(tags, row, edge) for edge in edges]
        first, last = (
            self.cascade.subject_inputs(words_at(features, row, edge), tag)
            for edge, tag in zip(edges, shown, strict=True)
        )
        threshold = torch.full((1,), self.settings.subject, device=self.settings.device)
        position, _, certainty = self._passing(head, first, last, threshold, self.settings.temperatures.subject)
        if self.collator.fusion.subject == "markers":
            best = best_of_rows(row[position], certainty, [self.settings.limits.marked_subjects] * len(rows))
            if best is not None:
                limited.update(row[position[~best]].tolist())
                position, certainty = position[best], certainty[best]
        subjects = spans[position]
        objects = self._turn3(rows, features, entities, tags, spans, subjects)
        most = [self.settings.limits.max_relations(len(row.word_items)) for row in rows]
        return self._triples(entities, spans, subjects, certainty, objects, most, limited)

    def _passing(
        self, head: SpanExtractor, first: Tensor, last: Tensor, threshold: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Which spans pass start, end and match: position, label and score.

        Shapes:
            first, last: (n_spans, width), the representations of their first and last words
            threshold: (n_labels,)
        """
        score = min_score(*((logits / temperature).sigmoid() for logits in head.spans(first, last)))
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
        head, threshold = self.cascade.relation_turns.object_head, self.settings.object
        parts = []
        for group, asked in self._object_features(rows, features, entities, subjects):
            queries = Queries(*subjects[group].unbind(1))
            shown = None if tags is None else tags[:, : asked.shape[1]]
            object_words = self.cascade.object_spans(asked, shown, queries, spans)
            at_once = _PAIRS_AT_ONCE if spans.is_cuda else _PAIRS_AT_ONCE_ON_CPU
            parted = spans_of_queries_in_parts(spans[:, 0], queries.sentence, len(rows), at_once)
            for query, span in parted:
                self.settings.check()
                first, last = object_words(query, span)
                position, label, score = self._passing(head, first, last, threshold, self.settings.temperatures.object)
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
            yield torch.arange(len(subjects), device=self.settings.device), features
            return
        marked = [
            self.collator.with_subject(rows[row], entities[row], (first, last + 1))
            for row, first, last in subjects.tolist()
        ]
        for members in by_word_budget(list(map(self.collator.pieces.cost, marked)), self.settings.batch_words):
            self.settings.check()
            features, _ = self._features([marked[i] for i in members])
            yield torch.tensor(members, device=self.settings.device), features

    def _triples(
        self,
        entities: list[list[Span]],
        spans: Tensor,
        subjects: Tensor,
        certainty: Tensor,
        objects: _Objects,
        most: Sequence[int],
        limited: set[int],
    ) -> list[list[ScoredTriple]]:
        """Make triples of what turn 3 found, at most ``most`` for each sentence, the best by their whole score."""
        names = self.collator.schema.relation_types
        heads, tails = subjects[objects.query], spans[objects.span]
        columns = torch.cat((heads, tails[:, 1:], objects.label[:, None]), dim=1).tolist()
        scores = torch.stack((certainty[objects.query], objects.score), dim=1).tolist()
        # By their words, so that a sentence with very many entities is not searched again for every triple.
        sharing: dict[tuple[int, int, int], list[Span]] = {}
        for row, spans_there in enumerate(entities):
            for span in spans_there:
                sharing.setdefault((row, span.start, span.end), []).append(span)
        triples: list[list[ScoredTriple]] = [[] for _ in entities]
        for (row, first, last, start, end, label), (subject, object_) in zip(columns, scores, strict=True):
            head = entity_at(sharing[row, first, last + 1], first, last + 1)
            tail = entity_at(sharing[row, start, end + 1], start, end + 1, not_this=head)
            triple = Triple(head, names[label], tail, relation_score(head, tail, object_))
            triples[row].append(ScoredTriple(triple, subject, object_))
        for row, there in enumerate(triples):
            if len(there) > most[row]:
                limited.add(row)
                triples[row] = nlargest(most[row], there, key=lambda scored: scored.triple.score or 0.0)
        return [sorted(found) for found in triples]


def min_score(first: Tensor, *others: Tensor) -> Tensor:
    """The smallest, position by position: the score of a span, all three of whose probabilities have to pass."""
    for other in others:
        first = torch.minimum(first, other)
    return first
