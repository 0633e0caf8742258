"""Documents, sentences and their annotations.

Positions have two kinds, and each kind has its own types:

* A :class:`Sentence` has :class:`Span` (entity) and :class:`Triple` (relation) objects. Their positions are half-open
  word indices in the sentence.
* A :class:`Document` has :class:`Entity` and :class:`Relation` objects. Their positions are half-open character offsets
  in the text: ``document.text[e.start:e.end] == e.text``.

Coreference clusters consist of :class:`Mention` objects, which have word indices, because they can be in any sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any

from cascade_srn.errors import AnnotationError, CascadeError, short_repr
from cascade_srn.text.coverage import Coverage, measure_coverage
from cascade_srn.text.segment import Segmenter, find_markup, segment

Offsets = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """An entity of a sentence.

    Spans are compared and hashed by position and label, without the score.

    Attributes:
        start: Index of the first word.
        end: Index after the last word.
        label: Entity type.
        score: Score of the model from 0 to 1, or None for an annotation.

    Raises:
        AnnotationError: If the span is empty or negative.
    """

    start: int
    end: int
    label: str
    score: float | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise AnnotationError(
                f"the span [{self.start}, {self.end}) of label {self.label!r} is empty or negative",
                "Give half-open word indices with 0 <= start < end",
            )


@dataclass(frozen=True, slots=True, order=True)
class Triple:
    """A relation of a sentence.

    Attributes:
        head: The subject.
        label: Relation type.
        tail: The object.
        score: Score of the model from 0 to 1, or None for an annotation.
    """

    head: Span
    label: str
    tail: Span
    score: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Sentence:
    """The words of a sentence and their annotations.

    Entities may nest, cross and share words. Repeated relations are kept, because published corpora contain some.

    Attributes:
        words: The words.
        offsets: Half-open character offsets of each word in the text of the document.
        entities: The entities, each of them once.
        triples: The relations. Head and tail are among the entities.
        escaped: The words as their file writes them, if it escapes some (``-LRB-``); else empty. Not compared.

    Raises:
        AnnotationError: If the annotations do not fit the words or each other.
    """

    words: tuple[str, ...]
    offsets: Offsets
    entities: tuple[Span, ...] = ()
    triples: tuple[Triple, ...] = ()
    escaped: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.words) != len(self.offsets):
            raise AnnotationError(
                f"a sentence has {len(self.words)} words, but {len(self.offsets)} offsets", "Give one pair per word"
            )
        if self.escaped and len(self.escaped) != len(self.words):
            raise AnnotationError(
                f"a sentence has {len(self.words)} words, but {len(self.escaped)} escaped ones", "Give all or none"
            )
        known = set(self.entities)
        if len(known) != len(self.entities):
            repeated = next(entity for entity, count in Counter(self.entities).items() if count > 1)
            raise AnnotationError(f"{_describe(repeated)} is repeated", "Remove the repetition")
        for entity in self.entities:
            if entity.end > len(self.words):
                raise AnnotationError(
                    f"{_describe(entity)} ends after the sentence ({len(self.words)} words)", "Check the word indices"
                )
        for triple in self.triples:
            for role, argument in (("head", triple.head), ("tail", triple.tail)):
                if argument not in known:
                    raise AnnotationError(
                        f"the {role} of a relation {triple.label!r}, {_describe(argument)}, is not an entity of the "
                        "sentence",
                        "Add it to the entities",
                    )

    @classmethod
    def from_words(
        cls,
        words: Sequence[str],
        entities: Iterable[Span] = (),
        triples: Iterable[Triple] = (),
        *,
        at: int = 0,
        escaped: Sequence[str] = (),
    ) -> Sentence:
        """Make a sentence from words. Its text is the words joined by single spaces.

        Args:
            words: The words. Each has at least one character.
            entities: The entities.
            triples: The relations.
            at: Character offset of the first word in the text of the document.
            escaped: The words as their file writes them, if it escapes some.

        Raises:
            AnnotationError: If the words are not a list of strings, or the annotations do not fit.
        """
        return cls._join(_check_words(words), entities, triples, at, tuple(escaped))

    @classmethod
    def _join(
        cls,
        words: tuple[str, ...],
        entities: Iterable[Span],
        triples: Iterable[Triple],
        at: int = 0,
        escaped: tuple[str, ...] = (),
    ) -> Sentence:
        offsets = []
        for word in words:
            end = at + len(word)
            offsets.append((at, end))
            at = end + 1
        return cls(words, tuple(offsets), tuple(entities), tuple(triples), escaped)

    def annotated(self, entities: Iterable[Span], triples: Iterable[Triple]) -> Sentence:
        """Return a sentence with the same words and other annotations."""
        return replace(self, entities=tuple(entities), triples=tuple(triples))

    def __len__(self) -> int:
        return len(self.words)


def _describe(entity: Span) -> str:
    return f"the entity {entity.label!r} at words [{entity.start}, {entity.end})"


def _check_words(words: object) -> tuple[str, ...]:
    """Return the words as a tuple, or raise an AnnotationError if they are not valid words."""
    if isinstance(words, str | bytes) or not isinstance(words, Iterable):
        raise AnnotationError(
            f"the words of a sentence are {short_repr(words)}, not a list of strings",
            "Give a list of words, or use Document.from_text for a text",
        )
    checked: tuple[Any, ...] = tuple(words)
    for number, word in enumerate(checked):
        if not isinstance(word, str):
            raise AnnotationError(f"word {number} of a sentence is {short_repr(word)}, not a string")
        if not word:
            raise AnnotationError(f"word {number} of a sentence is empty", "Remove it")
        if not word.isascii() and any("\ud800" <= char <= "\udfff" for char in word):
            raise AnnotationError(
                f"word {number} of a sentence is {short_repr(word)}, which contains an unpaired surrogate",
                "Remove it, or give the complete character",
            )
    return checked


@dataclass(frozen=True, slots=True, order=True)
class Entity:
    """An entity of a document.

    Entities are compared and hashed by position and label.

    Attributes:
        start: Offset of the first character.
        end: Offset after the last character.
        label: Entity type.
        text: The characters of the entity.
        score: Score of the model from 0 to 1, or None for an annotation.
    """

    start: int
    end: int
    label: str
    text: str = field(default="", compare=False)
    score: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, order=True)
class Relation:
    """A relation of a document.

    Attributes:
        head: The subject, one of the entities of the document.
        label: Relation type.
        tail: The object, one of the entities of the document.
        score: Score of the model from 0 to 1, or None for an annotation.
    """

    head: Entity
    label: str
    tail: Entity
    score: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, order=True)
class Mention:
    """Words of a document that refer to something. A mention may be an entity, but need not be one.

    Attributes:
        sentence: Zero-based position of the sentence in the document.
        start: Index of the first word in the sentence.
        end: Index after the last word.
    """

    sentence: int
    start: int
    end: int


@dataclass(frozen=True)
class Document:
    """A text with its sentences, entities, relations and coreference clusters.

    Attributes:
        text: The text.
        sentences: The sentences, in the order of the text.
        id: Name of the document.
        clusters: Coreference clusters: the mentions of each thing that the text refers to several times. A mention is
            in one cluster at most.

    Raises:
        AnnotationError: If the words do not match the text at their offsets, or are out of order, or if a cluster is
            empty or has a mention that is outside its sentence or repeated.

    Example:
        >>> document = Document.from_text("We train a CRF. It works.", id="abstract 1")
        >>> [sentence.words for sentence in document.sentences]
        [('We', 'train', 'a', 'CRF', '.'), ('It', 'works', '.')]
        >>> crf = Span(3, 4, "Method")
        >>> document = Document.from_sentences([document.sentences[0].annotated([crf], [])])
        >>> document.entities
        (Entity(start=11, end=14, label='Method', text='CRF', score=None),)
    """

    text: str
    sentences: tuple[Sentence, ...] = ()
    id: str = ""
    clusters: tuple[tuple[Mention, ...], ...] = ()

    def __post_init__(self) -> None:
        self._check_words()
        self._check_clusters()

    def _check_words(self) -> None:
        at = 0
        for number, sentence in enumerate(self.sentences):
            for word, (start, end) in zip(sentence.words, sentence.offsets, strict=True):
                # Compare the length as well, because a slice past the end of the text is cut.
                if start < at or end - start != len(word) or self.text[start:end] != word:
                    raise self._misplaced(word, number, start, end, at)
                at = end

    def _check_clusters(self) -> None:
        seen: set[Mention] = set()
        for number, cluster in enumerate(self.clusters):
            where = f"cluster {number} of document {self.id!r}"
            if not cluster:
                raise AnnotationError(f"{where} is empty", "Remove it")
            for mention in cluster:
                words = f"words [{mention.start}, {mention.end}) of sentence {mention.sentence}"
                known = 0 <= mention.sentence < len(self.sentences)
                if not known or not 0 <= mention.start < mention.end <= len(self.sentences[mention.sentence]):
                    raise AnnotationError(
                        f"{where} has a mention at {words}, which do not exist", "Check the sentence and the indices"
                    )
                if mention in seen:
                    raise AnnotationError(f"{where} repeats the mention at {words}", "Give each mention once")
                seen.add(mention)

    def _misplaced(self, word: str, number: int, start: int, end: int, at: int) -> AnnotationError:
        where = f"word {word!r} of sentence {number} of document {self.id!r} has the offsets [{start}, {end})"
        if 0 <= start < at:
            return AnnotationError(
                f"{where}, but the word before it ends at {at}", "Give words in the order of the text, without overlap"
            )
        return AnnotationError(f"{where}, where the text has {self.text[start:end]!r}", "Check the offsets")

    @classmethod
    def from_text(cls, text: str, *, id: str = "", segmenter: Segmenter | None = None) -> Document:
        """Split a text into sentences and words.

        Args:
            text: The text.
            id: Name of the document.
            segmenter: Splits the text. None: :func:`cascade_srn.text.segment.segment`, which has rules for English.
                :mod:`cascade_srn.text.presplit` has segmenters for text that is split already.

        Raises:
            AnnotationError: If the segmenter returns offsets that are empty, outside the text or out of order.

        Example:
            >>> Document.from_text("Dr. Li can't.").sentences[0].words
            ('Dr.', 'Li', 'ca', "n't", '.')
        """
        sentences = []
        for number, words in enumerate((segment if segmenter is None else segmenter)(text)):
            offsets: Offsets = tuple((start, end) for start, end in words)
            for start, end in offsets:
                if not 0 <= start < end <= len(text):
                    raise AnnotationError(
                        f"the segmenter returned a word [{start}, {end}) in sentence {number}, which is empty or "
                        f"outside the text ({len(text)} characters)",
                        "A segmenter must return half-open offsets within the text",
                    )
            sentences.append(Sentence(tuple(text[start:end] for start, end in offsets), offsets))
        return cls(text, tuple(sentences), id)

    @classmethod
    def from_words(cls, sentences: Sequence[Sequence[str]], *, id: str = "") -> Document:
        """Make a document from words. Its text has the words joined by spaces, one sentence per line.

        Args:
            sentences: The words of each sentence.
            id: Name of the document.

        Raises:
            AnnotationError: If a sentence is not a list of words.
        """
        if isinstance(sentences, str) or not isinstance(sentences, Iterable):
            raise AnnotationError(
                f"the sentences are {short_repr(sentences)}, not a list of lists of words",
                "Use Document.from_text for a text",
            )
        made = []
        for number, words in enumerate(sentences):
            try:
                made.append(Sentence.from_words(words))
            except AnnotationError as error:
                problem = f"sentence {number} of document {id!r}: {error.problem}"
                raise AnnotationError(problem, error.hint) from None
        return cls.from_sentences(made, id=id)

    @classmethod
    def from_sentences(
        cls, sentences: Sequence[Sentence], *, id: str = "", clusters: Iterable[Iterable[Mention]] = ()
    ) -> Document:
        """Make a document from annotated sentences. Its text has the words joined by spaces, one sentence per line.

        Args:
            sentences: The sentences. Their offsets are replaced.
            id: Name of the document.
            clusters: Coreference clusters.
        """
        moved, at = [], 0
        for sentence in sentences:
            moved.append(Sentence._join(sentence.words, sentence.entities, sentence.triples, at, sentence.escaped))
            at += sum(len(word) + 1 for word in sentence.words) or 1
        text = "\n".join(" ".join(sentence.words) for sentence in sentences)
        return cls(text, tuple(moved), id, tuple(map(tuple, clusters)))

    @cached_property
    def entities(self) -> tuple[Entity, ...]:
        """The entities of all sentences, in order."""
        return tuple(self._entity(s, span) for s in self.sentences for span in s.entities)

    @cached_property
    def relations(self) -> tuple[Relation, ...]:
        """The relations of all sentences, in order."""
        relations = []
        entities = iter(self.entities)
        for sentence in self.sentences:
            entity = {span: next(entities) for span in sentence.entities}
            relations += [Relation(entity[t.head], t.label, entity[t.tail], t.score) for t in sentence.triples]
        return tuple(relations)

    @cached_property
    def coverage(self) -> Coverage:
        """Share of the non-whitespace characters that are in a word, markup apart, and the spans that are not."""
        words = [pair for sentence in self.sentences for pair in sentence.offsets]
        return measure_coverage(self.text, words, find_markup(self.text))

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
                "networkx is not installed", "Install it with pip install 'cascade-srn[graph]'"
            ) from error
        graph = MultiDiGraph(id=self.id, text=self.text)
        for position, entity in enumerate(self.entities):
            graph.add_node(position, **asdict(entity))
        positions = {entity: position for position, entity in enumerate(self.entities)}
        for relation in self.relations:
            head, tail = positions[relation.head], positions[relation.tail]
            graph.add_edge(head, tail, label=relation.label, score=relation.score)
        return graph

    def _repr_html_(self) -> str:
        """Draw the document in a notebook."""
        return str(_late("drawing", "draw_in_notebook")(self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON that :meth:`from_dict` accepts.

        Returns:
            The keys ``id``, ``text``, ``sentences`` (character offsets of the words of each sentence), ``entities``
            (each with its position as ``id``) and ``relations`` (``head`` and ``tail`` are ids of entities). A document
            with coreference clusters also has ``clusters`` (character offsets of the mentions of each cluster).

        Raises:
            DataError: If a label or score cannot be written to JSON.

        Example:
            >>> sentence = Sentence.from_words(["a", "CRF"], [Span(1, 2, "Method", 0.9)])
            >>> record = Document.from_sentences([sentence]).to_dict()
            >>> record["sentences"], record["entities"]
            ([[[0, 1], [2, 5]]], [{'id': 0, 'text': 'CRF', 'label': 'Method', 'start': 2, 'end': 5, 'score': 0.9}])
        """
        plain: dict[str, Any] = _late("data.plain", "to_plain")(self)
        return plain

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Document:
        """Make a document from the plain values of :meth:`to_dict`. ``id`` and annotations are optional.

        Raises:
            DataError: If a key is unknown or missing, or a value has the wrong type or contradicts the text.
        """
        document: Document = _late("data.plain", "from_plain")(record)
        return document

    def locate(self, mention: Mention) -> tuple[int, int]:
        """Return the half-open character offsets of a mention of a cluster.

        Example:
            >>> document = Document.from_words([["A", "CRF", "works", "."], ["It", "is", "old", "."]])
            >>> document.locate(Mention(1, 0, 1))
            (14, 16)
        """
        offsets = self.sentences[mention.sentence].offsets
        return offsets[mention.start][0], offsets[mention.end - 1][1]

    def _entity(self, sentence: Sentence, span: Span) -> Entity:
        start, end = sentence.offsets[span.start][0], sentence.offsets[span.end - 1][1]
        return Entity(start, end, span.label, self.text[start:end], span.score)


def _late(module: str, name: str) -> Callable[..., Any]:
    """Import the implementation of a method when it is called, because ``data`` and ``drawing`` import this module."""
    function: Callable[..., Any] = getattr(import_module(f"cascade_srn.{module}"), name)
    return function
