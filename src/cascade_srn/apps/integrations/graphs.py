"""What the graph libraries share: extraction, names of labels, and one node per entity of a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, Unpack

from cascade_srn.errors import ConfigError, SchemaError, did_you_mean
from cascade_srn.extractor import Extractor
from cascade_srn.inference.streaming import StreamOptions
from cascade_srn.schema import Schema
from cascade_srn.text.status import ASSERTED
from cascade_srn.types import Document, Entity, Relation

ModelLike = str | Path | Extractor | None
"""A model folder, the name of a bundled model, a hub id, or an extractor. None: the default bundled model."""
Item = TypeVar("Item")


class GraphOptions(StreamOptions, total=False):
    """Options of all graph libraries: those of :meth:`.Extractor.stream`, and these two.

    Attributes:
        label_map: Names of labels in the graph; see :func:`map_labels`.
        device: Device of the model.
    """

    label_map: Mapping[str, str] | None
    device: str


def load_extractor(model: ModelLike, device: str = "auto") -> Extractor:
    """Load a model, or return the extractor that is given instead of one."""
    return model if isinstance(model, Extractor) else Extractor.from_pretrained(model, device=device)


def plain_label(label: str) -> str:
    """Return a label that needs no quotes in a graph query: letters, digits and underscores.

    Example:
        >>> plain_label("USED-FOR"), plain_label("3 D object")
        ('USED_FOR', '_3_D_object')
    """
    plain = re.sub(r"\W", "_", label)
    return f"_{plain}" if plain[:1].isdigit() else plain


def map_labels(schema: Schema, label_map: Mapping[str, str] | None) -> dict[str, str]:
    """Return the name in the graph of every label of a model.

    Args:
        schema: The labels of the model.
        label_map: Names of single labels. Several labels may have the same name. Others have :func:`plain_label`.

    Raises:
        SchemaError: If ``label_map`` has a label that the model does not have.
        ConfigError: If two labels of one kind would have the same name by accident.
    """
    given = dict(label_map or {})
    known = (*schema.entity_types, *schema.relation_types)
    for label, name in given.items():
        if label not in known:
            raise SchemaError(f"label_map names the unknown label {label!r}", did_you_mean(label, known))
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"label_map maps {label!r} to {name!r}", "Give a name that is not blank")
    names = {label: given.get(label, plain_label(label)) for label in known}
    for labels in (schema.entity_types, schema.relation_types):
        taken: dict[str, str] = {}
        for label in (label for label in labels if label not in given):
            if names[label] in taken:
                raise ConfigError(
                    f"the labels {taken[names[label]]!r} and {label!r} would both be {names[label]!r} in the graph",
                    "Give one of them another name in label_map",
                )
            taken[names[label]] = label
    return names


@dataclass(frozen=True)
class GraphEntity:
    """An entity of a text: all mentions with the same name and label."""

    name: str  # Text of the entity, with single spaces between words
    label: str  # Name of its label in the graph
    mentions: tuple[Entity, ...]  # The mentions, in the order of the text

    def properties(self) -> dict[str, Any]:
        """Return the best score, and the character offsets of the mentions in the text."""
        return _with_score(
            {
                "starts": [mention.start for mention in self.mentions],
                "ends": [mention.end for mention in self.mentions],
            },
            *(mention.score for mention in self.mentions),
        )


@dataclass(frozen=True)
class GraphRelation:
    """A relation between two entities of a text: all mentions with the same ends and label."""

    head: GraphEntity  # The subject
    label: str  # Name of its label in the graph
    tail: GraphEntity  # The object
    mentions: tuple[Relation, ...]  # The mentions, the best one first

    def properties(self) -> dict[str, Any]:
        """Return score, sentence, offsets and status of the best mention, and the number of mentions."""
        best = self.mentions[0]
        found = {
            "sentence": best.sentence.text if best.sentence else "",
            "head_start": best.head.start,
            "head_end": best.head.end,
            "tail_start": best.tail.start,
            "tail_end": best.tail.end,
            "n_mentions": len(self.mentions),
            "status": best.status,
        }
        return _with_score(found, best.score)


def _with_score(properties: dict[str, Any], *scores: float | None) -> dict[str, Any]:
    known = [score for score in scores if score is not None]
    return properties | ({"score": round(max(known), 6)} if known else {})


def merge_mentions(
    document: Document, names: Mapping[str, str], *, by_name: bool = False
) -> tuple[list[GraphEntity], list[GraphRelation]]:
    """Merge the entities of a document by name and label, and the relations between them.

    Args:
        document: An annotated document.
        names: Name in the graph of every label.
        by_name: Merge entities of different labels too, for stores that identify nodes by their name. The label is
            that of the best mention.
    """
    groups: dict[tuple[str, str], list[Entity]] = {}
    keys: dict[Entity, tuple[str, str]] = {}
    for entity in document.entities:
        name = " ".join(entity.text.split())
        keys[entity] = (name, "" if by_name else names[entity.label])
        groups.setdefault(keys[entity], []).append(entity)
    entities = {
        key: GraphEntity(key[0], names[max(mentions, key=_score).label], tuple(mentions))
        for key, mentions in groups.items()
    }
    between: dict[tuple[tuple[str, str], str, tuple[str, str]], list[Relation]] = {}
    for relation in document.relations:
        ends = keys[relation.head], names[relation.label], keys[relation.tail]
        between.setdefault(ends, []).append(relation)
    relations = [
        GraphRelation(entities[head], label, entities[tail], tuple(sorted(mentions, key=_rank, reverse=True)))
        for (head, label, tail), mentions in between.items()
    ]
    return list(entities.values()), relations


def _score(item: Entity | Relation) -> float:
    return 1.0 if item.score is None else item.score


def _rank(relation: Relation) -> tuple[bool, float]:
    """Return a key that puts mentions that assert the relation above all others."""
    return relation.status == ASSERTED, _score(relation)


class GraphAdapter:
    """Extracts entities and relations for a graph library, one node per entity of a text.

    Args:
        model: A model folder, the name of a bundled model, a hub id, or an extractor.
        by_name: Whether the library identifies nodes by their name; see :func:`merge_mentions`.
        options: Options of extraction. Wrong ones are refused at once.
    """

    def __init__(self, model: ModelLike, *, by_name: bool = False, **options: Unpack[GraphOptions]) -> None:
        self.by_name = by_name
        self.extractor = load_extractor(model, options.pop("device", "auto"))
        self.names = map_labels(self.extractor.schema, options.pop("label_map", None))
        self.options: dict[str, Any] = dict(options)
        self.extractor.stream([], **self.options)

    def extract(
        self, items: Iterable[tuple[str, Item]], **options: Any
    ) -> Iterator[tuple[Item, list[GraphEntity], list[GraphRelation]]]:
        """Yield each item with the entities and relations of its text, without texts that are skipped."""
        for document, item in self.extractor.stream(items, as_tuples=True, **self.options | options):
            yield item, *merge_mentions(document, self.names, by_name=self.by_name)
