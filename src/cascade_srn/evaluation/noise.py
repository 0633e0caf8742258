"""Noise of real text for annotated documents: lost punctuation and case, line breaks, OCR errors, LaTeX, Markdown, PDF.

Annotations stay on their words, also if the characters of these change. The same seed gives the same noise.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from cascade_srn.evaluation.from_text import align_by_characters, rebuild_text
from cascade_srn.evaluation.noise_pdf import draw_columns, printable
from cascade_srn.evaluation.scores import Scores, score_documents
from cascade_srn.text.pdf import has_pdfium, parse_pdf
from cascade_srn.types import Document, Sentence, Span, Triple

if TYPE_CHECKING:
    from cascade_srn.extractor import Extractor

_PUNCTUATION = frozenset(".,;:!?()[]\"'`“”‘’«»…")
# Characters of a line, in a narrow column and in one of two columns of a page.
_COLUMN, _PDF_COLUMN = 38, 48
# Letters of a word on each side of a hyphen at the end of a line.
_HYPHENATED = 3
# Share of the characters with a look-alike that are read wrongly.
_OCR_SHARE = 0.03
_LOOK_ALIKES = {
    "l": "1", "I": "l", "1": "l", "O": "0", "0": "O", "o": "0", "e": "c", "c": "e", "h": "b", "b": "h", "m": "rn",
    "w": "vv", "d": "cl", "S": "5", "s": "5", "g": "q", "t": "f", "f": "t", "a": "o", "n": "u", "u": "n", "i": "ı",
    "B": "8", "Z": "2", "-": "", ",": ".", ".": ",",
}  # fmt: skip
# Shares of the words that are emphasised, or followed by a citation.
_EMPHASIS_SHARE, _CITATION_SHARE = 0.05, 0.04
_AUTHORS = ("Miller", "Sato", "Novak", "Diaz", "Okafor", "Berg")


@dataclass
class _Draft:
    """A text under change: what each character becomes, and what is inserted before each."""

    text: str
    words: list[tuple[int, int]]  # Half-open offsets
    ends: list[int]  # Ends of the words that no entity continues after, at which an author may insert something
    rng: random.Random

    def __post_init__(self) -> None:
        self.characters = list(self.text)
        self.before = [""] * (len(self.text) + 1)

    def is_drawn(self, share: float) -> bool:
        """Return True for a share of the calls."""
        return self.rng.random() < share

    def emphasise(self, opening: str, closing: str) -> None:
        """Mark words."""
        for start, end in self.words:
            if self.text[start:end].isalpha() and self.is_drawn(_EMPHASIS_SHARE):
                self.before[start] += opening
                # After a word, and before anything that is inserted between it and the next one.
                self.before[end] = closing + self.before[end]

    def cite(self, make: Callable[[str, int], str]) -> None:
        """Insert citations after words."""
        for end in self.ends:
            if self.text[end - 1].isalnum() and self.is_drawn(_CITATION_SHARE):
                self.before[end] += make(self.rng.choice(_AUTHORS), self.rng.randrange(1, 60))

    def build(self) -> tuple[str, list[tuple[int, int] | None]]:
        """Return the new text, and the new offsets of each word; None for a word that is gone."""
        parts: list[str] = []
        places: list[tuple[int, int]] = []
        at = 0
        for character, inserted in zip([*self.characters, ""], self.before, strict=True):
            parts += (inserted, character)
            at += len(inserted)
            places.append((at, at + len(character)))
            at += len(character)
        moved: list[tuple[int, int] | None] = []
        for start, end in self.words:
            kept = [place for place in places[start:end] if place[0] < place[1]]
            moved.append((kept[0][0], kept[-1][1]) if kept else None)
        return "".join(parts), moved


def _drop_punctuation(draft: _Draft) -> None:
    text = f" {draft.text} "
    for at, character in enumerate(draft.text):
        # Not in 3.5 or state's.
        if character in _PUNCTUATION and not (text[at].isalnum() and text[at + 2].isalnum()):
            draft.characters[at] = ""


def _capitalise(draft: _Draft) -> None:
    draft.characters = [character.upper() for character in draft.characters]


def _lower(draft: _Draft) -> None:
    draft.characters = [character.lower() for character in draft.characters]


def _set_in_column(draft: _Draft, width: int = _COLUMN) -> None:
    """Break lines at spaces, and words at the ends of lines."""
    text, used, at = draft.text, 0, 0
    while at < len(text):
        end = text.find(" ", at)
        end = len(text) if end < 0 else end
        room, size = width - used - 1, end - at
        broken = at + min(room, size - _HYPHENATED)
        if size <= room:
            used += size + 1
        elif broken - at >= _HYPHENATED and text[broken - _HYPHENATED : broken + 2].isalpha():
            draft.before[broken] += "-\n"
            used = end - broken + 1
        else:
            if at:
                draft.characters[at - 1] = "\n"
            used = size + 1
        at = end + 1


def _misread(draft: _Draft) -> None:
    for at, character in enumerate(draft.text):
        if character in _LOOK_ALIKES and draft.is_drawn(_OCR_SHARE):
            draft.characters[at] = _LOOK_ALIKES[character]


def _to_latex(draft: _Draft) -> None:
    for at, character in enumerate(draft.text):
        if character in "%&#$_":
            draft.before[at] += "\\"
    draft.emphasise("\\emph{", "}")
    draft.cite(lambda author, number: f"~\\cite{{{author.lower()}{1990 + number % 35}}}")


def _to_markdown(draft: _Draft) -> None:
    draft.emphasise("**", "**")
    draft.cite(lambda author, number: f" [{number}]" if number % 2 else f" ({author} et al., {1990 + number % 35})")


_KINDS: dict[str, Callable[[_Draft], None]] = {
    "no-punctuation": _drop_punctuation,
    "capitals": _capitalise,
    "lower-case": _lower,
    "column": _set_in_column,
    "ocr": _misread,
    "latex": _to_latex,
    "markdown": _to_markdown,
}
KINDS = tuple(_KINDS)
LASTING = ("no-punctuation", "capitals", "lower-case", "ocr")
"""Kinds of noise that the segmenter cannot undo."""
PDF = "pdf"
DOCUMENT_KINDS = (*KINDS, PDF)
"""Kinds of noise for documents. That of PDF files is not for single sentences."""
# A page has about six abstracts, and a reader refuses files of many pages.
_DOCUMENTS_PER_PDF = 500


def available_kinds() -> tuple[str, ...]:
    """Return all kinds of noise that need no extra that is missing."""
    return DOCUMENT_KINDS if has_pdfium() else KINDS


def parse_kinds(names: str) -> tuple[str, ...]:
    """Return the kinds of noise of a list with commas, or the available ones for "all"."""
    given = tuple(dict.fromkeys(name for part in names.split(",") if (name := part.strip())))
    return available_kinds() if given == ("all",) else given


def add_noise(document: Document, kind: str, rng: random.Random) -> Document:
    """Return a document with noise in its text. Annotations stay on their words; clusters are left out.

    Words of punctuation that is dropped are gone, and so are entities without any other word.

    Example:
        >>> document = Document.from_text("A CRF tags text.")
        >>> add_noise(document, "capitals", random.Random(0)).sentences[0].words
        ('A', 'CRF', 'TAGS', 'TEXT', '.')
    """
    draft = _make_draft(document, rng)
    _KINDS[kind](draft)
    text, moved = draft.build()
    return _place(document, text, moved)


def _make_draft(document: Document, rng: random.Random) -> _Draft:
    words = [pair for sentence in document.sentences for pair in sentence.offsets]
    ends = [
        pair[1]
        for sentence in document.sentences
        for number, pair in enumerate(sentence.offsets, 1)
        if not any(entity.start < number < entity.end for entity in sentence.entities)
    ]
    return _Draft(document.text, words, ends, rng)


def _place(document: Document, text: str, moved: Sequence[tuple[int, int] | None]) -> Document:
    """Return a document with another text, in which its words have new places."""
    sentences, at = [], 0
    for sentence in document.sentences:
        sentences.append(_move(sentence, text, moved[at : at + len(sentence)]))
        at += len(sentence)
    return Document(text, tuple(sentences), document.id)


def _move(sentence: Sentence, text: str, moved: Sequence[tuple[int, int] | None]) -> Sentence:
    """Return a sentence with its words at new places."""
    numbers = [0]  # Number of words that are left before each word
    for place in moved:
        numbers.append(numbers[-1] + (place is not None))
    offsets = tuple(place for place in moved if place is not None)
    spans: dict[Span, Span] = {}
    for entity in sentence.entities:
        start, end = numbers[entity.start], numbers[entity.end]
        if start < end:
            spans[entity] = replace(entity, start=start, end=end)
    triples = tuple(
        Triple(spans[triple.head], triple.label, spans[triple.tail], triple.score)
        for triple in sentence.triples
        if triple.head in spans and triple.tail in spans
    )
    words = tuple(text[start:end] for start, end in offsets)
    return Sentence(words, offsets, tuple(dict.fromkeys(spans.values())), triples)


def noisy_documents(documents: Sequence[Document], kind: str, seed: int) -> list[Document]:
    """Return documents with noise, each with an own random number generator."""
    if kind == PDF:
        batches = (documents[at : at + _DOCUMENTS_PER_PDF] for at in range(0, len(documents), _DOCUMENTS_PER_PDF))
        return [document for batch in batches for document in _print_and_read(batch)]
    return [add_noise(document, kind, random.Random(f"{seed} {kind} {at}")) for at, document in enumerate(documents)]


def _print_and_read(documents: Sequence[Document]) -> list[Document]:
    """Return documents with the text that is read from a PDF of all of them. Each is a paragraph, or several."""
    texts, places = [], []
    for document in documents:
        draft = _make_draft(document, random.Random(0))
        _set_in_column(draft, _PDF_COLUMN)
        text, moved = draft.build()
        texts.append(text)
        places.append(moved)
    read = parse_pdf(draw_columns([text.split("\n") for text in texts]), "the PDF with noise").text
    printed = "\0".join(map(printable, texts))
    new = _align(printed, read)
    made, first, after = [], 0, 0
    for document, text, moved in zip(documents, texts, places, strict=True):
        spans: list[tuple[int, int] | None] = []
        for place in moved:
            characters = [at for at in new[first + place[0] : first + place[1]] if at >= 0] if place else []
            spans.append((characters[0], characters[-1] + 1) if characters else None)
        found = [span for span in spans if span is not None]
        low, after = (found[0][0], found[-1][1]) if found else (after, after)
        made.append(_place(document, read[low:after], [span and (span[0] - low, span[1] - low) for span in spans]))
        first += len(text) + 1
    return made


def _align(first: str, second: str) -> list[int]:
    """Return the place of each character in another text, or -1 for those of words that it lacks."""
    new = [-1] * len(first)
    ours, theirs = ([match.span() for match in re.finditer(r"[^\s\0]+", text)] for text in (first, second))
    words = [[text[slice(*span)] for span in spans] for text, spans in ((first, ours), (second, theirs))]
    for kind, low, high, start, end in SequenceMatcher(None, words[0], words[1], autojunk=False).get_opcodes():
        # Words that are glued or torn have the same characters.
        if kind == "equal" or (kind == "replace" and "".join(words[0][low:high]) == "".join(words[1][start:end])):
            characters = [at for span in ours[low:high] for at in range(*span)]
            for at, place in zip(characters, (at for span in theirs[start:end] for at in range(*span)), strict=True):
                new[at] = place
    return new


def noisy_words(sentence: Sentence, kind: str, rng: random.Random) -> Sentence:
    """Return a sentence with noise in its words, or without some of them."""
    return _noisy_document(sentence, kind, rng).sentences[0]


def _noisy_document(sentence: Sentence, kind: str, rng: random.Random) -> Document:
    plain = Sentence.from_words(sentence.words, sentence.entities, sentence.triples)
    return add_noise(rebuild_text(Document.from_sentences([plain])), kind, rng)


def noisy_sentence(sentence: Sentence, kind: str, rng: random.Random) -> Sentence:
    """Return a sentence with noise, with the words that the segmenter finds in its text."""
    noisy = _noisy_document(sentence, kind, rng)
    ((aligned,), _) = align_by_characters([noisy], [Document.from_text(noisy.text)])
    # What follows the sentence, such as a citation, can be a sentence of its own.
    return max(aligned.sentences, key=lambda one: (len(one.entities), len(one)), default=sentence)


CLEAN = "clean"
NOISE_TASKS = {"ner": "NER", "re_strict": "RE strict"}


def score_noise(
    extractor: Extractor,
    documents: Sequence[Document],
    kind: str,
    *,
    seed: int = 0,
    symmetric: str = "directed",
    batch_words: int = 4096,
) -> Scores:
    """Score what a model extracts from the texts of annotated documents with noise, or clean ones, by characters."""
    noisy = documents if kind == CLEAN else noisy_documents(documents, kind, seed)
    found = list(extractor.stream((one.text for one in noisy), batch_words=batch_words, on_error="raise"))
    gold, predicted = align_by_characters(noisy, found)
    return score_documents(gold, predicted, schema=extractor.schema, symmetric=symmetric)
