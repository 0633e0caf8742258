"""Predictions made elsewhere: read them, and match them with the gold documents.

Other programs cut documents in other ways: SpERT writes a record for each sentence, and no ids. Documents are matched
by id where both sides have ids. Otherwise, all sentences are matched in order. Predictions with other words are placed
on the text of the data, so that :func:`~cascade_srn.evaluation.from_text.align_by_characters` can compare them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import cast

from cascade_srn.errors import AnnotationError, ConfigError, DataError
from cascade_srn.evaluation.from_text import align_by_characters, restore_words, split_characters
from cascade_srn.evaluation.options import EvaluateOptions
from cascade_srn.formats.alignment import Align
from cascade_srn.formats.dygie import has_predictions, prediction_format
from cascade_srn.formats.files import DocumentStream
from cascade_srn.formats.label_map import read_label_map
from cascade_srn.formats.registry import read_documents, read_schema
from cascade_srn.formats.reports import ReadReport
from cascade_srn.model.folder import read_settings
from cascade_srn.schema import Schema
from cascade_srn.storage.bundled import find_model, is_model
from cascade_srn.text.segment import Segmenter
from cascade_srn.types import Document, Sentence

_HINT = "Give predictions for the documents of the data, and all of them"


def open_documents(
    path: str, format: str | None, options: EvaluateOptions, segmenter: Segmenter | None
) -> DocumentStream:
    """Open a file with the alignment, escapes and label map of the options."""
    align, labels = cast(Align, options.align), read_label_map(options.map)
    return read_documents(
        path,
        format,
        align=align,
        segmenter=segmenter,
        keep_escapes=options.keep_escapes,
        labels=labels,
        encoding=options.encoding,
    )


def read_predictions(
    path: str, options: EvaluateOptions, on_read: Callable[[ReadReport], None] = lambda report: None
) -> list[Document]:
    """Read the predictions of a file in any format.

    A DyGIE++ file with ``predicted_ner`` beside the gold annotations gives these predictions. Any other file gives its
    annotations.
    """
    try:
        # Predictions are compared by characters if need be, and do not have to fit words or sentences of the package.
        stream = open_documents(path, options.predictions_format, options, split_characters)
        if stream.format == "dygie" and has_predictions(stream.path):
            stream = DocumentStream(
                stream.path,
                prediction_format(gold_entities=options.gold_entities),
                strict=True,
                align=cast(Align, options.align),
                segmenter=None,
                keep_escapes=options.keep_escapes,
                labels=read_label_map(options.map),
                encoding=options.encoding,
            )
        documents = [restore_words(document) for document in stream]
    except DataError as error:
        if error.option == "format":
            error.option = "predictions_format"
        raise
    on_read(stream.report)
    return documents


def match_documents(gold: Sequence[Document], predicted: Sequence[Document], name: str) -> list[Document]:
    """Return the predictions for each gold document, with its words, or with other words of its text.

    Raises:
        AnnotationError: The predictions are for other words. The message names the first difference.
    """
    by_id = _match_ids(gold, predicted, name)
    if by_id is None and [d.text for d in gold] == [d.text for d in predicted]:
        by_id = list(predicted)
    if by_id is not None:
        return [
            replace(found, id=document.id) if found.text == document.text else _place(document, found.sentences, name)
            for document, found in zip(gold, by_id, strict=True)
        ]
    sentences = [sentence for document in predicted for sentence in document.sentences if _characters(sentence)]
    matched, at = [], 0
    for document in gold:
        n_needed, first = sum(map(len, map(_characters, document.sentences))), at
        while n_needed > 0 and at < len(sentences):
            n_needed -= len(_characters(sentences[at]))
            at += 1
        matched.append(_place(document, sentences[first:at], name))
    if at < len(sentences):
        raise AnnotationError(
            f"{name} has {len(sentences) - at} more sentences than the data; the first starts with "
            f"{sentences[at].words[0]!r}",
            _HINT,
        )
    return matched


def align_predictions(gold: list[Document], predicted: Sequence[list[Document]]) -> list[list[Document]]:
    """Return gold and all predictions with the same words and sentences."""
    if all(_words(one) == _words(gold) for one in predicted):
        return [gold, *predicted]
    return align_by_characters(gold, *predicted)


def check_gold_entities(gold: Sequence[Document], predicted: Sequence[Document], name: str) -> None:
    """Raise AnnotationError if predictions between gold entities have other entities. Both have the same words."""
    for document, found in zip(gold, predicted, strict=True):
        for number, (one, other) in enumerate(zip(document.sentences, found.sentences, strict=True)):
            if set(one.entities) != set(other.entities):
                raise AnnotationError(
                    f"{name} does not have the gold entities in sentence {number} of document {document.id!r}",
                    "Score these predictions end to end",
                    option="gold_entities",
                )


def choose_schema(
    options: EvaluateOptions, model: Schema | None, gold: Sequence[Document], predicted: Sequence[Sequence[Document]]
) -> Schema:
    """Return the schema to score predictions with: that of the options or of a model, else the labels of all sides."""
    if options.schema is not None:
        given = options.schema
        schema = read_settings(find_model(given))[1] if is_model(given) else read_schema(given)
    elif model is not None:
        schema = model
    else:
        if options.symmetric not in ("directed", "all"):
            raise ConfigError(
                f"the scores {options.symmetric!r} need to know which relations are symmetric",
                "Give a file with the labels",
                option="schema",
            )
        return Schema.from_documents([*gold, *(document for one in predicted for document in one)])
    for side, documents in (("the data", gold), *(("the predictions", one) for one in predicted)):
        for document in documents:
            for number, sentence in enumerate(document.sentences):
                schema.check(sentence, f"sentence {number} of document {document.id!r} of {side}")
    return schema


def _match_ids(gold: Sequence[Document], predicted: Sequence[Document], name: str) -> list[Document] | None:
    """Return the predictions in the order of gold, or None if there are no unique ids that occur on both sides."""
    by_id = {document.id: document for document in predicted}
    ids = {document.id: None for document in gold}
    unique = len(by_id) == len(predicted) and len(ids) == len(gold)
    if not unique or "" in by_id or "" in ids or not by_id.keys() & ids.keys():
        return None
    if missing := next((id for id in ids if id not in by_id), None):
        raise AnnotationError(f"{name} has no document {missing!r}, which the data has", _HINT)
    if other := next((id for id in by_id if id not in ids), None):
        raise AnnotationError(f"{name} has the document {other!r}, which the data does not have", _HINT)
    return [by_id[id] for id in ids]


def _place(document: Document, found: Sequence[Sentence], name: str) -> Document:
    """Place predicted sentences on a gold document: on its words, or on the same characters of its text."""
    own, found = [s for s in document.sentences if s], [s for s in found if s]
    if [s.words for s in own] == [s.words for s in found]:
        annotations = iter(found)
        sentences = [
            replace(one, entities=other.entities, triples=other.triples)
            for one in document.sentences
            for other in ((next(annotations),) if one else (one,))
        ]
        return replace(document, sentences=tuple(sentences), clusters=())
    if "".join(map(_characters, own)) != "".join(map(_characters, found)):
        raise AnnotationError(f"{name} differs from the data {_first_difference(document, own, found)}", _HINT)
    text = document.text
    positions = [at for s in own for span in s.offsets for at in range(*span) if not text[at].isspace()]
    placed, at = [], 0
    for sentence in found:
        offsets = []
        for word in sentence.words:
            n = len("".join(word.split()))
            if not n:
                raise AnnotationError(f"{name} has the blank word {word!r}, which the data does not have", _HINT)
            offsets.append((positions[at], positions[at + n - 1] + 1))
            at += n
        words = tuple(text[start:end] for start, end in offsets)
        placed.append(Sentence(words, tuple(offsets), sentence.entities, sentence.triples))
    return Document(text, tuple(placed), document.id)


def _first_difference(document: Document, own: Sequence[Sentence], found: Sequence[Sentence]) -> str:
    """Name the first word that differs. Words that only are cut in another way come before it."""
    ends: list[list[tuple[int, str]]] = []
    for sentences in (own, found):
        side, at = [], 0
        for word in (word for sentence in sentences for word in sentence.words):
            at += len("".join(word.split()))
            side.append((at, word))
        ends.append(side)
    texts = ["".join(map(_characters, sentences)) for sentences in (own, found)]
    at = next(n for n, (one, other) in enumerate(zip_longest(*texts)) if one != other)
    gold, predicted = (next((word for end, word in side if end > at), None) for side in ends)
    where = (
        f"in document {document.id!r}" if document.id else f"in the document that starts with {document.text[:40]!r}"
    )
    if gold is None or predicted is None:
        return f"{where}: {predicted or gold!r} is only in the {'predictions' if gold is None else 'data'}"
    return f"{where}: {gold!r} in the data, {predicted!r} in the predictions"


def _characters(sentence: Sentence) -> str:
    """Return the characters of the words without spaces."""
    return "".join("".join(word.split()) for word in sentence.words)


def _words(documents: Sequence[Document]) -> list[list[tuple[str, ...]]]:
    return [[sentence.words for sentence in document.sentences] for document in documents]
