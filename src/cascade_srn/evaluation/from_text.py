"""Compare annotations of the same text that have different words and sentences, by character offsets.

:func:`rebuild_text` gives annotated documents the text that a person would have, from which a model extracts.
:func:`align_by_characters` cuts both sides into common words, which end wherever a word of either side starts or ends,
and into common sentences, which end where the sentences of both sides end. No annotation is moved.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from cascade_srn.errors import AnnotationError
from cascade_srn.text.detokenize import detokenize
from cascade_srn.text.segment import segment
from cascade_srn.types import Document, Entity, Mention, Offsets, Sentence, Span, Triple


def rebuild_text(document: Document) -> Document:
    """Return a document with the text that a person would have written.

    A text that is more than its words joined by spaces is an original text, and is not changed. Formats without a text
    (DyGIE++, SpERT) and documents made from words have no original text. Theirs is rebuilt with natural spacing, as one
    paragraph. The annotations stay on the same words.

    Example:
        >>> rebuild_text(Document.from_words([["A", "parser", "-LRB-", "ours", "-RRB-", "."]])).text
        'A parser (ours).'
    """
    if document.text != Document.from_sentences(document.sentences).text:
        return document
    text, offsets = detokenize([sentence.words for sentence in document.sentences])
    if text == document.text.replace("\n", " "):
        return document  # Nothing shows that the text was tokenized, and its line breaks may be original.
    # Document checks that each word is at its offsets.
    sentences = (
        replace(sentence, words=tuple(text[start:end] for start, end in placed), offsets=tuple(placed))
        for sentence, placed in zip(document.sentences, offsets, strict=True)
    )
    return replace(document, text=text, sentences=tuple(sentences))


def align_by_characters(*versions: Sequence[Document]) -> list[list[Document]]:
    """Give several annotations of the same texts the same words and sentences, without moving an annotation.

    Args:
        *versions: Documents with the same texts in the same order, such as gold and the predictions of a model.

    Returns:
        The documents of each version, with the ids of the first.

    Raises:
        AnnotationError: The versions do not have the same texts.

    Example:
        >>> gold = [Document.from_sentences([Sentence.from_words(["pre-trained", "models"], [Span(0, 2, "Method")])])]
        >>> predicted = [Document.from_text(document.text) for document in gold]
        >>> gold, predicted = align_by_characters(gold, predicted)
        >>> gold[0].sentences[0].words == predicted[0].sentences[0].words
        True
    """
    if len({len(version) for version in versions}) > 1:
        raise AnnotationError(
            f"the numbers of documents differ: {[len(version) for version in versions]}",
            "Predict on the texts of the gold documents, in the same order",
        )
    aligned: list[list[Document]] = [[] for _ in versions]
    for number, documents in enumerate(zip(*versions, strict=True)):
        first = documents[0]
        if any(document.text != first.text for document in documents):
            raise AnnotationError(
                f"the texts of document {number} ({first.id!r}) differ", "Predict on the texts of the gold documents"
            )
        sentences = [sentence.offsets for document in documents for sentence in document.sentences if sentence]
        common = _CommonWords(
            first.text,
            [pair for offsets in sentences for pair in offsets],
            [(offsets[0][0], offsets[-1][1]) for offsets in sentences],
        )
        for found, document in zip(aligned, documents, strict=True):
            found.append(common.annotate(document, first.id))
    return aligned


class _CommonWords:
    """Words and sentences of a text that fit all of its annotations.

    ``words`` are the half-open offsets of words and entities. ``sentences`` are offsets that must be within one
    sentence. Both may overlap.
    """

    def __init__(self, text: str, words: Sequence[tuple[int, int]], sentences: Sequence[tuple[int, int]]) -> None:
        self.text = text
        self.offsets = _cut_words(text, words)
        self._starting_at = {start: number for number, (start, _) in enumerate(self.offsets)}
        self._ending_at = {end: number + 1 for number, (_, end) in enumerate(self.offsets)}
        self.sentences = _join_overlapping(sorted(self._place(start, end) for start, end in sentences))

    def annotate(self, document: Document, id: str) -> Document:
        """Return a document with these words and sentences, and the annotations of the given document."""
        entities: list[list[Span]] = [[] for _ in self.sentences]
        triples: list[list[Triple]] = [[] for _ in self.sentences]
        firsts = [first for first, _ in self.sentences]
        for sentence in document.sentences:
            moved: dict[Span, tuple[int, Span]] = {}
            for span in sentence.entities:
                start, end = self._place(sentence.offsets[span.start][0], sentence.offsets[span.end - 1][1])
                number = bisect_right(firsts, start) - 1
                moved[span] = number, replace(span, start=start - firsts[number], end=end - firsts[number])
                entities[number].append(moved[span][1])
            for triple in sentence.triples:
                number, head = moved[triple.head]
                triples[number].append(replace(triple, head=head, tail=moved[triple.tail][1]))
        made = []
        for (first, after), of_sentence, between in zip(self.sentences, entities, triples, strict=True):
            offsets = self.offsets[first:after]
            words = tuple(self.text[start:end] for start, end in offsets)
            made.append(Sentence(words, offsets, tuple(of_sentence), tuple(between)))
        clusters = tuple(tuple(self._move(document, m, firsts) for m in cluster) for cluster in document.clusters)
        return Document(self.text, tuple(made), id, clusters=clusters)

    def _move(self, document: Document, mention: Mention, firsts: list[int]) -> Mention:
        start, end = self._place(*document.locate(mention))
        number = bisect_right(firsts, start) - 1
        return Mention(number, start - firsts[number], end - firsts[number])

    def _place(self, start: int, end: int) -> tuple[int, int]:
        return self._starting_at[start], self._ending_at[end]


def _cut_words(text: str, words: Sequence[tuple[int, int]]) -> Offsets:
    """Cut overlapping words at each start and end, and leave out spaces that no word starts or ends with."""
    starts, ends = {start for start, _ in words}, {end for _, end in words}
    change: Counter[int] = Counter()
    for start, end in words:
        change[start] += 1
        change[end] -= 1
    cuts = sorted(starts | ends)
    depths = accumulate(change[cut] for cut in cuts)
    return tuple(
        (start, end)
        for (start, end), depth in zip(pairwise(cuts), depths, strict=False)
        if depth and (start in starts or end in ends or not text[start:end].isspace())
    )


def _join_overlapping(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join sorted half-open ranges that share a number."""
    joined: list[tuple[int, int]] = []
    for start, end in ranges:
        if joined and start < joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def split_characters(text: str) -> list[list[tuple[int, int]]]:
    """Take each character as a word and the text as one sentence, so that a reader can place any annotation.

    Pass it to ``read_documents`` as the segmenter, which formats without words use, and then call
    :func:`restore_words`. Gold annotations that the words or sentences of the package do not fit are kept this way.
    """
    return [[(at, at + 1) for at in range(len(text))]] if text else []


def restore_words(document: Document) -> Document:
    """Replace the single characters of :func:`split_characters` by words and sentences of the package.

    Words are cut at the boundaries of entities, and sentences are joined where an annotation crosses them. Documents
    with words of their own are returned unchanged.
    """
    if [list(sentence.offsets) for sentence in document.sentences] != split_characters(document.text):
        return document
    entities = [(entity.start, entity.end) for entity in document.entities]
    relations = [(min(one.head.start, one.tail.start), max(one.head.end, one.tail.end)) for one in document.relations]
    own = [words for words in segment(document.text) if words]
    common = _CommonWords(
        document.text,
        [*entities, *(pair for words in own for pair in words)],
        [*entities, *relations, *((words[0][0], words[-1][1]) for words in own)],
    )
    return common.annotate(document, document.id)


@dataclass(frozen=True)
class Segmentation:
    """How well the sentences and words of a segmenter fit gold annotations."""

    n_gold_sentences: int = 0  # Sentences in gold
    n_sentences: int = 0  # Sentences of the segmenter
    # Ends of a gold sentence before another one: those at which the segmenter starts a sentence, and all of them
    sentence_breaks: tuple[int, int] = (0, 0)
    # Starts and ends of gold entities: those at which a word of the segmenter starts or ends, and all of them
    entity_boundaries: tuple[int, int] = (0, 0)
    # Gold entities: those with both boundaries in one sentence of the segmenter, and all of them
    entities: tuple[int, int] = (0, 0)
    # Gold relations: those with two such entities in one sentence of the segmenter, and all of them
    relations: tuple[int, int] = (0, 0)

    @property
    def shares(self) -> dict[str, tuple[int, int, float | None]]:
        """Number found, number in gold and share of gold, by what is looked for. The share of nothing is None."""
        names = ("sentence_breaks", "entity_boundaries", "entities", "relations")
        return {name: (found, n, found / n if n else None) for name in names for found, n in [getattr(self, name)]}

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {
            "n_gold_sentences": self.n_gold_sentences,
            "n_sentences": self.n_sentences,
            "found": {
                name: {"n_found": found, "n_gold": n, "share": share} for name, (found, n, share) in self.shares.items()
            },
        }


def measure_segmentation(gold: Sequence[Document], segmented: Sequence[Document]) -> Segmentation:
    """Compare the sentences and words of a segmenter with gold annotations of the same texts."""
    total: Counter[str] = Counter()
    for one, other in zip(gold, segmented, strict=True):
        total.update(_compare_segmentation(one, other))

    def found(name: str) -> tuple[int, int]:
        return total[f"{name} found"], total[name]

    sizes = total["gold sentences"], total["sentences"]
    return Segmentation(*sizes, found("breaks"), found("edges"), found("entities"), found("relations"))


def _compare_segmentation(gold: Document, segmented: Document) -> dict[str, int]:
    # Sentence of each start and end of a word.
    starts = {start: number for number, s in enumerate(segmented.sentences) for start, _ in s.offsets}
    ends = {end: number for number, s in enumerate(segmented.sentences) for _, end in s.offsets}
    firsts = {s.offsets[0][0] for s in segmented.sentences if s}
    gold_firsts = [s.offsets[0][0] for s in gold.sentences if s]

    def sentence_of(entity: Entity) -> int | None:
        at = starts.get(entity.start)
        return at if at is not None and at == ends.get(entity.end) else None

    relations = [(sentence_of(one.head), sentence_of(one.tail)) for one in dict.fromkeys(gold.relations)]
    return {
        "gold sentences": len(gold_firsts),
        "sentences": len(firsts),
        "breaks": len(gold_firsts[1:]),
        "breaks found": sum(start in firsts for start in gold_firsts[1:]),
        "edges": 2 * len(gold.entities),
        "edges found": sum((e.start in starts) + (e.end in ends) for e in gold.entities),
        "entities": len(gold.entities),
        "entities found": sum(sentence_of(entity) is not None for entity in gold.entities),
        "relations": len(relations),
        "relations found": sum(head is not None and head == tail for head, tail in relations),
    }
