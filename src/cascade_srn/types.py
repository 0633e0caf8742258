"""Sentences, documents and what is annotated in them.

There are two levels, and a type for each, so that a word index is never taken for a character offset:

* **inside**, a :class:`Sentence` holds :class:`Span` (entity) and :class:`Triple` (relation) objects, whose
  positions are half-open word indices of that sentence;
* **outside**, a :class:`Document` shows :class:`Entity` and :class:`Relation` objects, whose positions are
  half-open character offsets of its text: ``document.text[e.start:e.end] == e.text``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from reprlib import repr as short
from typing import TYPE_CHECKING, Any

from cascade_srn.errors import AnnotationError, CascadeError
from cascade_srn.text.segment import Coverage, coverage_of

if TYPE_CHECKING:
    from cascade_srn.text.segment import Segmenter

Offsets = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """An entity inside a sentence: the words ``[start, end)`` and a label.

    Two spans are equal when words and label are; the score is what a model gave, and no part of the identity.
    """

    start: int
    end: int
    label: str
    score: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise AnnotationError(
                f"the word span [{self.start}, {self.end}) of label {self.label!r} is empty or negative; "
                "give half-open word indices with 0 <= start < end"
            )


@dataclass(frozen=True, slots=True, order=True)
class Triple:
    """A relation inside a sentence: subject entity, relation type, object entity."""

    head: Span
    label: str
    tail: Span
    score: float | None = field(default=None, compare=False)


def _checked(words: Iterable[str]) -> tuple[str, ...]:
    """Words of one character or more that can be encoded; all are checked at once, and a bad one is then looked for."""
    try:
        checked = tuple(words)
        joined = " ".join(checked)  # refuses what is no string
    except TypeError:
        raise _refused(words) from None
    if isinstance(words, str) or not all(checked):
        raise _refused(words if isinstance(words, str) else checked)
    if not joined.isascii():  # which is known without looking at the characters
        try:
            joined.encode()
        except UnicodeEncodeError:
            raise _refused(checked) from None
    return checked


def _refused(words: object) -> AnnotationError:
    if isinstance(words, str | bytes) or not isinstance(words, Sequence):
        return AnnotationError(
            f"the words of a sentence are {short(words)}, but a list of words was expected; give a list of strings, "
            "one for each word, or a text to Document.from_text"
        )
    for number, word in enumerate(words):
        if not isinstance(word, str):
            return AnnotationError(
                f"word {number} of a sentence is {short(word)}, but a string was expected; give every word as a string"
            )
        if not word:
            return AnnotationError(
                f"word {number} of a sentence is '', but a word of one character or more was expected; remove it"
            )
        if any("\ud800" <= char <= "\udfff" for char in word):
            break
    return AnnotationError(
        f"word {number} of a sentence is {short(word)}, which holds half a surrogate pair; write the whole character "
        "or leave it out"
    )


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words with their character offsets in the document's text, and what is annotated on them.

    Entities may nest, cross and share words; an exact repeat of one is refused. A relation's two entities must
    be among the entities. An exact repeat of a relation is kept, because published corpora contain some: it
    changes no score, scores being taken over sets.
    """

    words: tuple[str, ...]
    offsets: Offsets
    entities: tuple[Span, ...] = ()
    triples: tuple[Triple, ...] = ()

    def __post_init__(self) -> None:
        if len(self.words) != len(self.offsets):
            raise AnnotationError(
                f"a sentence of {len(self.words)} words has {len(self.offsets)} offsets; give one pair a word"
            )
        known = set(self.entities)
        if len(known) != len(self.entities):
            repeated = next(entity for entity, number in Counter(self.entities).items() if number > 1)
            raise AnnotationError(
                f"the entity {repeated.label!r} at words [{repeated.start}, {repeated.end}) is given twice; "
                "remove the repeat"
            )
        for entity in self.entities:
            if entity.end > len(self.words):
                raise AnnotationError(
                    f"the entity {entity.label!r} at words [{entity.start}, {entity.end}) ends past the "
                    f"sentence's {len(self.words)} words; give half-open word indices within the sentence"
                )
        for triple in self.triples:
            for role, argument in (("head", triple.head), ("tail", triple.tail)):
                if argument not in known:
                    raise AnnotationError(
                        f"the {role} of a relation {triple.label!r}, {argument.label!r} at words "
                        f"[{argument.start}, {argument.end}), is not among the sentence's entities; add it there"
                    )

    @classmethod
    def from_words(
        cls,
        words: Sequence[str],
        entities: Iterable[Span] = (),
        triples: Iterable[Triple] = (),
        *,
        at: int = 0,
    ) -> Sentence:
        """A sentence whose text is its words joined by single spaces, starting at character ``at``."""
        return cls._joined(_checked(words), entities, triples, at)

    @classmethod
    def _joined(
        cls, words: tuple[str, ...], entities: Iterable[Span], triples: Iterable[Triple], at: int = 0
    ) -> Sentence:
        offsets = []
        for word in words:
            end = at + len(word)
            offsets.append((at, end))
            at = end + 1
        return cls(words, tuple(offsets), tuple(entities), tuple(triples))

    def annotated(self, entities: Iterable[Span], triples: Iterable[Triple]) -> Sentence:
        """The same words with other annotations."""
        return replace(self, entities=tuple(entities), triples=tuple(triples))

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True, slots=True, order=True)
class Entity:
    """An entity in a document's text: characters ``[start, end)``, a label, the text there, a model's score."""

    start: int
    end: int
    label: str
    text: str = field(default="", compare=False)
    score: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, order=True)
class Relation:
    """A relation in a document: ``head`` and ``tail`` are two of its entities."""

    head: Entity
    label: str
    tail: Entity
    score: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Document:
    """A text, its sentences, and through them its entities and relations.

    Sentences stand in the order of the text; ``id`` is whatever the source calls the document.
    """

    text: str
    sentences: tuple[Sentence, ...] = ()
    id: str = ""

    def __post_init__(self) -> None:
        at = 0
        for number, sentence in enumerate(self.sentences):
            for word, (start, end) in zip(sentence.words, sentence.offsets, strict=True):
                # A slice past the end of the text is cut there, so the length is compared as well.
                if start < at or end - start != len(word) or self.text[start:end] != word:
                    raise self._misplaced(word, number, start, end, at)
                at = end

    def _misplaced(self, word: str, number: int, start: int, end: int, at: int) -> AnnotationError:
        said = f"word {word!r} of sentence {number} of document {self.id!r} is said to stand at characters "
        if 0 <= start < at:
            return AnnotationError(
                f"{said}[{start}, {end}), before the previous word's end at {at}; give offsets that rise: words and "
                "sentences in the order of the text, none over another"
            )
        return AnnotationError(
            f"{said}[{start}, {end}), where the text has {self.text[start:end]!r}; give offsets that match the text"
        )

    @classmethod
    def from_text(cls, text: str, *, id: str = "", segmenter: Segmenter | None = None) -> Document:
        """A document without annotations from a text, as ``segmenter`` splits it (left out: the package's own).

        Texts that are split already come with a segmenter of :mod:`cascade_srn.text.presplit`.
        """
        from cascade_srn.text.segment import segment

        sentences = []
        for number, words in enumerate((segment if segmenter is None else segmenter)(text)):
            offsets: Offsets = tuple((start, end) for start, end in words)
            for start, end in offsets:
                if not 0 <= start < end <= len(text):
                    raise AnnotationError(
                        f"the segmenter puts a word of sentence {number} at characters [{start}, {end}), which is "
                        f"empty or outside the text's {len(text)}; it must give half-open offsets within the text"
                    )
            sentences.append(Sentence(tuple(text[start:end] for start, end in offsets), offsets))
        return cls(text, tuple(sentences), id)

    @classmethod
    def from_words(cls, sentences: Sequence[Sequence[str]], *, id: str = "") -> Document:
        """A document without annotations from words: joined by spaces, one sentence a line."""
        if isinstance(sentences, str) or not isinstance(sentences, Iterable):
            raise AnnotationError(
                f"the sentences are {short(sentences)}, but a list of lists of words was expected; give a text to "
                "Document.from_text"
            )
        made = []
        for number, words in enumerate(sentences):
            try:
                made.append(Sentence.from_words(words))
            except AnnotationError as error:
                raise AnnotationError(f"sentence {number} of document {id!r}: {error}") from None
        return cls.from_sentences(made, id=id)

    @classmethod
    def from_sentences(cls, sentences: Sequence[Sentence], *, id: str = "") -> Document:
        """A document from annotated words: its text is made of them, joined by spaces, one sentence a line."""
        placed, at = [], 0
        for sentence in sentences:
            placed.append(Sentence._joined(sentence.words, sentence.entities, sentence.triples, at))
            at += sum(len(word) + 1 for word in sentence.words) or 1
        text = "\n".join(" ".join(sentence.words) for sentence in sentences)
        return cls(text, tuple(placed), id)

    @cached_property
    def entities(self) -> tuple[Entity, ...]:
        """Entities by character offsets, sentence by sentence, in the order the sentences hold them."""
        return tuple(self._entity(s, span) for s in self.sentences for span in s.entities)

    @cached_property
    def relations(self) -> tuple[Relation, ...]:
        """Relations between :attr:`entities`, sentence by sentence, in the order the sentences hold them."""
        found = []
        entities = iter(self.entities)
        for sentence in self.sentences:
            shown = {span: next(entities) for span in sentence.entities}
            found += [Relation(shown[t.head], t.label, shown[t.tail], t.score) for t in sentence.triples]
        return tuple(found)

    @cached_property
    def coverage(self) -> Coverage:
        """How much of the text lies in the words of the sentences, and where what does not."""
        return coverage_of(self.text, (pair for sentence in self.sentences for pair in sentence.offsets))

    def to_networkx(self) -> Any:
        """Convert the document to a ``networkx.MultiDiGraph``.

        Returns:
            A graph with one node per entity and one edge per relation, from head to tail. Nodes are numbered by
            position in :attr:`entities` and have the attributes ``text``, ``label``, ``start``, ``end`` and ``score``.
            Edges have ``label`` and ``score``. The graph has the document's ``id`` and ``text``.

        Raises:
            CascadeError: networkx is not installed.
        """
        try:
            from networkx import MultiDiGraph  # type: ignore[import-untyped]
        except ModuleNotFoundError as error:
            raise CascadeError(
                "networkx is not installed, and to_networkx() makes a graph of it; install it by "
                "pip install 'cascade-srn[graph]'"
            ) from error
        graph = MultiDiGraph(id=self.id, text=self.text)
        for position, entity in enumerate(self.entities):
            graph.add_node(
                position, text=entity.text, label=entity.label, start=entity.start, end=entity.end, score=entity.score
            )
        positions = {entity: position for position, entity in enumerate(self.entities)}
        for relation in self.relations:
            head, tail = positions[relation.head], positions[relation.tail]
            graph.add_edge(head, tail, label=relation.label, score=relation.score)
        return graph

    def _repr_html_(self) -> str:
        """The document drawn, for notebooks."""
        return str(_late("drawing", "draw_in_notebook")(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, from which :meth:`from_dict` makes this document again.

        ``sentences`` holds the half-open character offsets of the words of each sentence. An entity's ``id`` is its
        place in ``entities``, and relations name their ``head`` and ``tail`` by it. ``score`` is None where there is
        none.
        """
        plain: dict[str, Any] = _late("data.plain", "to_plain")(self)
        return plain

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Document:
        """The inverse of :meth:`to_dict`; unknown keys, wrong types and what contradicts the text are refused."""
        document: Document = _late("data.plain", "from_plain")(record)
        return document

    def _entity(self, sentence: Sentence, span: Span) -> Entity:
        start, end = sentence.offsets[span.start][0], sentence.offsets[span.end - 1][1]
        return Entity(start, end, span.label, self.text[start:end], span.score)


def _late(module: str, name: str) -> Callable[..., Any]:
    """Look up the implementation of a convenience method when it is called.

    The packages ``data`` and ``drawing`` build on this module, so it cannot import them.
    """
    found: Callable[..., Any] = getattr(import_module(f"cascade_srn.{module}"), name)
    return found
