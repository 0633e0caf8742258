"""The public face of a trained model: text in, entities and relations out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch

from cascade_srn.config import Thresholds, require_choice
from cascade_srn.data.alignment import WordMap
from cascade_srn.data.examples import examples_of
from cascade_srn.errors import CascadeError, ModelError
from cascade_srn.memory import give_back_freed
from cascade_srn.model import Model
from cascade_srn.predict import PRECISIONS
from cascade_srn.schema import Schema
from cascade_srn.segment import segment
from cascade_srn.types import Document, Entity, Offsets, Sentence, Span

Segmenter = Callable[[str], Sequence[Sequence[tuple[int, int]]]]


class Extractor:
    """Extracts entities and relations from text with a trained model.

    A text is split by ``segmenter`` into sentences of word offsets; texts that are words already go in as
    :class:`~cascade_srn.types.Document`, for instance by ``Document.from_words``.
    """

    def __init__(self, model: Model, *, segmenter: Segmenter = segment, precision: str = "auto") -> None:
        require_choice("precision", precision, PRECISIONS)
        self.model = model
        self.precision = precision
        self.segmenter = segmenter
        model.cascade.eval()

    @classmethod
    def from_pretrained(
        cls, name: str | Path | None = None, *, device: str | torch.device = "cpu", precision: str = "auto"
    ) -> Extractor:
        """Load a model from a folder, or from the hub by its id.

        ``precision`` is that of the pretrained encoder: "auto" is bf16 on a GPU and float32 elsewhere. "bf16" is
        several times faster on processors that have instructions for it (Intel AMX, for one).
        """
        return cls(Model.load(find_model(name)), precision=precision).to(device)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model to a folder that :meth:`from_pretrained` reads."""
        self.model.save(folder)

    @property
    def schema(self) -> Schema:
        """The labels this model knows."""
        return self.model.schema

    def to(self, device: str | torch.device) -> Extractor:
        """Move the model to a device."""
        self.model.cascade.to(device)
        return self

    def extract(self, text: str | Document, *, thresholds: Thresholds | None = None) -> Document:
        """Entities and relations of one text."""
        return self.predict([self._document(text)], thresholds=thresholds)[0]

    def stream(
        self,
        texts: Iterable[str | Document],
        *,
        batch_words: int = 4096,
        thresholds: Thresholds | None = None,
    ) -> Iterator[Document]:
        """Documents for texts, one by one and in order, however many there are.

        Texts are taken in only as they are needed: about sixteen batches at a time, so that sentences of
        similar length can go through the model together.
        """
        documents = (self._document(text) for text in texts)
        while part := _words_worth(documents, 16 * batch_words):
            yield from self.predict(part, batch_words=batch_words, thresholds=thresholds)
            give_back_freed()

    def relations(
        self, text: str | Document, entities: Sequence[Entity], *, thresholds: Thresholds | None = None
    ) -> Document:
        """Relations between given entities (character offsets), which are taken as they are: turns 2 and 3 only."""
        document = self._document(text)
        words = WordMap(document.text, [s.offsets for s in document.sentences], document=document.id)
        spans: list[list[Span]] = [[] for _ in document.sentences]
        for entity in entities:
            place = words.place(entity.start, entity.end)
            spans[place.sentence].append(Span(place.start, place.end, entity.label, entity.score))
        sentences = [s.annotated(e, ()) for s, e in zip(document.sentences, spans, strict=True)]
        given = Document(document.text, tuple(sentences), document.id)
        return self.predict([given], given_entities=True, thresholds=thresholds)[0]

    def predict(
        self,
        documents: Sequence[Document],
        *,
        given_entities: bool = False,
        batch_words: int = 4096,
        thresholds: Thresholds | None = None,
    ) -> list[Document]:
        """Documents with the annotations of the model in place of their own (or beside given entities)."""
        if given_entities:
            for document in documents:
                for number, sentence in enumerate(document.sentences):
                    self.schema.check(
                        sentence.annotated(sentence.entities, ()), f"sentence {number} of {document.id!r}"
                    )
        examples = examples_of(documents, self.model.settings.encoder.context_words)
        predictor = self.model.predictor(thresholds=thresholds, batch_words=batch_words, precision=self.precision)
        found = iter(predictor.predict(examples, given_entities=given_entities))
        return [Document(d.text, tuple(islice(found, len(d.sentences))), d.id) for d in documents]

    def _document(self, text: str | Document) -> Document:
        if isinstance(text, Document):
            return text
        if not isinstance(text, str):
            raise CascadeError(f"a text is a {type(text).__name__}, not a string; give a str or a Document")
        sentences = []
        for words in self.segmenter(text):
            offsets: Offsets = tuple((start, end) for start, end in words)
            sentences.append(Sentence(tuple(text[start:end] for start, end in offsets), offsets))
        return Document(text, tuple(sentences))


def _words_worth(documents: Iterator[Document], n_words: int) -> list[Document]:
    """The next documents, until they hold that many words."""
    taken: list[Document] = []
    count = 0
    for document in documents:
        taken.append(document)
        count += 1 + sum(len(sentence) for sentence in document.sentences)
        if count >= n_words:
            break
    return taken


def find_model(name: str | Path | None) -> Path:
    """The folder of a model: the one that ships with the package, a folder, or a download from the hub."""
    if name is None:
        raise ModelError(
            "no model ships with this release of cascade-srn; give the folder of a trained model or a hub id"
        )
    folder = Path(name).expanduser()
    if folder.exists():
        return folder
    text = str(name)
    if isinstance(name, Path) or text.startswith((".", "/", "~")) or text.count("/") != 1:
        raise ModelError(
            f"there is no model folder {text!r}; give a folder that a model was saved to, or a hub id (owner/name)"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(text))
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(
            f"there is no folder {text!r}, and it could not be had from the hub either ({reason}); "
            "check the name, or the network"
        ) from error
