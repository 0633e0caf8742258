"""spaCy's DocBin (``.spacy``): entities of ``doc.ents`` and all groups of ``doc.spans``. Needs the extra ``spacy``.

Relations are in ``doc.user_data["cascade_srn_relations"]``. ``doc._.rel`` of spaCy's relation tutorial is read, too.
"""

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cascade_srn.errors import DataError, require
from cascade_srn.formats.base import Format, ReadContext
from cascade_srn.formats.files import read_bytes, replacing
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.reports import Place
from cascade_srn.formats.standoff import Link, StandoffEntity, StandoffReader, group_words
from cascade_srn.storage.limits import read_limits
from cascade_srn.types import Document, Offsets

GROUP = "cascade_srn"
RELATIONS = "cascade_srn_relations"
_CHUNK = 1 << 16
_TUTORIAL = ("._.", "rel", None, None)


def sniff(head: str, path: Path) -> bool:
    """Return whether the suffix is that of a DocBin."""
    return path.suffix == ".spacy"


def _import() -> Any:
    require("spacy.tokens")
    return require("spacy")


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """Read the documents of a DocBin. Messages count documents from 1."""
    spacy = _import()
    data = read_bytes(path)
    _check_size(data, path)
    try:
        docs = list(spacy.tokens.DocBin().from_bytes(data).get_docs(spacy.blank("xx").vocab))
    except Exception as error:  # the library raises errors of many kinds for malformed bytes
        raise DataError(f"{path} cannot be read as a DocBin ({type(error).__name__})", "Write it again") from error
    for number, doc in enumerate(docs, 1):
        id = str(doc.user_data.get("id", ""))
        record = Value({}, Place(str(path), f"document {number}", id))
        document = context.attempt("document", _read_doc, record, doc, context)
        if document is not None:
            yield document


def _check_size(data: bytes, path: Path) -> None:
    """Refuse a DocBin that expands beyond the limits. The library decompresses it without one."""
    limits, stream, n_bytes = read_limits(), zlib.decompressobj(), 0
    try:
        for start in range(0, len(data), _CHUNK):
            rest = data[start : start + _CHUNK]
            while rest:
                n_bytes += len(stream.decompress(rest, _CHUNK))
                rest = stream.unconsumed_tail
                limits.check_size(n_bytes, path)
                limits.check_ratio(n_bytes, len(data), path)
    except zlib.error:
        return  # the library reports it


def _read_doc(record: Value, doc: Any, context: ReadContext) -> Document:
    scores = _read_scores(doc)
    spans = {(s.start_char, s.end_char, s.label_): s for s in (*doc.ents, *(s for g in doc.spans.values() for s in g))}
    items = [Value((*key, scores.get(key)), record.place, f"span {key[0]}") for key in sorted(spans) if key[2]]
    if len(items) < len(spans):
        context.report.note("span without a label left out", record.example())
    links = [Value(link, record.place, "relation") for link in _relations(doc)]
    words = _read_words(doc, context, record.place)
    return StandoffReader(record, doc.text, context, words).build(items, _read_span, links, _read_link)


def _read_scores(doc: Any) -> dict[tuple[int, int, str], float]:
    scores: dict[tuple[int, int, str], float] = {}
    for group in doc.spans.values():
        given = group.attrs.get("scores")
        if given is not None and len(given) == len(group):
            pairs = zip(group, given, strict=True)
            scores |= {(s.start_char, s.end_char, s.label_): float(v) for s, v in pairs if v is not None}
    return scores


def _relations(doc: Any) -> Iterator[Any]:
    yield from doc.user_data.get(RELATIONS, ())
    starts = {entity.start: entity for entity in doc.ents}
    for (head, tail), labels in dict(doc.user_data.get(_TUTORIAL) or {}).items():
        for label, value in labels.items():
            if value >= 0.5 and head in starts and tail in starts:
                ends = [(e.start_char, e.end_char, e.label_) for e in (starts[head], starts[tail])]
                yield [list(ends[0]), label, list(ends[1]), None]


def _read_span(item: Value) -> StandoffEntity:
    start, end, label, score = item.raw
    return StandoffEntity((start, end, label), start, end, label, score=score)


def _read_link(item: Value) -> Iterator[Link]:
    head, label, tail, score = item.items(4, 4)
    yield Link(tuple(head.raw), label.label(), tuple(tail.raw), score.raw)


def _read_words(doc: Any, context: ReadContext, place: Place) -> list[Offsets]:
    words = [(token.idx, token.idx + len(token)) for token in doc if not token.is_space]
    if not doc.has_annotation("SENT_START"):
        return group_words(doc.text, words, context, place)
    sentences = [
        tuple((token.idx, token.idx + len(token)) for token in sentence if not token.is_space) for sentence in doc.sents
    ]
    return [sentence for sentence in sentences if sentence]


def write(documents: Iterable[Document], path: Path) -> None:
    """Write a DocBin. ``doc.ents`` has the entities that do not overlap earlier ones. Only clusters are lost."""
    spacy = _import()
    vocab = spacy.blank("xx").vocab
    docs = (_to_doc(document, vocab, spacy) for document in documents)
    data = spacy.tokens.DocBin(store_user_data=True, docs=docs).to_bytes()
    with replacing(path) as handle:
        handle.write(data)


def _to_doc(document: Document, vocab: Any, spacy: Any) -> Any:
    tokens: list[str] = []
    spaces: list[bool] = []
    starts: list[bool] = []
    at = 0

    def fill(end: int) -> None:
        """Add the text before ``end``: one space belongs to the token before it, the rest is a token."""
        nonlocal at
        if tokens and document.text[at : at + 1] == " " and at < end:
            spaces[-1], at = True, at + 1
        if at < end:
            tokens.append(document.text[at:end])
            spaces.append(False)
            starts.append(False)
        at = end

    for sentence in document.sentences:
        for number, (start, end) in enumerate(sentence.offsets):
            fill(start)
            tokens.append(document.text[start:end])
            spaces.append(False)
            starts.append(not number)
            at = end
    fill(len(document.text))
    doc = spacy.tokens.Doc(vocab, words=tokens, spaces=spaces, sent_starts=starts)
    entities = document.entities
    found = [doc.char_span(e.start, e.end, label=e.label) for e in entities]
    doc.spans[GROUP] = spacy.tokens.SpanGroup(
        doc, name=GROUP, spans=found, attrs={"scores": [entity.score for entity in entities]}
    )
    doc.ents = spacy.util.filter_spans(found)
    doc.user_data["id"] = document.id
    doc.user_data[RELATIONS] = [
        [_key(r.head), r.label, _key(r.tail), None if r.score is None else float(r.score)] for r in document.relations
    ]
    return doc


def _key(entity: Any) -> list[Any]:
    return [entity.start, entity.end, entity.label]


SPACY = Format("spacy", (".spacy",), sniff, read, write)
