"""Draw the evidence of an edge: a sentence with the two entities and their relation."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from cascade_srn.drawing import draw_sentence
from cascade_srn.schema import Schema
from cascade_srn.text.segment import segment
from cascade_srn.types import Sentence, Span, Triple

# Longest sentence that is drawn as a whole, and the characters around the entities that are drawn of a longer one.
MAX_CHARACTERS, CONTEXT = 2000, 300

Offset = tuple[int, int]


def graph_schema(overview: Mapping[str, Any]) -> Schema:
    """Return the labels of a graph as a schema, which decides the colours of the drawing."""
    relations = overview["relations"]
    return Schema(
        tuple(row["label"] for row in overview["types"]),
        tuple(row["label"] for row in relations),
        frozenset(row["label"] for row in relations if row["symmetric"]),
    )


def draw_evidence(row: Mapping[str, Any], relation: str, schema: Schema) -> str:
    """Draw a piece of evidence as an HTML fragment; empty if the graph has no text for it.

    Args:
        row: A row of the evidence with the labels of head and tail.
        relation: Label of the relation.
        schema: The labels of the graph.
    """
    text, start = row["sentence_text"] or "", row["sentence_start"]
    ends = {end: (row[f"{end}_start"] - start, row[f"{end}_end"] - start) for end in ("head", "tail")}
    # An end may be in another sentence.
    inside = {end: (low, high) for end, (low, high) in ends.items() if 0 <= low < high <= len(text)}
    if not text.strip() or not inside:
        return ""
    words = _cut_words(_find_words(text, inside.values()), inside.values())
    if len(text) > MAX_CHARACTERS:
        low = min(low for low, _ in inside.values()) - CONTEXT
        high = max(high for _, high in inside.values()) + CONTEXT
        words = [word for word in words if low <= word[0] and word[1] <= high][:MAX_CHARACTERS]
    spans = {end: _span(words, place, row[f"{end}_label"]) for end, place in inside.items()}
    found = {end: span for end, span in spans.items() if span is not None}
    triples = [Triple(found["head"], relation, found["tail"], row["score"])] if len(found) == 2 else []
    sentence = Sentence(
        tuple(text[low:high] for low, high in words), tuple(words), tuple(dict.fromkeys(found.values())), tuple(triples)
    )
    return draw_sentence(sentence, schema=schema, name="evidence")


def _find_words(text: str, entities: Iterable[Offset]) -> list[Offset]:
    words = [(low, high) for sentence in segment(text) for low, high in sentence]
    for low, high in entities:
        if not any(start < high and low < end for start, end in words):
            words.append((low, high))
    return sorted(words)


def _cut_words(words: Sequence[Offset], entities: Iterable[Offset]) -> list[Offset]:
    """Cut words at the ends of entities, so that the drawing shows the exact offsets."""
    cuts = sorted({edge for entity in entities for edge in entity})
    parts = []
    for low, high in words:
        edges = [low, *(cut for cut in cuts if low < cut < high), high]
        parts += list(pairwise(edges))
    return parts


def _span(words: Sequence[Offset], place: Offset, label: str) -> Span | None:
    covered = [number for number, (low, high) in enumerate(words) if low < place[1] and place[0] < high]
    return Span(covered[0], covered[-1] + 1, label) if covered else None
