"""Which entity a generic mention stands for, by the coreference clusters of its document."""

from collections.abc import Collection

from cascade_srn.apps.graph.generic import is_generic
from cascade_srn.types import Document, Mention

STEP = "coreference"
"""Step of mentions that are in the graph because of a cluster."""


def find_antecedents(document: Document, generic_labels: Collection[str] = ()) -> dict[int, int]:
    """Return the entity that each generic entity of a cluster stands for, by their positions in the document.

    That is the nearest entity of the cluster before it that is not generic, or the first one after it.

    Args:
        document: A document with coreference clusters.
        generic_labels: Entity types whose mentions are generic, whatever their words are.

    Example:
        >>> from cascade_srn import Document, Sentence, Span
        >>> words = [["A", "CRF", "works", "."], ["It", "is", "old", "."]]
        >>> spans = [Span(1, 2, "Method")], [Span(0, 1, "Generic")]
        >>> sentences = [Sentence.from_words(each, found) for each, found in zip(words, spans)]
        >>> clusters = [[Mention(0, 1, 2), Mention(1, 0, 1)]]
        >>> find_antecedents(Document.from_sentences(sentences, clusters=clusters), ["Generic"])
        {1: 0}
    """
    positions: dict[Mention, int] = {}
    generic: set[int] = set()
    position = 0
    for number, sentence in enumerate(document.sentences):
        for span in sentence.entities:
            first, last = sentence.offsets[span.start][0], sentence.offsets[span.end - 1][1]
            is_name = span.label not in generic_labels and not is_generic(document.text[first:last])
            mention = Mention(number, span.start, span.end)
            # An entity may have several types. A name among them stands for the mention.
            if mention not in positions or (is_name and positions[mention] in generic):
                positions[mention] = position
            if not is_name:
                generic.add(position)
            position += 1
    found: dict[int, int] = {}
    for cluster in document.clusters:
        members = sorted(positions[mention] for mention in cluster if mention in positions)
        names = [member for member in members if member not in generic]
        for member in members:
            if member in generic and names:
                found[member] = max((name for name in names if name < member), default=names[0])
    return found
