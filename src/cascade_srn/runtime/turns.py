"""The three turns of an exported cascade: the encoder in ONNX Runtime, everything after it in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from cascade_srn.config import FusionSettings
from cascade_srn.encoder.pieces import RowArrays
from cascade_srn.encoder.windows import Integers
from cascade_srn.inference.cascade_search import EntityScores, ObjectScores, SearchSettings
from cascade_srn.inference.decode import probability
from cascade_srn.runtime.layers import (
    Array,
    LayerNorm,
    Linear,
    SpanHead,
    Srn,
    Weights,
    gelu,
    sum_segments,
)

ENTITY, SUBJECT, OBJECT = 0, 1, 2
# Few pairs and pieces stay in the cache of a CPU. Passes of 8,192 pieces take twice the time.
_PAIRS_AT_ONCE = 1 << 10
PIECES_AT_ONCE = 1 << 7

ReadPasses = Callable[[Sequence[tuple[Integers, Integers]]], Generator[Array, None, None]]
"""Runs the pretrained encoder on several groups of windows, and yields the vectors of each.

Shapes of a group: ids, mask (n_windows, n_pieces); yields (n_windows, n_pieces, width)
"""


@dataclass(frozen=True)
class SubjectFusion:
    """Joins words with the subject. See :class:`cascade_srn.network.fusion.SubjectSpan` and ``SubjectTag``.

    ``table`` has the rows of distances, or of words outside and inside of the subject. The other layers are None for
    ``SubjectTag``.
    """

    table: Array
    word: Linear | None
    subject: Linear | None
    norm: LayerNorm | None

    @classmethod
    def read(cls, weights: Weights, name: str, kind: str) -> SubjectFusion | None:
        """Read the fusion, or return None if markers show the subject."""
        if kind == "markers":
            return None
        if kind == "tag":
            return cls(weights[f"{name}.table"], None, None, None)
        linear = [Linear.read(weights, f"{name}.{layer}") for layer in ("word", "subject")]
        return cls(weights[f"{name}.distance"], linear[0], linear[1], LayerNorm.read(weights, f"{name}.norm"))

    def join(self, own: Array, subject: Array, from_start: Integers, from_last: Integers) -> Array:
        """Combine projected words and subjects. Shapes: as of :meth:`cascade_srn.network.fusion.SubjectSpan.join`."""
        if self.norm is None:
            inside = (from_start >= 0) & (from_last <= 0)
            return np.concatenate((own, self.table[inside.astype(np.int64)]), axis=-1)
        width, most = own.shape[-1] // 2, len(self.table) // 2
        distance = np.clip(from_start, -most, 0) + np.clip(from_last, 0, most)
        joined = own[:, width:] * subject[:, width:]
        joined += own[:, :width]
        joined += subject[:, :width]
        joined += self.table[distance + most]
        return gelu(self.norm(joined))


class LightNetwork:
    """The network of an exported cascade.

    Args:
        read_passes: Runs the pretrained encoder.
        weights: All other weights, with the names of a :class:`.Cascade`.
        pooling: How the pieces of a word are combined: "first", "mean" or "max".
        fusion: How entities and the subject reach the later turns.
        equal_windows: Read only windows of the same length together. In int8, the rounding of padded sums would make
            results depend on the other texts of a batch.
        pieces_at_once: Most pieces of an encoder pass. A single window may have more.
    """

    def __init__(
        self,
        read_passes: ReadPasses,
        weights: Weights,
        *,
        pooling: str,
        fusion: FusionSettings,
        equal_windows: bool = False,
        pieces_at_once: int = PIECES_AT_ONCE,
    ) -> None:
        self.read_passes = read_passes
        self.pooling = pooling
        self.equal_windows = equal_windows
        self.pieces_at_once = pieces_at_once
        self.sequence = Srn.read(weights, "sequence")
        self.entity_head = SpanHead.read(weights, "entity_head")
        has_relations = "relations.subject_head.start.weight" in weights
        # None for a model that finds entities only, as in a PyTorch model.
        self.relations = LightRelations.read(weights, fusion) if has_relations else None

    def encode(self, rows: RowArrays, check: Callable[[], None]) -> Array:
        """Encode rows and return the features of their words. ``check`` is called between encoder passes.

        Shapes: returns (n_rows, n_words, n_sets, width)
        """
        pieces, n_rows = self._read_pieces(rows, check), len(rows.item_lengths)
        items: Array = np.zeros((n_rows * rows.n_items, pieces.shape[1]), dtype=np.float32)
        begins = np.flatnonzero(np.diff(rows.target, prepend=-1))
        items[rows.target[begins]] = self._pool(pieces, begins)
        features = self.sequence(items.reshape(n_rows, rows.n_items, pieces.shape[1]), rows.item_lengths)
        found: Array = features[np.arange(n_rows)[:, None], rows.word_items]
        return found

    def _read_pieces(self, rows: RowArrays, check: Callable[[], None]) -> Array:
        """Run the encoder and return the vectors of the pieces of all items. Shape: (n_owned, width)."""
        if not len(rows.source):
            return np.zeros((0, self.sequence.forward.project.weight.shape[0]), dtype=np.float32)
        # All windows have one width here, and those of neighbours are of similar length.
        n_windows, width = rows.piece_ids.shape
        sizes = rows.piece_mask.sum(1)
        passes = [
            (range(first, last), rows.piece_ids[first:last, :widest], rows.piece_mask[first:last, :widest])
            for first, last, widest in self._passes(sizes.tolist())
        ]
        outputs: list[Array] = []
        with closing(self.read_passes([(ids, mask.astype(np.int64)) for _, ids, mask in passes])) as found:
            for (_, _, mask), vectors in zip(passes, found, strict=True):
                if outputs:
                    check()
                outputs.append(vectors[mask])
        places = [(np.array(windows)[:, None] * width + np.arange(mask.shape[1]))[mask] for windows, _, mask in passes]
        # The position of each piece among those that were read.
        position = np.zeros(n_windows * width, dtype=np.int64)
        position[np.concatenate(places)] = np.arange(sum(map(len, places)))
        pieces: Array = np.concatenate(outputs)[position[rows.source]]
        return pieces

    def _passes(self, sizes: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """Divide windows into encoder passes: first window, end and largest size. ``sizes`` are numbers of pieces."""
        first = 0
        while first < len(sizes):
            last, widest = first + 1, sizes[first]
            while last < len(sizes) and (last + 1 - first) * max(widest, sizes[last]) <= self.pieces_at_once:
                if self.equal_windows and sizes[last] != widest:
                    break
                widest = max(widest, sizes[last])
                last += 1
            yield first, last, widest
            first = last

    def _pool(self, pieces: Array, begins: Integers) -> Array:
        """Combine the pieces of each item. Shapes: pieces (n_pieces, width); begins (n_items,)."""
        if self.pooling == "first":
            return pieces[begins]
        sizes = np.diff(begins, append=len(pieces))
        pooled = sum_segments(pieces, begins, sizes, largest=self.pooling == "max")
        if self.pooling == "mean":
            pooled /= sizes[:, None].astype(np.float32)
        return pooled


@dataclass(frozen=True)
class LightRelations:
    """The weights of turns 2 and 3. Fusions are None if markers take their place."""

    subject_head: SpanHead
    object_head: SpanHead
    entity_tags: Array | None
    fusion: SubjectFusion | None

    @classmethod
    def read(cls, weights: Weights, fusion: FusionSettings) -> LightRelations:
        """Read the weights."""
        return cls(
            SpanHead.read(weights, "relations.subject_head"),
            SpanHead.read(weights, "relations.object_head"),
            weights.get("relations.entity_tags.table"),
            SubjectFusion.read(weights, "relations.subject_fusion", fusion.subject),
        )


class LightTurns:
    """The turns of an exported cascade, with the settings of a batch. See :class:`.Turns`."""

    pairs_at_once = _PAIRS_AT_ONCE
    division = None

    def __init__(self, network: LightNetwork, settings: SearchSettings) -> None:
        self.network = network
        self.settings = settings
        self.has_relations = network.relations is not None

    @property
    def _relations(self) -> LightRelations:
        assert self.network.relations is not None
        return self.network.relations

    def features(self, rows: RowArrays, *, entities: bool = False) -> Array:
        """See :class:`.Turns`."""
        return self.network.encode(rows, self.settings.check)

    def entities(self, features: Array) -> tuple[Array, Array, EntityScores]:
        """See :class:`.Turns`."""
        head = self.network.entity_head
        temperature, offset = self.settings.temperatures.entity, self.settings.entity_offset
        words = Srn.task(features, ENTITY)

        def match(row: Integers, first: Integers, last: Integers, label: Integers) -> Array:
            found: Array = np.empty(len(row), dtype=np.float32)
            for begin in range(0, len(row), _PAIRS_AT_ONCE):
                part = slice(begin, begin + _PAIRS_AT_ONCE)
                logits = head.match(words[row[part], first[part]], words[row[part], last[part]])
                found[part] = logits[np.arange(len(logits)), label[part]]
            return probability(found, temperature, offset[label])

        start, end = (probability(layer(words), temperature, offset) for layer in (head.start, head.end))
        return start, end, match

    def tags(self, entities: Integers, shape: tuple[int, int]) -> Array | None:
        """See :class:`.Turns`. A word inside of several entities gets the sum of the rows of their types."""
        table = self._relations.entity_tags
        if table is None:
            return None
        n_types = len(table) - 1
        steps = np.zeros((shape[0], shape[1] + 1, n_types), dtype=np.float32)
        row, first, last, label = entities.T
        np.add.at(steps, (row, first, label), 1)
        np.add.at(steps, (row, last + 1, label), -1)
        types = np.cumsum(steps, axis=1)[:, :-1] > 0.5
        found: Array = np.concatenate((types, ~types.any(-1, keepdims=True)), axis=-1).astype(np.float32) @ table
        return found

    def subjects(self, features: Array, tags: Array | None, spans: Integers) -> Array:
        """See :class:`.Turns`."""
        row, first, last = spans.T
        logits = self._relations.subject_head.spans(
            *(self._words(features, tags, SUBJECT, row, row, edge) for edge in (first, last))
        )
        return _min_score(logits, self.settings.temperatures.subject)[:, 0]

    def objects(self, features: Array, tags: Array | None, subjects: Integers, spans: Integers) -> ObjectScores:
        """See :class:`.Turns`."""
        turns, (row, *edges), (sentence, begin, end) = self._relations, spans.T, subjects.T
        fusion = turns.fusion
        if fusion is not None:
            means = self._subject_means(features, tags, subjects)
            known = means if fusion.subject is None else fusion.subject(means)
            words = [self._words(features, tags, OBJECT, row, row, edge) for edge in edges]
            words = words if fusion.word is None else [fusion.word(part) for part in words]

        def inputs(query: Integers, span: Integers, number: int) -> Array:
            word = edges[number][span]
            if fusion is None:
                # Each query has its own row.
                return self._words(features, tags, OBJECT, query, sentence[query], word)
            return fusion.join(words[number][span], known[query], word - begin[query], word - end[query])

        def score(query: Integers, span: Integers) -> Callable[[], Array]:
            logits = turns.object_head.spans(*(inputs(query, span, number) for number in (0, 1)))
            found = _min_score(logits, self.settings.temperatures.object)
            return lambda: found

        return score

    def _words(
        self, features: Array, tags: Array | None, task: int, row: Integers, sentence: Integers, word: Integers
    ) -> Array:
        """Return the inputs of a turn at words: tags and the representation of the task (eq. 11)."""
        words = Srn.task(features[row, word], task)
        return words if tags is None else np.concatenate((tags[sentence, word], words), axis=-1)

    def _subject_means(self, features: Array, tags: Array | None, subjects: Integers) -> Array:
        """Average the words of each subject. Shapes: subjects (n_subjects, 3); returns (n_subjects, width)."""
        sentence, first, last = subjects.T
        sizes = last - first + 1
        starts = np.cumsum(sizes) - sizes
        query = np.repeat(np.arange(len(sizes)), sizes)
        word = first[query] + np.arange(len(query)) - starts[query]
        inside = self._words(features, tags, OBJECT, sentence[query], sentence[query], word)
        means = sum_segments(inside, starts, sizes)
        means /= sizes[:, None].astype(np.float32)
        return means


def _min_score(logits: tuple[Array, ...], temperature: float) -> Array:
    found: Array = np.minimum.reduce([probability(part, temperature) for part in logits])
    return found
