"""Pipeline component for spaCy: ``nlp.add_pipe("cascade_srn")``. Needs the extra ``spacy``."""

# spaCy reads the annotations of the factory when it is called, so they must not be strings.
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cascade_srn.apps.integrations.graphs import ModelLike, load_extractor
from cascade_srn.config import check_overlaps, require_choice
from cascade_srn.errors import CascadeError, require
from cascade_srn.extractor import Extractor
from cascade_srn.inference.options import ThresholdsLike
from cascade_srn.inference.streaming import BadText
from cascade_srn.types import Document, Entity

require("spacy")
from spacy.language import Language  # noqa: E402
from spacy.pipeline import Pipe  # noqa: E402
from spacy.tokens import Doc, Span, SpanGroup  # noqa: E402
from spacy.util import ensure_path, filter_spans, minibatch  # noqa: E402

FACTORY = "cascade_srn"
WORDS = ("model", "doc")
# Relations as plain values by name of the component, which spaCy can write. `doc._.relations` makes spans of them.
_STORED = "cascade_srn_relations"
_MODEL_FOLDER = "model"


class SpacyRelation(NamedTuple):
    """A relation in ``doc._.relations``."""

    head: Any
    label: str
    tail: Any
    score: float | None


class CascadeComponent(Pipe):
    """Adds entities and relations to documents.

    - ``doc.spans[spans_key]`` has all entities. Their scores are in ``doc.spans[spans_key].attrs["scores"]``.
    - ``doc.ents`` gets the entities that share no token with an entity that is there. If entities share tokens, it gets
      the longest of them.
    - ``doc._.relations`` is a list of :class:`SpacyRelation` with spans as head and tail.

    The model is loaded when it is first needed.

    Args:
        model: A model folder, the name of a bundled model, a hub id, or an extractor. None: the default bundled model.
        name: Name of the component.
        labels: Labels to return. See :class:`.Extractor`.
        thresholds: Minimum scores. See :class:`.Extractor`.
        overlaps: Treatment of entities that share words. See :class:`.Extractor`.
        words: "model" splits the text into sentences and words as the model was trained, and extends entities to whole
            tokens of spaCy. "doc" passes the tokens and sentences of spaCy to the model. It is the choice for other
            languages than English.
        spans_key: Key in ``doc.spans``.
        set_ents: Whether to add entities to ``doc.ents``.
        device: Device of the model.
        batch_words: Maximum number of words per batch.
    """

    def __init__(
        self,
        model: ModelLike = None,
        *,
        name: str = FACTORY,
        labels: str | Collection[str] | None = None,
        thresholds: ThresholdsLike | None = None,
        overlaps: str | None = None,
        words: str = "model",
        spans_key: str = FACTORY,
        set_ents: bool = True,
        device: str = "auto",
        batch_words: int = 4096,
    ) -> None:
        check_overlaps(overlaps)
        require_choice("words", words, WORDS)
        self.name = name
        self.words = words
        self.spans_key = spans_key
        self.set_ents = set_ents
        self.options: dict[str, Any] = {
            "labels": labels,
            "thresholds": thresholds,
            "overlaps": overlaps,
            "batch_words": batch_words,
        }
        self._model = model
        self._device = device
        self._extractor: Extractor | None = None
        _add_extensions()

    @property
    def extractor(self) -> Extractor:
        """The extractor, which is loaded on first use."""
        if self._extractor is None:
            self._extractor = load_extractor(self._model, self._device)
        return self._extractor

    @property
    def labels(self) -> tuple[str, ...]:
        """The entity types, or nothing before the model is loaded."""
        # spaCy asks for labels while it reads a pipeline, before the model is there.
        return () if self._extractor is None else self._extractor.schema.entity_types

    def __call__(self, doc: Doc) -> Doc:
        """Add entities and relations to a document."""
        (document,) = self.extractor.stream([self._prepare(doc)], **self.options)
        self._annotate(doc, document)
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Add entities and relations to a stream of documents, in batches.

        Errors go to the error handler of spaCy. If it does not raise, the document is left out, as spaCy does.
        """
        for docs in minibatch(stream, size=batch_size):
            pairs = []
            for doc in docs:
                try:
                    pairs.append((self._prepare(doc), doc))
                except Exception as error:
                    self._report(doc, error)
            report = partial(self._report_bad, [doc for _, doc in pairs])
            for document, doc in self.extractor.stream(pairs, as_tuples=True, on_error=report, **self.options):
                self._annotate(doc, document)
                yield doc

    def _report(self, doc: Doc, error: Exception) -> None:
        self.get_error_handler()(self.name, self, [doc], error)

    def _report_bad(self, docs: list[Doc], bad: BadText) -> None:
        self._report(docs[bad.position], bad.error)

    def _prepare(self, doc: Doc) -> Document:
        if self.words == "model":
            return self.extractor.prepare(doc.text)
        if len(doc) and not doc.has_annotation("SENT_START"):
            raise CascadeError(
                "the document has no sentence boundaries",
                f"Add a sentencizer or parser before {self.name!r}, or set words to 'model'",
            )
        sentences = [_word_offsets(sentence) for sentence in (doc.sents if len(doc) else ())]
        return Document.from_text(doc.text, segmenter=lambda text: [words for words in sentences if words])

    def _annotate(self, doc: Doc, document: Document) -> None:
        spans: dict[Entity, Any] = {}
        scores: dict[tuple[int, int, str], float] = {}
        unique: dict[tuple[int, int, str], Any] = {}
        for entity in document.entities:
            span = doc.char_span(entity.start, entity.end, label=entity.label, alignment_mode="expand")
            key = (span.start, span.end, entity.label)
            spans[entity] = unique.setdefault(key, span)
            score = 1.0 if entity.score is None else entity.score
            scores[key] = max(score, scores.get(key, 0.0))
        group = SpanGroup(doc, name=self.spans_key, spans=list(unique.values()))
        group.attrs["scores"] = np.array([scores[key] for key in unique])
        doc.spans[self.spans_key] = group
        stored = dict(doc._.get(_STORED) or {})
        stored[self.name] = [
            [*_place(spans[r.head]), r.label, *_place(spans[r.tail]), r.score] for r in document.relations
        ]
        doc._.set(_STORED, stored)
        if self.set_ents:
            taken = {token.i for entity in doc.ents for token in entity}
            free = [span for span in unique.values() if taken.isdisjoint(range(span.start, span.end))]
            doc.set_ents(filter_spans(free), default="unmodified")

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the model, so that the pipeline can be loaded elsewhere. The options are in the config of spaCy."""
        folder = ensure_path(path) / _MODEL_FOLDER
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.extractor.save_pretrained(folder)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "CascadeComponent":
        """Use the model that :meth:`to_disk` wrote. If it was left out, the model of the config is used."""
        folder = ensure_path(path) / _MODEL_FOLDER
        if folder.is_dir():
            self._model, self._extractor = folder, None
        return self


def make_component(
    nlp: Language,
    name: str,
    model: str | None,
    labels: list[str] | None,
    thresholds: float | dict[str, Any] | None,
    overlaps: str | None,
    words: str,
    spans_key: str,
    set_ents: bool,
    device: str,
    batch_words: int,
) -> CascadeComponent:
    """Make a component from the config of a pipeline."""
    options = dict(locals())
    del options["nlp"]
    return CascadeComponent(**options)


_DEFAULTS = {option.name: option.default for option in signature(CascadeComponent).parameters.values()}
Language.factory(
    FACTORY,
    default_config={name: default for name, default in _DEFAULTS.items() if name != "name"},
    assigns=["doc.ents", "doc.spans", "doc._.relations"],
    func=make_component,
)


def _word_offsets(sentence: Span) -> list[tuple[int, int]]:
    """Return the character offsets of the tokens of a sentence that are not white space."""
    return [(token.idx, token.idx + len(token)) for token in sentence if len(token) and not token.is_space]


def _place(span: Span) -> tuple[int, int, str]:
    return span.start_char, span.end_char, span.label_


def _read_relations(doc: Doc) -> list[SpacyRelation]:
    """Return the relations that all components have stored."""

    def span(start: int, end: int, label: str) -> Any:
        # Characters, not tokens, because a later component may merge or split tokens.
        return doc.char_span(start, end, label=label, alignment_mode="expand")

    return [
        SpacyRelation(span(*values[:3]), values[3], span(*values[4:7]), values[7])
        for stored in (doc._.get(_STORED) or {}).values()
        for values in stored
    ]


def _add_extensions() -> None:
    if not Doc.has_extension(_STORED):
        Doc.set_extension(_STORED, default=None)
    if not Doc.has_extension("relations"):
        Doc.set_extension("relations", getter=_read_relations)
    elif Doc.get_extension("relations")[2] is not _read_relations:
        raise CascadeError(
            "another program has added the extension 'relations' to spaCy's Doc",
            "Remove it with Doc.remove_extension('relations'), or add it under another name",
        )
