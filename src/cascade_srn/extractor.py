"""The public face of a trained model: text in, entities and relations out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from cascade_srn.config import require_choice
from cascade_srn.data.examples import Example, examples_of
from cascade_srn.errors import CascadeError, ConfigError
from cascade_srn.inference.batching import give_back_freed
from cascade_srn.inference.cascade_search import PRECISIONS, Predictor, never_stop
from cascade_srn.inference.streaming import BadText, OnError, Outcome, attempt, error_policy, parts
from cascade_srn.inference.thresholds import ThresholdsLike, chosen_thresholds
from cascade_srn.model.model import Model
from cascade_srn.schema import Schema
from cascade_srn.storage.bundled import find_model as find_model
from cascade_srn.text.segment import Segmenter, segment
from cascade_srn.types import Document, Entity, Span

if TYPE_CHECKING:
    from cascade_srn.data.alignment import Align


class Extractor:
    """Extracts entities and relations from text with a trained model.

    A text is split by ``segmenter`` into sentences of word offsets; texts that are split already go in as
    :class:`~cascade_srn.types.Document`, by ``Document.from_text`` or ``Document.from_words``.

    One extractor can be used from several threads at once: a call changes nothing that another one reads. Only
    :meth:`to`, which moves the model, wants the extractor to itself.

    ``thresholds`` is in every method one number for all three turns, a mapping of those that differ from the
    model's own, as ``{"entity": 0.4, "relation_types": {"PART-OF": 0.3}}``, or ``Thresholds`` in full.
    """

    def __init__(self, model: Model, *, segmenter: Segmenter = segment, precision: str = "auto") -> None:
        require_choice("precision", precision, PRECISIONS)
        self.model = model
        self.precision = precision
        self.segmenter = segmenter
        model.network.eval()

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path | None = None,
        *,
        device: str | torch.device = "cpu",
        precision: str = "auto",
        segmenter: Segmenter = segment,
    ) -> Extractor:
        """Load the model that ships with the package, or one from a folder, or from the hub by its id.

        ``precision`` is that of the pretrained encoder: "auto" is bf16 on a GPU and float32 elsewhere. "bf16" is
        several times faster on processors that have instructions for it (Intel AMX, for one).
        """
        return cls(Model.load(find_model(name)), precision=precision, segmenter=segmenter).to(device)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model to a folder that :meth:`from_pretrained` reads."""
        self.model.save(folder)

    @property
    def schema(self) -> Schema:
        """The labels this model knows."""
        return self.model.schema

    def to(self, device: str | torch.device) -> Extractor:
        """Move the model to a device; not while it is extracting."""
        try:
            self.model.network.to(device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ConfigError(
                f"the model cannot be moved to the device {str(device)!r} ({reason}); give cpu, or cuda where torch "
                "sees a GPU with room for it"
            ) from error
        return self

    def extract(self, text: str | Document, *, thresholds: ThresholdsLike | None = None) -> Document:
        """Entities and relations of one text."""
        return self.predict([self._document(text)], thresholds=thresholds)[0]

    def stream(
        self,
        texts: Iterable[str | Document],
        *,
        batch_words: int = 4096,
        thresholds: ThresholdsLike | None = None,
        on_error: OnError = "warn",
    ) -> Iterator[Document]:
        """Documents for texts, one by one and in order, however many there are.

        Texts are taken in only as they are needed: at most about sixteen batches at a time, so that sentences of
        similar length can go through the model together.

        A text that nothing can be extracted from (one that is no string, say) does not stop the others. With
        ``on_error="warn"`` it is left out with a warning, with "skip" without one; "raise" stops there. A function
        is given the :class:`.BadText`, and what it returns stands in its place, unless it is
        None. Where ``texts`` itself fails, its error is raised once the documents of those before are given.
        """
        if isinstance(texts, str | bytes | Document):
            raise CascadeError(
                f"one {type(texts).__name__} was given, but a list or stream of texts was expected; pass [text], or "
                "use extract for one text"
            )
        if not isinstance(texts, Iterable):
            raise CascadeError(f"texts is a {type(texts).__name__}; give a list or stream of texts")
        policy, predictor = error_policy(on_error), self.predictor(thresholds, batch_words)
        return self._stream(iter(texts), predictor, batch_words, policy)

    def _stream(
        self,
        texts: Iterator[str | Document],
        predictor: Predictor,
        batch_words: int,
        policy: Callable[[BadText], Document | None],
    ) -> Iterator[Document]:
        done = 0
        for part in parts(self._prepared(texts), batch_words):
            good = [(at, outcome) for at, outcome in enumerate(part, done) if isinstance(outcome, Document)]
            found = attempt(good, lambda documents: self._predicted(documents, predictor))
            for at, outcome in enumerate(part, done):
                result = found.get(at, outcome)
                document = policy(result) if isinstance(result, BadText) else result
                if document is not None:
                    yield document
            done += len(part)
            give_back_freed()

    def _prepared(self, texts: Iterator[str | Document]) -> Iterator[Outcome]:
        """Texts split into sentences and words, or what kept one from it: a segmenter can be anyone's."""
        for position, text in enumerate(texts):
            try:
                yield self._document(text)
            except Exception as error:
                yield BadText(position, text, error)

    def relations(
        self,
        text: str | Document,
        entities: Sequence[Entity],
        *,
        thresholds: ThresholdsLike | None = None,
        align: Align = "exact",
    ) -> Document:
        """Relations between given entities (character offsets), which are taken as they are: turns 2 and 3 only.

        An entity must start and end where words do; with ``align="expand"`` the words that it touches are taken
        whole, with a warning that counts them.
        """
        given = self.prepare(text, entities, align=align)
        placed = {(entity.start, entity.end) for entity in given.entities}
        if n_expanded := sum((entity.start, entity.end) not in placed for entity in entities):
            warnings.warn(f"{n_expanded} of {len(entities)} entities aligned outward to whole words", stacklevel=2)
        return self._predicted([given], self.predictor(thresholds), given_entities=True)[0]

    def prepare(
        self, text: str | Document, entities: Sequence[Entity] | None = None, *, align: Align = "exact"
    ) -> Document:
        """Split a text into sentences and words, and place given entities (character offsets) on the words."""
        document = self._document(text)
        if entities is None:
            return document
        from cascade_srn.data.alignment import WordMap

        words = WordMap(document.text, [s.offsets for s in document.sentences], document=document.id)
        spans: list[dict[Span, None]] = [{} for _ in document.sentences]
        for entity in entities:
            if not isinstance(entity, Entity):
                raise CascadeError(
                    f"an entity is a {type(entity).__name__}; give Entity(start, end, label), characters [start, end)"
                )
            if entity.score is not None and not 0 <= entity.score <= 1:
                raise CascadeError(
                    f"the entity {entity.label!r} at characters [{entity.start}, {entity.end}) has the score "
                    f"{entity.score}, but one from 0 to 1 was expected; mend it, or leave it out"
                )
            place = words.place(entity.start, entity.end, align=align)
            span = Span(place.start, place.end, entity.label, entity.score)
            if span in spans[place.sentence] and align == "exact":
                raise CascadeError(
                    f"the entity {entity.label!r} at characters [{entity.start}, {entity.end}) is given twice; "
                    "remove the repeat"
                )
            spans[place.sentence].setdefault(span)
        sentences = [s.annotated(e, ()) for s, e in zip(document.sentences, spans, strict=True)]
        given = Document(document.text, tuple(sentences), document.id)
        self._check_labels(given)
        return given

    def predict(
        self,
        documents: Iterable[Document],
        *,
        given_entities: bool = False,
        batch_words: int = 4096,
        thresholds: ThresholdsLike | None = None,
    ) -> list[Document]:
        """Documents with the annotations of the model in place of their own (or beside given entities)."""
        predictor = self.predictor(thresholds, batch_words)
        documents = _all_documents(documents)
        for document in documents:
            _refuse_half_characters(document.text)
        if given_entities:
            for document in documents:
                self._check_labels(document)
        return self._predicted(documents, predictor, given_entities=given_entities)

    def _check_labels(self, document: Document) -> None:
        of_document = f" of {document.id!r}" if document.id else ""
        for number, sentence in enumerate(document.sentences):
            self.schema.check(sentence.annotated(sentence.entities, ()), f"sentence {number}{of_document}")

    def predictor(
        self,
        thresholds: ThresholdsLike | None = None,
        batch_words: int = 4096,
        *,
        check: Callable[[], None] = never_stop,
    ) -> Predictor:
        """Make a predictor with the precision of this extractor. ``check`` may raise to stop it."""
        chosen = chosen_thresholds(thresholds, self.model.settings.thresholds)
        return self.model.predictor(thresholds=chosen, batch_words=batch_words, precision=self.precision, check=check)

    def examples(self, documents: Iterable[Document]) -> list[Example]:
        """Return the sentences of documents with the context that the model reads."""
        return examples_of(documents, self.model.settings.encoder.context_words)

    def _predicted(
        self, documents: Sequence[Document], predictor: Predictor, *, given_entities: bool = False
    ) -> list[Document]:
        _refuse_forked()
        found = iter(predictor.predict(self.examples(documents), given_entities=given_entities))
        return [Document(d.text, tuple(islice(found, len(d.sentences))), d.id) for d in documents]

    def _document(self, text: str | Document) -> Document:
        if not isinstance(text, str | Document):
            raise CascadeError(f"a text is a {type(text).__name__}, not a string; give a str or a Document")
        if isinstance(text, Document):
            _refuse_half_characters(text.text)
            return text
        _refuse_half_characters(text)
        return Document.from_text(text, segmenter=self.segmenter)


# The process in which a model first ran; a forked process inherits it.
_first_used_in: int | None = None


def _refuse_forked() -> None:
    """Refuse to run in a process that was forked after a model ran: torch's thread pool hangs there."""
    global _first_used_in
    _first_used_in = os.getpid() if _first_used_in is None else _first_used_in
    if _first_used_in != os.getpid() and torch.get_num_threads() > 1:
        raise CascadeError(
            "this process was forked after a model was used, and torch's threads do not survive that; start processes "
            "by 'spawn', or call torch.set_num_threads(1) in them first"
        )


def _all_documents(documents: Iterable[Document]) -> list[Document]:
    if isinstance(documents, str | Document):
        raise CascadeError(
            f"one {type(documents).__name__} was given, but a list of Documents was expected; pass [document], or use "
            "extract for one text"
        )
    found = list(documents)
    for number, document in enumerate(found):
        if not isinstance(document, Document):
            raise CascadeError(
                f"item {number} is a {type(document).__name__}, but a Document was expected; make one by "
                "Document.from_text, or use extract or stream, which take texts"
            )
    return found


def _refuse_half_characters(text: str) -> None:
    """A lone surrogate is no character: no tokenizer takes it and no file holds it."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CascadeError(
            f"the text holds half a surrogate pair, {text[error.start]!r}, at character {error.start}; "
            "write the whole character, or replace it (text.encode('utf-8', 'replace').decode())"
        ) from None
