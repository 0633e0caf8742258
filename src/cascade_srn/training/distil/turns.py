"""Label one batch with the three turns of several teachers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cascade_srn.encoder.pieces import Row, RowBatch
from cascade_srn.inference.decode import find_entity, list_spans, relation_score, scale_score, select_best
from cascade_srn.network.examples import Example
from cascade_srn.network.fusion import Queries
from cascade_srn.network.loss import SpanLabels, pair_positions
from cascade_srn.network.sequence import padding_mask
from cascade_srn.network.span_extraction import Pairs, SpanLogits
from cascade_srn.network.targets import KINDS
from cascade_srn.training.distil.teacher import GivenEntities, Teacher
from cascade_srn.types import Sentence, Span, Triple


@dataclass(frozen=True)
class Entries:
    """Entries of a probability table, see :class:`~cascade_srn.network.targets.SoftTable`, with their rows.

    Shapes: (n_entries,) each, ordered by row
    """

    row: NDArray[np.int32]
    position: NDArray[np.int32]
    probability: NDArray[np.float16]


def mean_probabilities(members: Sequence[SpanLogits]) -> SpanLogits:
    """Average the probabilities of several models, without temperatures. These are the targets of the student.

    Temperatures are fitted to spans that are close to a decision. Applied to the many positions that are clearly
    negative, they would make thousands of them likely.
    """
    return SpanLogits(*(_mean([getattr(member, kind).sigmoid() for member in members]) for kind in KINDS))


def span_scores(
    members: Sequence[SpanLogits],
    temperatures: Sequence[float],
    pairs: Pairs,
    at: Tensor | None = None,
    offsets: Sequence[Tensor] | None = None,
) -> Tensor:
    """Return the smallest of the three probabilities of each span, averaged over models with their temperatures.

    Only the spans at the positions ``at`` among ``pairs``, if they are given. ``offsets`` are added to the logits of
    each model after the division. Shape: (n_spans, n_labels).
    """
    row, first, last = pairs.row, pairs.start, pairs.last
    if at is not None:
        row, first, last = row[at], first[at], last[at]
    n_words = members[0].start.shape[1]
    starts: list[Tensor] = []
    ends: list[Tensor] = []
    matches: list[Tensor] = []
    shifts: Sequence[Tensor | float] = [0.0] * len(members) if offsets is None else offsets
    for member, temperature, offset in zip(members, temperatures, shifts, strict=True):
        match = member.match if at is None else member.match[at]
        start = member.start.flatten(0, 1).index_select(0, row * n_words + first)
        end = member.end.flatten(0, 1).index_select(0, row * n_words + last)
        for logits, found in ((start, starts), (end, ends), (match, matches)):
            found.append((logits / temperature + offset).sigmoid())
    return torch.minimum(torch.minimum(_mean(matches), _mean(starts)), _mean(ends))


def pair_with_spans(span_row: Tensor, query_row: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
    """Pair each query with each span of its row, as :func:`cascade_srn.inference.decode.pair_with_spans` does.

    On the device, because labelling pairs queries with all spans of their sentences.

    Shapes: span_row (n_spans,), ascending; query_row (n_queries,); returns positions of queries and spans, (n_pairs,)
    """
    counts = torch.bincount(span_row, minlength=n_rows)
    own, first = counts[query_row], (counts.cumsum(0) - counts)[query_row]
    query = torch.repeat_interleave(own)
    return query, torch.arange(len(query), device=query.device) + (first - (own.cumsum(0) - own))[query]


def _to_host(*columns: Tensor) -> list[Any]:
    return [column.cpu().numpy() for column in columns]


def _mean(values: Sequence[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.stack(tuple(values)).mean(0)


def certainties(scores: Tensor, threshold: Tensor) -> Tensor:
    """Return the certainty of decisions: |2p − 1|, where p has the odds of the score divided by those of the threshold.

    The certainty is 0 at the threshold and 1 for scores of 0 and 1. With a threshold of 0.5, p is the score.

    Shapes: scores (…, n_labels), threshold (n_labels,); returns (…, n_labels)
    """
    return (torch.logit(scores, eps=1e-6) - torch.logit(threshold, eps=1e-6)).div(2).tanh().abs()


def min_by_row(values: Tensor, row: Tensor, n_rows: int) -> Tensor:
    """Return the minimum of each row, 1 for empty rows. Shapes: values (n, n_labels), row (n,); returns (n_rows,)."""
    ones = values.new_ones(n_rows)
    if not values.numel():
        return ones
    return ones.scatter_reduce(0, row, values.amin(1), "amin", include_self=True)


def keep_words(table: Tensor, lengths: Tensor, floor: float) -> Entries:
    """Return the entries of a start or end table above the floor. Shapes: table (n_rows, n_words, n_labels)."""
    n_words, n_labels = table.shape[1:]
    places = ((table >= floor) & padding_mask(lengths, n_words)[:, :, None]).flatten().nonzero()[:, 0]
    size = max(n_words * n_labels, 1)
    return _fetch_entries(places // size, places % size, table.flatten()[places])


def keep_pairs(table: Tensor, pairs: Pairs, lengths: Tensor, floor: float) -> Entries:
    """Return the entries of a match table above the floor. Shapes: table (n_pairs, n_labels), lengths (n_rows,)."""
    n_labels = max(table.shape[1], 1)
    places = (table >= floor).flatten().nonzero()[:, 0]
    row = pairs.row[places // n_labels]
    n_pairs = lengths * (lengths + 1) // 2
    before = n_pairs.cumsum(0) - n_pairs
    return _fetch_entries(row, places - before[row] * n_labels, table.flatten()[places])


def _fetch_entries(row: Tensor, position: Tensor, probability: Tensor) -> Entries:
    """Copy entries from the device in one transfer, with probabilities as bits."""
    bits = probability.float().view(torch.int32)
    fetched = torch.stack((row.int(), position.int(), bits)).cpu().numpy()
    return Entries(fetched[0], fetched[1], fetched[2].view(np.float32).astype(np.float16))


# Pairs of words that turn 3 processes at once, to bound its memory.
_PAIRS_PER_GROUP = 1 << 20


@dataclass
class Labelled:
    """Labels of a batch of sentences.

    Attributes:
        sentences: Sentences with the predictions of the teachers and their scores.
        tables: Probabilities by "turn.kind". Rows are sentences in turns 1 and 2, and queries in turn 3. A query is a
            distinct entity span.

    Shapes: n_queries (n_sentences,); certainty (n_sentences, 3), by turn
    """

    sentences: list[Sentence]
    n_queries: NDArray[np.int32]
    certainty: NDArray[np.float16]
    tables: dict[str, Entries] = field(default_factory=dict)


@dataclass(frozen=True)
class Prepared:
    """A batch on the CPU: rows by the ``reading`` of teachers, and pairs of words."""

    examples: Sequence[Example]
    rows: dict[str, tuple[list[Row], RowBatch]]
    lengths: Tensor
    pairs: Pairs


class ThreeTurns:
    """Runs the teachers turn by turn. Each turn uses the joint decisions of the turn before."""

    def __init__(
        self,
        teachers: Sequence[Teacher],
        thresholds: Mapping[str, Tensor],
        prepared: Prepared,
        *,
        floor: float,
        joint: bool,
        batch_words: int,
    ) -> None:
        self.teachers, self.thresholds, self.prepared = teachers, thresholds, prepared
        self.floor, self.joint, self.batch_words = floor, joint, batch_words
        self.device = teachers[0].device
        self.n = len(prepared.examples)
        self.n_words = int(prepared.lengths.max())
        self.lengths = prepared.lengths.to(self.device)
        pairs = prepared.pairs
        self.pairs = Pairs(*(part.to(self.device) for part in (pairs.row, pairs.start, pairs.last)))
        self.certainty = torch.ones(self.n, 3, device=self.device)
        self.tables: dict[str, list[Entries]] = {}

    def label(self) -> Labelled:
        """Run the three turns."""
        plain = {key: batch.to(self.device) for key, (_, batch) in self.prepared.rows.items()}
        features = [teacher.features(plain[teacher.reading]) for teacher in self.teachers]
        given = self._entities(features)
        triples: list[list[Triple]] = [[] for _ in range(self.n)]
        n_queries = np.zeros(self.n, dtype=np.int32)
        if self.joint:
            row, start, last = _to_host(given.labels.row, given.labels.start, given.labels.last)
            spans = torch.from_numpy(list_spans(row, start, last, self.n_words)).to(self.device)
            features = self._turn2_features(features, given)
            tags = [teacher.tags(given, part) for teacher, part in zip(self.teachers, features, strict=True)]
            subjects = self._subjects(features, tags, spans)
            triples = self._triples(given, spans, self._objects(features, tags, given, spans, subjects))
            n_queries = torch.bincount(spans[:, 0], minlength=self.n).int().cpu().numpy()
        found = zip(self.prepared.examples, given.entities, triples, strict=True)
        sentences = [example.sentence.annotated(entities, there) for example, entities, there in found]
        tables = {name: _join(parts) for name, parts in self.tables.items()}
        return Labelled(sentences, n_queries, self.certainty.half().cpu().numpy(), tables)

    def _keep(
        self, turn: str, members: Sequence[SpanLogits], pairs: Pairs, lengths: Tensor, first_row: int = 0
    ) -> None:
        """Keep the entries above the floor. Their rows are counted from ``first_row``."""
        found = mean_probabilities(members)
        entries = [keep_words(table, lengths, self.floor) for table in (found.start, found.end)]
        entries.append(keep_pairs(found.match, pairs, lengths, self.floor))
        for kind, each in zip(KINDS, entries, strict=True):
            shifted = Entries(each.row + np.int32(first_row), each.position, each.probability)
            self.tables.setdefault(f"{turn}.{kind}", []).append(shifted)

    def _temperatures(self, turn: str) -> list[float]:
        return [getattr(teacher.temperatures, turn) for teacher in self.teachers]

    def _entities(self, features: Sequence[Tensor]) -> GivenEntities:
        """Run turn 1."""
        pairs, threshold = self.pairs, self.thresholds["entity"]
        found = [
            teacher.cascade.entity_logits(part, pairs) for teacher, part in zip(self.teachers, features, strict=True)
        ]
        self._keep("entity", found, pairs, self.lengths)
        offsets = [teacher.entity_offset for teacher in self.teachers]
        scores = span_scores(found, self._temperatures("entity"), pairs, offsets=offsets)
        self.certainty[:, 0] = min_by_row(certainties(scores, threshold), pairs.row, self.n)
        pair, label = (scores >= threshold).nonzero(as_tuple=True)
        limits = self.teachers[0].model.settings.limits
        most = [limits.max_spans(n_words) for n_words in self.prepared.lengths.tolist()]
        rows_there, scores_there = _to_host(pairs.row[pair], scores[pair, label])
        best = select_best(rows_there, scores_there, most)
        if best is not None:
            chosen = torch.from_numpy(best).to(self.device)
            pair, label = pair[chosen], label[chosen]
        labels = SpanLabels(pairs.row[pair], pairs.start[pair], pairs.last[pair], label)
        columns, values = _fetch((labels.row, labels.start, labels.last, label), scores[pair, label])
        names = self.teachers[0].model.schema.entity_types
        entities: list[list[Span]] = [[] for _ in range(self.n)]
        for (row, first, last, kind), score in zip(columns, values, strict=True):
            entities[row].append(Span(first, last + 1, names[kind], score))
        return GivenEntities([sorted(spans) for spans in entities], labels)

    def _turn2_features(self, features: Sequence[Tensor], given: GivenEntities) -> list[Tensor]:
        """Return the features of turn 2. Sentences are encoded again if markers show the entities."""
        made: dict[str, RowBatch] = {}
        found = []
        for teacher, part in zip(self.teachers, features, strict=True):
            if teacher.fusion.entities == "markers":
                if teacher.reading not in made:
                    rows = teacher.with_entities(self.prepared.rows[teacher.reading][0], given)
                    made[teacher.reading] = teacher.batch(rows).to(self.device)
                part = teacher.features(made[teacher.reading])
            found.append(part)
        return found

    def _subjects(self, features: Sequence[Tensor], tags: Sequence[Tensor | None], spans: Tensor) -> Tensor:
        """Run turn 2; return the subject score of each span. Shapes: spans (n_spans, 3); returns (n_spans,)."""
        asked = zip(self.teachers, features, tags, strict=True)
        found = [teacher.cascade.subject_logits(part, tag, self.pairs) for teacher, part, tag in asked]
        self._keep("subject", found, self.pairs, self.lengths)
        row, first, last = spans.unbind(1)
        places = pair_positions(SpanLabels(row, first, last, row), self.lengths)
        scores = span_scores(found, self._temperatures("subject"), self.pairs, places)
        self.certainty[:, 1] = min_by_row(certainties(scores, self.thresholds["subject"]), row, self.n)
        return scores[:, 0]

    def _objects(
        self,
        features: Sequence[Tensor],
        tags: Sequence[Tensor | None],
        given: GivenEntities,
        spans: Tensor,
        subjects: Tensor,
    ) -> Iterator[tuple[list[int], float]]:
        """Run turn 3 for every span; yield (subject span, object span, label) and score of each predicted relation."""
        on_host: list[list[int]] = spans.tolist()
        for first, end in self._groups(on_host):
            queries = Queries(*spans[first:end].unbind(1))
            query, pair = pair_with_spans(self.pairs.row, queries.sentence, self.n)
            pairs = Pairs(query, self.pairs.start[pair], self.pairs.last[pair])
            lengths = self.lengths[queries.sentence]
            shown = self._query_features(features, given, on_host[first:end])
            asked = zip(self.teachers, shown, tags, strict=True)
            found = [t.objects(part, tag, queries, pairs, self.n_words) for t, part, tag in asked]
            self._keep("object", found, pairs, lengths, first)
            yield from self._decide(found, queries, pairs, lengths, spans, subjects[first:end], first)

    def _decide(
        self,
        found: Sequence[SpanLogits],
        queries: Queries,
        pairs: Pairs,
        lengths: Tensor,
        spans: Tensor,
        subjects: Tensor,
        first: int,
    ) -> Iterator[tuple[list[int], float]]:
        """Yield the relations of the queries that are subjects."""
        threshold = self.thresholds["object"]
        is_subject = (subjects >= self.thresholds["subject"]).nonzero()[:, 0]
        which, span = pair_with_spans(spans[:, 0], queries.sentence[is_subject], self.n)
        query = is_subject[which]
        candidates = SpanLabels(query, spans[span, 1], spans[span, 2], span)
        scores = span_scores(found, self._temperatures("object"), pairs, pair_positions(candidates, lengths))
        certainty = min_by_row(certainties(scores, threshold), queries.sentence[query], self.n)
        self.certainty[:, 2] = torch.minimum(self.certainty[:, 2], certainty)
        at, label = (scores >= threshold).nonzero(as_tuple=True)
        chosen = query[at] + first, span[at], label
        yield from zip(*_fetch(chosen, scores[at, label]), strict=True)

    def _query_features(
        self, features: Sequence[Tensor], given: GivenEntities, subjects: Sequence[Sequence[int]]
    ) -> Iterator[Tensor]:
        """Yield the features of turn 3: one row per query if markers show the subject, else one per sentence."""
        made: dict[str, RowBatch] = {}
        for teacher, part in zip(self.teachers, features, strict=True):
            if teacher.fusion.subject != "markers":
                yield part
                continue
            if teacher.reading not in made:
                rows = teacher.with_subjects(self.prepared.rows[teacher.reading][0], given, subjects)
                made[teacher.reading] = teacher.batch(rows).to(self.device)
            yield teacher.features(made[teacher.reading])

    def _groups(self, spans: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
        """Yield consecutive groups of queries of bounded size."""
        lengths = self.prepared.lengths.tolist()
        marked = any(teacher.fusion.subject == "markers" for teacher in self.teachers)
        most = max(1, self.batch_words // self.n_words) if marked else len(spans)
        first = n_pairs = 0
        for at, (row, _, _) in enumerate(spans):
            size = lengths[row] * (lengths[row] + 1) // 2
            if at > first and (n_pairs + size > _PAIRS_PER_GROUP or at - first == most):
                yield first, at
                first, n_pairs = at, 0
            n_pairs += size
        if spans:
            yield first, len(spans)

    def _triples(
        self, given: GivenEntities, spans: Tensor, found: Iterator[tuple[list[int], float]]
    ) -> list[list[Triple]]:
        """Turn relations between spans into relations between entities."""
        names = self.teachers[0].model.schema.relation_types
        places: list[list[int]] = spans.tolist()
        triples: list[list[Triple]] = [[] for _ in range(self.n)]
        for (subject, object_, label), score in found:
            (row, start, last), (_, object_start, object_last) = places[subject], places[object_]
            entities = given.entities[row]
            head = find_entity(entities, start, last + 1)
            tail = find_entity(entities, object_start, object_last + 1, not_this=head)
            triple = Triple(head, names[label], tail, relation_score(head, tail, score))
            if self._is_sure(triple):
                triples[row].append(triple)
        return [sorted(there) for there in triples]

    def _is_sure(self, triple: Triple) -> bool:
        """Return whether the mean score of a relation reaches the mean threshold of relations."""
        settings = [teacher.model.settings for teacher in self.teachers]
        min_scores = [each.thresholds.relation for each in settings]
        if all(each is None for each in min_scores):
            return True
        maps = [(t.relation, t.relation_offsets.get(triple.label, 0.0)) for t in (s.temperatures for s in settings)]
        scores = [scale_score(triple.score or 0.0, *each) for each in maps]
        return sum(scores) >= sum(each or 0.0 for each in min_scores)


def _fetch(columns: Sequence[Tensor], scores: Tensor) -> tuple[list[list[int]], list[float]]:
    """Copy rows of integers and their scores from the device in one transfer."""
    bits = scores.float().view(torch.int32)
    fetched = torch.stack((*(column.int() for column in columns), bits), dim=1).cpu().numpy()
    return fetched[:, :-1].tolist(), np.ascontiguousarray(fetched[:, -1]).view(np.float32).tolist()


def _join(parts: Sequence[Entries]) -> Entries:
    return Entries(
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.probability for part in parts]),
    )
