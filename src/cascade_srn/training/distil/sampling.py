"""Select the sentences of raw text that are labelled."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from cascade_srn.errors import DataError
from cascade_srn.inputs.texts import sentence_key
from cascade_srn.text.forms import model_form
from cascade_srn.text.segment import segment
from cascade_srn.training.distil import LabelSettings
from cascade_srn.training.labelled import SelectedDocument
from cascade_srn.types import Document

_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass
class SampleCounts:
    """Numbers of documents and of selected and skipped sentences."""

    documents: int = 0
    sentences: int = 0
    too_short: int = 0
    too_long: int = 0
    held_out: int = 0
    repeated: int = 0
    not_sampled: int = 0
    labelled: int = 0


@dataclass
class SampledText:
    """The documents with sentences to label, and the counts of all sentences."""

    documents: list[SelectedDocument] = field(default_factory=list)
    counts: SampleCounts = field(default_factory=SampleCounts)

    def shards(self, n_sentences: int) -> list[list[SelectedDocument]]:
        """Split the documents into groups with about ``n_sentences`` sentences to label each."""
        groups: list[list[SelectedDocument]] = []
        room = 0
        for document in self.documents:
            if room <= 0:
                groups.append([])
                room = n_sentences
            groups[-1].append(document)
            room -= document.n_chosen
        return groups


def sample_sentences(texts: Iterable[str], held_out: Iterable[Document], settings: LabelSettings) -> SampledText:
    """Split texts into sentences and select those to label.

    Sentences of the held-out documents are removed. Sentences that are too short, too long, repeated or not sampled
    stay as context of the others.
    """
    forbidden = {sentence_key(sentence.words) for document in held_out for sentence in document.sentences}
    sampled, counts = SampledText(), SampleCounts()
    seen: set[bytes] = set()
    for raw in texts:
        # JSON can contain lone surrogates, which tokenizers and files cannot.
        text = _SURROGATES.sub("\ufffd", raw)
        counts.documents += 1
        document = SelectedDocument(counts.documents - 1, [], [])
        for offsets in segment(text):
            words = [text[start:end] for start, end in offsets]
            # Words are stored with spaces between them, and a hyphenated word can contain a line break.
            words = [word if len(word.split()) == 1 else model_form(word) for word in words]
            counts.sentences += 1
            key = sentence_key(words)
            if key in forbidden:
                counts.held_out += 1
                continue
            document.sentences.append(" ".join(words))
            document.chosen.append(_is_selected(len(words), key, seen, settings, counts))
        if any(document.chosen):
            sampled.documents.append(document)
    sampled.counts = counts
    _sample(sampled, settings.max_sentences)
    if not counts.labelled:
        raise DataError(
            f"the text has no sentence to label: of {counts.sentences} sentences {counts.too_short} have fewer than "
            f"{settings.min_words} words, {counts.too_long} have more than {settings.max_words}, and "
            f"{counts.held_out} are held out",
            "Give more text, or change min_words and max_words",
            option="min_words",
        )
    return sampled


def _is_selected(n_words: int, key: bytes, seen: set[bytes], settings: LabelSettings, counts: SampleCounts) -> bool:
    if n_words < settings.min_words:
        counts.too_short += 1
    elif n_words > settings.max_words:
        counts.too_long += 1
    elif key in seen:
        counts.repeated += 1
    else:
        seen.add(key)
        counts.labelled += 1
        return True
    return False


def _sample(sampled: SampledText, n_sentences: int | None) -> None:
    """Keep ``n_sentences`` of the selected sentences, evenly spaced."""
    counts = sampled.counts
    if n_sentences is None or counts.labelled <= n_sentences:
        return
    kept = np.zeros(counts.labelled, dtype=np.bool_)
    kept[np.arange(n_sentences) * counts.labelled // n_sentences] = True
    counts.not_sampled, counts.labelled = counts.labelled - n_sentences, n_sentences
    flags = iter(kept.tolist())
    for document in sampled.documents:
        document.chosen = [chosen and next(flags) for chosen in document.chosen]
    sampled.documents = [document for document in sampled.documents if any(document.chosen)]
