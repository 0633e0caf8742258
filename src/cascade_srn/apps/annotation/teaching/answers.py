"""From the answers of the teacher to annotations: locate quotes in the text, check labels, and compare answers.

What an answer does not quote from the text is dropped and counted, never guessed. The share of the answers that agree
on a label is its score.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cascade_srn.formats.triples import FUZZY, Locator
from cascade_srn.inference.constraints import find_violations
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Span, Triple

Place = tuple[int, int]
"""Words of a sentence, half-open."""

# Kinds of dropped items, with their descriptions in reports.
DROPPED = {
    "malformed": "malformed",
    "type": "of an unknown type",
    "quote": "not a quote of the text",
    "places": "a quote that occurs several times in the text",
    "repeated": "words that already have a type",
    "ends": "a relation without both entities",
    "constraints": "a relation that the schema does not allow",
}


@dataclass(frozen=True)
class Answer:
    """Entities and relations of one answer at their places in the sentence."""

    entities: Mapping[Place, str]
    relations: frozenset[tuple[Place, str, Place]]
    dropped: Counter[str]
    problem: str = ""  # Why nothing of the answer can be used, or empty


@dataclass(frozen=True)
class Taught:
    """What all answers together say about a sentence."""

    suggested: Document  # All that any answer has, with the share of the answers as score
    labelled: Document | None  # What enough answers have; None if no answer is usable
    agreement: float | None  # F1 of the first two usable answers; None if there are fewer, or neither has entities
    doubt: float  # Expected number of corrections
    dropped: Counter[str]
    problems: tuple[str, ...]  # Why answers were not used


def read_answer(content: str, document: Document, schema: Schema) -> Answer:
    """Read an answer about a document of one sentence."""
    record = _find_json(content)
    if record is None:
        return Answer({}, frozenset(), Counter(), "the answer is not JSON")
    items, relations = record.get("entities"), record.get("relations", [])
    if not isinstance(items, list) or not isinstance(relations, list):
        return Answer({}, frozenset(), Counter(), "the answer has no list of entities")
    dropped: Counter[str] = Counter()
    entities, names = _place_entities(items, document, schema, dropped)
    triples: dict[tuple[Place, str, Place], None] = {}
    for item in relations:
        if not isinstance(item, dict):
            dropped["malformed"] += 1
            continue
        head, tail = (names.get(_text(item.get(role))) for role in ("head", "tail"))
        label = _text(item.get("type"))
        if label not in schema.relation_types:
            dropped["type"] += 1
        elif head is None or tail is None or head == tail:
            dropped["ends"] += 1
        else:
            ends = sorted((head, tail)) if label in schema.symmetric else (head, tail)
            triples[ends[0], label, ends[1]] = None
    spans = {place: Span(*place, label) for place, label in entities.items()}
    made = {key: Triple(spans[key[0]], key[1], spans[key[2]]) for key in triples}
    forbidden = find_violations(made.values(), schema).dropped
    dropped["constraints"] += sum(triple in forbidden for triple in made.values())
    kept = frozenset(key for key, triple in made.items() if triple not in forbidden)
    problem = "" if entities or not items else "the answer quotes nothing of the text"
    return Answer(entities, kept, +dropped, problem)


def _place_entities(
    items: Sequence[Any], document: Document, schema: Schema, dropped: Counter[str]
) -> tuple[dict[Place, str], dict[str, Place]]:
    """Return the types of entities by place, and the places by their ids and, if these are unique, their quotes."""
    given: list[tuple[str, str, str]] = []
    for item in items:
        if not isinstance(item, dict) or not _text(item.get("quote")):
            dropped["malformed"] += 1
        elif _text(item.get("type")) not in schema.entity_types:
            dropped["type"] += 1
        else:
            given.append((_text(item.get("id")), _text(item["quote"]), _text(item["type"])))
    counts = Counter(quote for _, quote, _ in given)
    locator = Locator(document.text, [sentence.offsets for sentence in document.sentences], counts)
    entities: dict[Place, str] = {}
    names: dict[str, Place] = {}
    seen: Counter[str] = Counter()
    for id, quote, label in given:
        matches = [match for match in locator.find(quote) if match.how != FUZZY]
        if len(matches) != counts[quote]:
            # A repeated quote is clear only if the answer has it as often as the text.
            dropped["places" if matches else "quote"] += 1
            continue
        match = matches[seen[quote]]
        seen[quote] += 1
        place = match.start, match.end
        if entities.setdefault(place, label) != label:
            dropped["repeated"] += 1
            continue
        names.setdefault(id, place)
        if counts[quote] == 1:
            names.setdefault(quote, place)
    names.pop("", None)
    return entities, names


def _text(value: Any) -> str:
    return str(value).strip() if isinstance(value, str | int) else ""


def _find_json(content: str) -> dict[str, Any] | None:
    """Return the JSON object of an answer, which may have thoughts before it and a code fence around it."""
    content = content.rpartition("</think>")[2]
    first, last = content.find("{"), content.rfind("}")
    try:
        found = json.loads(content[first : last + 1]) if 0 <= first < last else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def combine(
    document: Document, answers: Sequence[Answer], schema: Schema, *, n_samples: int, min_share: float
) -> Taught:
    """Combine the answers about a sentence.

    Args:
        document: The sentence.
        answers: Its answers.
        schema: Labels and constraints.
        n_samples: Number of answers that were asked for. Missing and unusable ones agree with nothing.
        min_share: Share of the answers that have to agree on a label.
    """
    usable = [answer for answer in answers if not answer.problem]
    dropped = sum((answer.dropped for answer in answers), Counter[str]())
    problems = tuple(answer.problem for answer in answers if answer.problem)
    votes = Counter((place, label) for answer in usable for place, label in answer.entities.items())
    # The most frequent type of each place; of equally frequent ones, that of the first answer.
    types: dict[Place, str] = {}
    for (place, label), _ in sorted(votes.items(), key=lambda item: -item[1]):
        types.setdefault(place, label)
    entities = {place: Span(*place, label, votes[place, label] / n_samples) for place, label in types.items()}
    triples = Counter(relation for answer in usable for relation in answer.relations)
    relations = [
        Triple(entities[head], label, entities[tail], count / n_samples)
        for (head, label, tail), count in sorted(triples.items())
    ]
    forbidden = find_violations(relations, schema).dropped
    relations = [triple for triple in relations if triple not in forbidden]
    suggested = _annotated(document, entities.values(), relations)
    kept = {span for span in entities.values() if _share(span) >= min_share}
    kept_relations = [one for one in relations if _share(one) >= min_share and {one.head, one.tail} <= kept]
    items: list[Span | Triple] = [*entities.values(), *relations]
    certain: set[Span | Triple] = {*kept, *kept_relations}
    doubt = sum(1 - _share(one) if one in certain else _share(one) for one in items)
    doubt += dropped.total() / n_samples + (n_samples - len(usable))
    return Taught(
        suggested,
        _annotated(document, kept, kept_relations) if usable else None,
        _agreement(usable[0], usable[1]) if len(usable) > 1 else None,
        doubt,
        dropped,
        problems,
    )


def _share(item: Span | Triple) -> float:
    return item.score or 0.0


def _annotated(document: Document, spans: Any, triples: Sequence[Triple]) -> Document:
    (sentence,) = document.sentences
    return replace(document, sentences=(sentence.annotated(sorted(spans), sorted(triples)),))


def _agreement(first: Answer, second: Answer) -> float | None:
    """Return F1 of the entities and relations of two answers; None if both are empty."""
    ours, theirs = ({*answer.entities.items(), *answer.relations} for answer in (first, second))
    return 2 * len(ours & theirs) / (len(ours) + len(theirs)) if ours or theirs else None
