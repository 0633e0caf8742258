"""Documents, sentences and their annotations.

Positions have two kinds, and each kind has its own types:

* A :class:`Sentence` has :class:`Span` (entity) and :class:`Triple` (relation) objects. Their positions are half-open
  word indices in the sentence.
* A :class:`Document` has :class:`Entity` and :class:`Relation` objects. Their positions are half-open character offsets
  in the text: ``document.text[e.start:e.end] == e.text``.

Coreference clusters consist of :class:`Mention` objects, which have word indices, because they can be in any sentence.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from cascade_srn.errors import AnnotationError, short_repr
from cascade_srn.sentence import Offsets as Offsets
from cascade_srn.sentence import Sentence as Sentence
from cascade_srn.sentence import Span as Span
from cascade_srn.sentence import Triple as Triple
from cascade_srn.text.coverage import TextCoverage, measure_coverage
from cascade_srn.text.segment import Segmenter, find_markup, segment
from cascade_srn.text.status import ASSERTED, find_status

if TYPE_CHECKING:
    from cascade_srn.schema import Schema

# Number of characters of the text in the representation of a document.
_SHOWN = 40


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
        sentence: The sentence of both, or None if the relation was made without a document. Not compared.
    """

    head: Entity
    label: str
    tail: Entity
    score: float | None = field(default=None, compare=False)
    sentence: Sentence | None = field(default=None, compare=False, repr=False)

    @property
    def status(self) -> str:
        """Whether the sentence says that the relation holds: "asserted", "negated" or "hedged".

        Rules for English decide (:mod:`cascade_srn.text.status`). Without a sentence, it is "asserted".

        Example:
            >>> words = "Parsers do not use grammars".split()
            >>> head, tail = Span(4, 5, "Material"), Span(0, 1, "Method")
            >>> sentence = Sentence.from_words(words, [head, tail], [Triple(head, "USED-FOR", tail)])
            >>> Document.from_sentences([sentence]).relations[0].status
            'negated'
        """
        if self.sentence is None:
            return ASSERTED
        starts = [start for start, _ in self.sentence.offsets]
        head, tail = ((bisect_left(starts, e.start), bisect_left(starts, e.end)) for e in (self.head, self.tail))
        return find_status(self.sentence.words, head, tail, self.label)


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


class Frames(NamedTuple):
    """The tables of a document."""

    entities: Any
    relations: Any


@dataclass(frozen=True, repr=False)
class Document:
    """A text with its sentences, entities, relations and coreference clusters.

    Attributes:
        text: The text.
        sentences: The sentences, in the order of the text.
        id: Name of the document.
        schema: The labels of the model that annotated the document, or None. Drawings use it. Not compared.
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
    schema: Schema | None = field(default=None, compare=False)
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
        object.__setattr__(self, "sentences", tuple(sentence.with_source(self.text) for sentence in self.sentences))

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= _SHOWN else f"{self.text[: _SHOWN - 1]}…"
        parts = [repr(text)] + [f"id={self.id!r}"] * bool(self.id)
        n_entities = sum(len(sentence.entities) for sentence in self.sentences)
        n_relations = sum(len(sentence.triples) for sentence in self.sentences)
        parts += [f"n_sentences={len(self.sentences)}", f"n_entities={n_entities}", f"n_relations={n_relations}"]
        return f"Document({', '.join(parts)})"

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
        sentences, at, is_ordered = [], 0, True
        for number, words in enumerate((segment if segmenter is None else segmenter)(text)):
            offsets: Offsets = tuple([(start, end) for start, end in words])
            for start, end in offsets:
                if not 0 <= start < end <= len(text):
                    raise AnnotationError(
                        f"the segmenter returned a word [{start}, {end}) in sentence {number}, which is empty or "
                        f"outside the text ({len(text)} characters)",
                        "A segmenter must return half-open offsets within the text",
                    )
                is_ordered &= at <= start
                at = end
            sentences.append(Sentence.of_text(text, offsets))
        # The constructor raises the error of words that are out of order.
        return (cls.unchecked if is_ordered else cls)(text, tuple(sentences), id)

    @classmethod
    def unchecked(
        cls, text: str, sentences: tuple[Sentence, ...], id: str = "", schema: Schema | None = None
    ) -> Document:
        """Make a document without the checks of the constructor, from sentences that are known to be of this text."""
        made = object.__new__(cls)
        made.__dict__.update(text=text, sentences=sentences, id=id, schema=schema, clusters=())
        return made

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
        return cls(text, tuple(moved), id, clusters=tuple(map(tuple, clusters)))

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
            relations += [
                Relation(entity[t.head], t.label, entity[t.tail], t.score, sentence) for t in sentence.triples
            ]
        return tuple(relations)

    @cached_property
    def coverage(self) -> TextCoverage:
        """Share of the non-whitespace characters that are in a word, markup apart, and the spans that are not."""
        words = [pair for sentence in self.sentences for pair in sentence.offsets]
        return measure_coverage(self.text, words, find_markup(self.text))

    def filter(
        self, *, min_score: float | None = None, labels: str | Collection[str] | None = None, related: bool = False
    ) -> Document:
        """Return this document with some of its entities and relations.

        A relation is kept only together with its head and its tail.

        Args:
            min_score: Minimum score of entities and relations. Annotations without a score are kept.
            labels: Labels to keep. If none of them is an entity type, entities of all types are kept; if none is a
                relation type, relations of all types. Without a schema, a label that does not occur is of both kinds.
            related: Keep only the entities of the relations that are kept.

        Raises:
            ConfigError: If the score is not from 0 to 1.
            SchemaError: If the document knows its schema, and a label is not in it.

        Example:
            >>> spans = Span(0, 1, "Method", 0.9), Span(2, 3, "Task", 0.4)
            >>> document = Document.from_sentences([Sentence.from_words(["CRFs", "for", "tagging"], spans)])
            >>> [entity.text for entity in document.filter(min_score=0.5).entities]
            ['CRFs']
        """
        filtered: Document = _late("formats.label_filter", "filter_document")(self, min_score, labels, related)
        return filtered

    def to_pandas(self) -> Frames:
        """Convert the document to two ``pandas.DataFrame``: ``entities, relations = document.to_pandas()``.

        Returns:
            One row per entity and per relation. The columns are those of :meth:`to_dataframe`.

        Raises:
            CascadeError: pandas is not installed.
        """
        return Frames(self.to_dataframe("entities"), self.to_dataframe("relations"))

    def to_dataframe(self, kind: str = "entities") -> Any:
        """Convert the entities or the relations to a ``pandas.DataFrame``.

        Args:
            kind: "entities" or "relations".

        Returns:
            A table with the ``document_id`` and the position of the ``sentence`` in each row. Entities have the
            columns ``entity`` (position), ``start``, ``end``, ``text``, ``label`` and ``score``. Relations have
            ``relation``, ``label``, ``score`` and ``status``, and for both ``head`` and ``tail`` the position of the
            entity and its ``_start``, ``_end``, ``_text`` and ``_label``.

        Raises:
            CascadeError: pandas is not installed.
            ConfigError: ``kind`` is something else.
        """
        return _late("formats.label_filter", "to_dataframe")(self, kind)

    def to_networkx(self) -> Any:
        """Convert the document to a ``networkx.MultiDiGraph``.

        Returns:
            A graph with one node per entity and one edge per relation, from head to tail. Nodes are numbered by
            position in :attr:`entities` and have the attributes ``text``, ``label``, ``start``, ``end`` and ``score``.
            Edges have ``label`` and ``score``. Scores that are None are left out, because GraphML has no such value.
            The graph has the document's ``id`` and ``text``.

        Raises:
            CascadeError: networkx is not installed.
        """
        return _late("formats.label_filter", "to_networkx")(self)

    def _repr_html_(self) -> str:
        """Draw the document in a notebook."""
        return str(_late("drawing", "draw_in_notebook")(self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON that :meth:`from_dict` accepts.

        Returns:
            The keys ``id``, ``text``, ``sentences`` (character offsets of the words of each sentence), ``entities``
            (each with its position as ``id``) and ``relations`` (``head`` and ``tail`` are ids of entities; ``status``
            follows from the sentence). A document with coreference clusters also has ``clusters`` (character offsets of
            the mentions of each cluster).

        Raises:
            DataError: If a label or score cannot be written to JSON.

        Example:
            >>> sentence = Sentence.from_words(["a", "CRF"], [Span(1, 2, "Method", 0.9)])
            >>> record = Document.from_sentences([sentence]).to_dict()
            >>> record["sentences"], record["entities"]
            ([[[0, 1], [2, 5]]], [{'id': 0, 'text': 'CRF', 'label': 'Method', 'start': 2, 'end': 5, 'score': 0.9}])
        """
        plain: dict[str, Any] = _late("formats.jsonl", "to_plain")(self)
        return plain

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Document:
        """Make a document from the plain values of :meth:`to_dict`. ``id`` and annotations are optional.

        Raises:
            DataError: If a key is unknown or missing, or a value has the wrong type or contradicts the text.
        """
        document: Document = _late("formats.jsonl", "from_plain")(record)
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
