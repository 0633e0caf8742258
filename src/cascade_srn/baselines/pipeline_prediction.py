"""The pipeline in use: entities from spans, then a relation or none for each pair of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from cascade_srn.baselines.moving import moved
from cascade_srn.baselines.pipeline import NONE, Pipeline
from cascade_srn.baselines.pipeline_batch import N_MARKERS, PipelineCollator, ordered_pairs, spans_within
from cascade_srn.config import Temperatures, Thresholds
from cascade_srn.data.batching import by_word_budget
from cascade_srn.data.examples import Example
from cascade_srn.encoder.pieces import Row
from cascade_srn.prediction import Found, Prediction, ScoredTriple
from cascade_srn.types import Sentence, Span, Triple


class PipelinePredictor:
    """Runs the two models one after the other.

    A span or a pair gets its likeliest label where that one is likelier than none at all: its score is
    p(label) / (p(label) + p(none)), which is at least one half exactly there, as published, and which thresholds and
    temperatures then apply to. ``thresholds.entity`` is that of spans and ``thresholds.object`` that of pairs; there
    is no turn for subjects, and theirs is not used.
    """

    def __init__(
        self,
        network: Pipeline,
        collator: PipelineCollator,
        thresholds: Thresholds,
        *,
        temperatures: Temperatures | None = None,
        batch_words: int = 4096,
        precision: str = "auto",
    ) -> None:
        self.network = network
        self.collator = collator
        self.frame = Prediction(
            network,
            collator.schema,
            thresholds,
            temperatures=temperatures,
            batch_words=batch_words,
            precision=precision,
        )
        self.half = self.frame.half

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return self.frame.device

    @property
    def batch_words(self) -> int:
        """The words of a batch, fewer than were asked for where the device ran out of memory."""
        return self.frame.batch_words

    def predict(self, examples: Sequence[Example], *, given_entities: bool = False) -> list[Sentence]:
        """The same sentences with what the models find in them.

        With ``given_entities`` the entities of the sentences are taken as they are, and only the relation model runs.
        """
        return [found.sentence for found in self.scored(examples, given_entities=given_entities)]

    @torch.inference_mode()
    def scored(self, examples: Sequence[Example], *, given_entities: bool = False) -> list[Found]:
        """What :meth:`predict` finds; a triple's score is that of its pair, and its subject's is 1."""
        return self.frame.run(
            examples, lambda members: self._predict_batch(members, given_entities), given_entities=given_entities
        )

    def _predict_batch(self, examples: Sequence[Example], given_entities: bool) -> list[Found]:
        sentences = [example.sentence for example in examples]
        rows = [self.collator.plain(example) for example in examples]
        if given_entities:
            entities = [list(sentence.entities) for sentence in sentences]
        else:
            entities = self._entities(rows)
        triples: list[list[ScoredTriple]] = [[] for _ in sentences]
        # Where no label can be accepted, there is no need to read the pairs.
        if self.network.relations is not None and bool((self.frame.by_label("object") < 1).any()):
            for sentence, scored in self._relations(rows, entities):
                triples[sentence].append(scored)
        return [
            Found(sentence.annotated(spans, [scored.triple for scored in sorted(there)]), sorted(there))
            for sentence, spans, there in zip(sentences, entities, triples, strict=True)
        ]

    def _entities(self, rows: Sequence[Row]) -> list[list[Span]]:
        batch = self.collator.pieces.batch(rows)
        spans = moved(spans_within(batch.word_lengths, self.collator.max_words), self.device)
        logits = self.network.span_logits(batch.to(self.device), spans, half=self.half)
        at, label, score = accepted(logits, self.frame.by_label("entity"), self.frame.temperatures.entity)
        names = self.collator.schema.entity_types
        entities: list[list[Span]] = [[] for _ in rows]
        columns = torch.stack((spans.row[at], spans.start[at], spans.last[at], label), dim=1).tolist()
        for (row, first, last, number), sure in zip(columns, score.tolist(), strict=True):
            entities[row].append(Span(first, last + 1, names[number], sure))
        return [sorted(found) for found in entities]

    def _relations(self, rows: Sequence[Row], entities: Sequence[Sequence[Span]]) -> Iterator[tuple[int, ScoredTriple]]:
        """The triples of a batch, each with its sentence; as many pairs at a time as the word budget holds."""
        pairs = [(i, *pair) for i, spans in enumerate(entities) for pair in ordered_pairs(spans)]
        threshold, temperature = self.frame.by_label("object"), self.frame.temperatures.object
        names = self.collator.schema.relation_types
        for group in by_word_budget([len(rows[i]) + N_MARKERS for i, _, _ in pairs], self.batch_words):
            members = [pairs[k] for k in group]
            marked = [self.collator.with_pair(rows[i], subject, object_) for i, subject, object_ in members]
            batch = self.collator.pieces.batch([row for row, _ in marked]).to(self.device)
            openings = torch.tensor([at for _, at in marked], device=self.device)
            logits = self.network.pair_logits(batch, openings, half=self.half)
            found = (column.tolist() for column in accepted(logits, threshold, temperature))
            for at, label, score in zip(*found, strict=True):
                sentence, subject, object_ = members[at]
                yield sentence, ScoredTriple(Triple(subject, names[label], object_, score), 1.0, score)


def accepted(logits: Tensor, threshold: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """What has a label: its place, the label's number (NONE not counted) and its score.

    A threshold of 1 is reached by nothing, not even by a score that is rounded to it.

    Shapes:
        logits: (n, 1 + n_labels), NONE first; threshold: (n_labels,)
        returns: (n_accepted,) each
    """
    best, label = logits[:, NONE + 1 :].float().max(dim=1)
    score = ((best - logits[:, NONE].float()) / temperature).sigmoid()
    wanted = threshold[label]
    at = ((score >= wanted) & (wanted < 1)).nonzero()[:, 0]
    return at, label[at], score[at]
