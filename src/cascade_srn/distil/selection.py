"""Which sentences of raw text are labelled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from cascade_srn.data.labelled.shards import SelectedDocument
from cascade_srn.distil.settings import LabelSettings
from cascade_srn.errors import DataError
from cascade_srn.text.segment import segment
from cascade_srn.types import Document

_HALVES = re.compile("[\ud800-\udfff]")
# How often the number of documents is told.
_TOLD_EVERY = 1000


@dataclass
class Counts:
    """What became of the sentences of a text."""

    documents: int = 0
    sentences: int = 0
    too_short: int = 0
    too_long: int = 0
    held_out: int = 0
    repeated: int = 0
    not_sampled: int = 0
    labelled: int = 0


@dataclass
class Selection:
    """The documents with sentences to be labelled, and the account of all others."""

    documents: list[SelectedDocument] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)

    def shards(self, n_sentences: int) -> list[list[SelectedDocument]]:
        """Whole documents in their order, in groups of about so many sentences to be labelled."""
        groups: list[list[SelectedDocument]] = []
        room = 0
        for document in self.documents:
            if room <= 0:
                groups.append([])
                room = n_sentences
            groups[-1].append(document)
            room -= document.n_chosen
        return groups


def select(
    texts: Iterable[str],
    held_out: Iterable[Document],
    settings: LabelSettings,
    *,
    on_documents: Callable[[int], None] = lambda count: None,
) -> Selection:
    """Cut texts into sentences and choose those to be labelled; ``on_documents`` is told how many have been read.

    Sentences of the ``held_out`` documents leave their document altogether, as ``cascade-srn adapt --holdout`` has
    it. Those that are too short or too long, have come before or are not sampled stay as the others' context.
    """
    forbidden = {sentence_key(sentence.words) for document in held_out for sentence in document.sentences}
    selection, counts = Selection(), Counts()
    seen: set[bytes] = set()
    for raw in texts:
        # Half a character, which JSON can hold, is none that a tokenizer or a file would take.
        text = _HALVES.sub("\ufffd", raw)
        counts.documents += 1
        document = SelectedDocument(counts.documents - 1, [], [])
        for offsets in segment(text):
            words = [text[start:end] for start, end in offsets]
            counts.sentences += 1
            key = sentence_key(words)
            if key in forbidden:
                counts.held_out += 1
                continue
            document.sentences.append(" ".join(words))
            document.chosen.append(_is_fit(len(words), key, seen, settings, counts))
        if any(document.chosen):
            selection.documents.append(document)
        if counts.documents % _TOLD_EVERY == 0:
            on_documents(counts.documents)
    on_documents(counts.documents)
    selection.counts = counts
    _sample(selection, settings.max_sentences)
    if not counts.labelled:
        raise DataError(
            f"the text holds no sentence to label: of {counts.sentences} sentences {counts.too_short} are shorter than "
            f"{settings.min_words} words, {counts.too_long} longer than {settings.max_words}, {counts.held_out} held "
            "out; give more text, or other bounds by --min-words and --max-words"
        )
    return selection


def sentence_key(words: Iterable[str]) -> bytes:
    """A short stand-in for a sentence, the same for all ways of spacing and capitalising it."""
    plain = "".join("".join(words).split()).casefold()
    return blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _is_fit(n_words: int, key: bytes, seen: set[bytes], settings: LabelSettings, counts: Counts) -> bool:
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


def _sample(selection: Selection, n_wanted: int | None) -> None:
    """Keep so many of the chosen sentences, at even distances."""
    counts = selection.counts
    if n_wanted is None or counts.labelled <= n_wanted:
        return
    kept = np.zeros(counts.labelled, dtype=np.bool_)
    kept[np.arange(n_wanted) * counts.labelled // n_wanted] = True
    counts.not_sampled, counts.labelled = counts.labelled - n_wanted, n_wanted
    flags = iter(kept.tolist())
    for document in selection.documents:
        document.chosen = [chosen and next(flags) for chosen in document.chosen]
    selection.documents = [document for document in selection.documents if any(document.chosen)]
