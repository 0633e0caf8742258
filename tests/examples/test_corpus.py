"""The example corpus has the properties that its README states."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cascade_srn.schema import Schema

NEWS = Path(__file__).resolve().parents[2] / "examples" / "news"
SPLITS = ("train", "dev", "test")
ARGUMENTS = {
    "born-in": {("Person", "Place")},
    "has-role": {("Person", "Role")},
    "located-in": {("Organization", "Place"), ("Place", "Place")},
    "made-by": {("Product", "Organization")},
    "partner-of": {("Organization", "Organization"), ("Person", "Person")},
    "works-for": {("Person", "Organization")},
}
Record = dict[str, Any]


def load(split: str) -> list[Record]:
    with (NEWS / f"{split}.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


CORPUS = {split: load(split) for split in SPLITS}
SCHEMA = Schema.from_dict(json.loads((NEWS / "schema.json").read_text(encoding="utf-8")))


def sentences(split: str) -> Iterator[tuple[str, list[tuple[int, Record]], list[Record]]]:
    """Yield the text of each sentence, its entities with their numbers, and its relations."""
    for document in CORPUS[split]:
        for words in document["sentences"]:
            start, end = words[0][0], words[-1][1]
            entities = [(i, e) for i, e in enumerate(document["entities"]) if start <= e["start"] < end]
            numbers = {i for i, _ in entities}
            relations = [r for r in document["relations"] if r["head"] in numbers]
            yield document["text"][start:end], entities, relations


def span(entity: Record) -> tuple[int, int]:
    return entity["start"], entity["end"]


def nests(entities: list[tuple[int, Record]]) -> bool:
    spans = {span(e) for _, e in entities}
    return any(a != b and a[0] <= b[0] and b[1] <= a[1] for a in spans for b in spans)


def repeats_a_span(entities: list[tuple[int, Record]]) -> bool:
    return len({span(e) for _, e in entities}) < len(entities)


def shares_a_subject(relations: list[Record]) -> bool:
    return any(count > 1 for count in Counter(r["head"] for r in relations).values())


def test_schema_is_alphabetical_and_complete() -> None:
    assert list(SCHEMA.entity_types) == ["Organization", "Person", "Place", "Product", "Role"]
    assert list(SCHEMA.relation_types) == sorted(ARGUMENTS)
    assert SCHEMA.symmetric == {"partner-of"}


@pytest.mark.parametrize("split", SPLITS)
def test_relations_stay_in_a_sentence_and_fit_their_types(split: str) -> None:
    for document in CORPUS[split]:
        entities = document["entities"]
        ends = [words[-1][1] for words in document["sentences"]]
        seen = set()
        for relation in document["relations"]:
            head, tail = entities[relation["head"]], entities[relation["tail"]]
            assert relation["head"] >= 0
            assert relation["tail"] >= 0
            assert relation["head"] != relation["tail"]
            sentence = [next(i for i, end in enumerate(ends) if e["end"] <= end) for e in (head, tail)]
            assert sentence[0] == sentence[1], (document["id"], relation)
            assert (head["label"], tail["label"]) in ARGUMENTS[relation["label"]], (document["id"], relation)
            if relation["label"] in SCHEMA.symmetric:
                assert span(head) < span(tail), (document["id"], relation)
            key = (relation["head"], relation["label"], relation["tail"])
            assert key not in seen, (document["id"], relation)
            seen.add(key)


def test_no_sentence_occurs_twice() -> None:
    texts = Counter(text for split in SPLITS for text, _, _ in sentences(split))
    assert [text for text, count in texts.items() if count > 1] == []


def test_split_sizes() -> None:
    total = sum(len(CORPUS[split]) for split in SPLITS)
    assert sum(len(list(sentences(split))) for split in SPLITS) >= 240
    assert 0.65 <= len(CORPUS["train"]) / total <= 0.75
    for split in ("dev", "test"):
        assert 0.12 <= len(CORPUS[split]) / total <= 0.18


@pytest.mark.parametrize("split", SPLITS)
def test_every_split_has_every_phenomenon(split: str) -> None:
    found = list(sentences(split))
    alone = [
        i
        for _, entities, relations in found
        for i, _ in entities
        if all(i not in (r["head"], r["tail"]) for r in relations)
    ]
    assert any(nests(entities) for _, entities, _ in found)
    assert any(repeats_a_span(entities) for _, entities, _ in found)
    assert any(not entities for _, entities, _ in found)
    assert alone
    assert any(shares_a_subject(relations) for _, _, relations in found)
    assert any(len(document["sentences"]) > 1 for document in CORPUS[split])
    texts = [text for text, _, _ in found]
    assert any(c.isalpha() and not c.isascii() for text in texts for c in text)
    assert any(ord(character) >= 0x2600 for text in texts for character in text)  # an emoji
    assert any(re.search(r"\w-\w", text) for text in texts)
    assert any(re.search(r"\w['’]s\b", text) for text in texts)
    assert any(re.search(r"\d", text) for text in texts)
    assert any(re.search(r"[(\[]", text) for text in texts)


@pytest.mark.parametrize(("split", "least"), [("train", 25), ("dev", 5), ("test", 5)])
def test_label_balance(split: str, least: int) -> None:
    entities = Counter(e["label"] for document in CORPUS[split] for e in document["entities"])
    relations = Counter(r["label"] for document in CORPUS[split] for r in document["relations"])
    assert set(entities) == set(SCHEMA.entity_types)
    assert set(relations) == set(SCHEMA.relation_types)
    assert min(entities.values()) >= least
    assert min(relations.values()) >= least


def test_readme_counts_are_right() -> None:
    readme = (NEWS.parent / "README.md").read_text(encoding="utf-8")
    counts = {}
    for split in SPLITS:
        counts[split] = Counter(
            a["label"] for d in CORPUS[split] for part in ("entities", "relations") for a in d[part]
        )
        counts[split]["documents"] = len(CORPUS[split])
        counts[split]["sentences"] = sum(len(d["sentences"]) for d in CORPUS[split])
        counts[split]["words"] = sum(len(words) for d in CORPUS[split] for words in d["sentences"])
    for name in counts["train"]:
        row = [counts[split][name] for split in SPLITS]
        assert f"| {name} | {row[0]} | {row[1]} | {row[2]} | {sum(row)} |" in readme, name
