"""The example corpus for Label Studio has the properties that its README states."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from cascade_srn import read_documents

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SPLITS = ("train", "test")
ARGUMENTS = {"amount-of": ("Quantity", "Food"), "goes-in": ("Food", "Utensil"), "takes": ("Food", "Duration")}
TASKS = {split: json.loads((EXAMPLES / "kitchen" / f"{split}.json").read_text(encoding="utf-8")) for split in SPLITS}


@pytest.fixture(scope="module", params=SPLITS)
def split(request):
    return request.param


@pytest.fixture(scope="module")
def stream(split):
    stream = read_documents(EXAMPLES / "kitchen" / f"{split}.json")
    stream.documents = list(stream)
    return stream


def test_it_is_read_without_loss(stream, split):
    assert stream.format == "label-studio"
    assert not stream.report.skipped
    assert not stream.report.noted
    results = [item for task in TASKS[split] for item in task["annotations"][0]["result"]]
    n_items = sum(len(document.entities) + len(document.relations) for document in stream.documents)
    assert n_items == len(results)


def test_relations_have_their_types(stream):
    for document in stream.documents:
        for relation in document.relations:
            assert (relation.head.label, relation.tail.label) == ARGUMENTS[relation.label]


def test_every_quantity_and_duration_has_a_relation(stream):
    for document in stream.documents:
        related = {id(end) for relation in document.relations for end in (relation.head, relation.tail)}
        for entity in document.entities:
            assert entity.label not in ("Quantity", "Duration") or id(entity) in related, entity


def test_no_note_occurs_twice():
    texts = [task["data"]["text"] for split in SPLITS for task in TASKS[split]]
    assert len(set(texts)) == len(texts)


def test_the_readme_has_the_counts(stream, split):
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8").partition("# Example corpus: kitchen")[2]
    rows = dict(re.findall(r"^\| (\S+) \| (\d+ \| \d+) \|$", readme, re.MULTILINE))
    stated = {name: int(counts.split(" | ")[SPLITS.index(split)]) for name, counts in rows.items()}
    found = Counter(item.label for document in stream.documents for item in (*document.entities, *document.relations))
    sentences = [sentence for document in stream.documents for sentence in document.sentences]
    found |= {"tasks": len(stream.documents), "sentences": len(sentences), "words": sum(map(len, sentences))}
    assert stated == found
