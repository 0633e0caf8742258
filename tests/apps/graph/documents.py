"""Small extracted documents that the tests of the builder share."""

import json

from cascade_srn.formats.jsonl import to_record
from cascade_srn.types import Document, Sentence, Span, Triple

LABELS = {"M": "Method", "T": "Task", "D": "Material", "G": "Generic"}


def document(name, *sentences):
    """Make a document from pairs of a text such as ``"a [CRF/M] for [NER/T]"`` and its relations."""
    made = []
    for text, relations in sentences:
        words, spans = [], []
        for part in text.split():
            begins, ends = part.startswith("["), "]" in part
            word, label = part.strip("[]"), None
            if ends:
                word, label = word.rsplit("/", 1)
            if begins:
                first = len(words)
            words.append(word)
            if ends:
                spans.append(Span(first, len(words), LABELS[label], 0.9))
        triples = [Triple(spans[head], label, spans[tail], score) for head, label, tail, score in relations]
        made.append(Sentence.from_words(words, spans, triples))
    return Document.from_sentences(made, id=name)


DOCUMENTS = [
    document(
        "2019.a",
        ("We train a [CRF/M] for [named entity recognition/T] ( [NER/T] ) .", [(0, "USED-FOR", 1, 0.9)]),
        ("[It/G] is compared with [conditional random fields/M] .", [(0, "COMPARE", 1, 0.8)]),
    ),
    document(
        "2020.b",
        ("[CRFs/M] help [NER/T] on [news corpora/D] .", [(0, "USED-FOR", 1, 0.7), (2, "EVALUATE-FOR", 1, 0.6)]),
        ("An [LSTM/M] and the [CRF/M] are methods .", [(0, "COMPARE", 1, 0.5)]),
    ),
    document(
        "2021.c",
        ("The [CRF/M] and the [LSTM/M] are compared .", [(0, "COMPARE", 1, 0.95), (1, "COMPARE", 0, 0.4)]),
        ("[Attention/M] is part of the [Encoder/M] .", [(0, "PART-OF", 1, 0.9)]),
        ("The [encoder/M] is part of [attention/M] .", [(0, "PART-OF", 1, 0.3)]),
    ),
    document(
        "d",
        (
            "A [kernel/M] is a [function/M] , a [function/M] is a [mapping/M] .",
            [(0, "HYPONYM-OF", 1, 0.9), (2, "HYPONYM-OF", 3, 0.9)],
        ),
        ("A [mapping/M] is a [kernel/M] .", [(0, "HYPONYM-OF", 1, 0.9)]),
        ("[this method/M] uses the [Kernel/T] , as named entity recognition ( NER ) .", [(0, "USED-FOR", 1, 0.9)]),
    ),
]


def write_lines(documents, path, **fields):
    """Write documents as JSON lines with further fields."""
    path.write_text("".join(json.dumps(to_record(item) | fields) + "\n" for item in documents), encoding="utf-8")
    return path
