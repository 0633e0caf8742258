"""Compare rules that choose thresholds, by cross-validation.

    python tools/choose_threshold_rule.py collect MODEL DATA OUT.npz [--device cuda]
    python tools/choose_threshold_rule.py compare OUT.npz … [--halves 50]

``collect`` runs a model on annotated documents that it was not trained on, and stores all candidates with low scores
included. The entities that turns 2 and 3 see depend on the threshold of turn 1, so these turns run once for each of a
series of thresholds (``LEVELS``). ``compare`` chooses thresholds on random halves of the documents of each file by each
rule, and scores them on the other halves.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cascade_srn.config import Temperatures, Thresholds
from cascade_srn.formats.registry import read_documents
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example, examples_of
from cascade_srn.storage.bundled import find_model

FLOOR = 0.02
# Thresholds of turn 1 without temperature, at equal distances of their logits.
LEVELS = tuple(float(f"{1 / (1 + np.exp(-logit)):.6f}") for logit in np.arange(-3.9, 3.0, 0.4))


def collect(model_name: str, data: str, output: Path, device: str) -> None:
    """Store candidates, their scores without temperature, and which of them are correct."""
    model = Model.load(find_model(model_name))
    model.network.to(torch.device(device))
    documents = list(read_documents(data))
    examples = examples_of(documents, model.settings.encoder.context_words)
    entity_types, relation_types = model.schema.entity_types, model.schema.relation_types
    columns: dict[str, list[Any]] = {"document": [n for n, d in enumerate(documents) for _ in d.sentences]}
    columns["n_words"] = [len(e.sentence) for e in examples]
    gold_entities = np.zeros((len(documents), len(entity_types)), dtype=np.int32)
    gold_relations = np.zeros((len(documents), len(relation_types)), dtype=np.int32)
    gold_boundaries = np.zeros((len(documents), len(relation_types)), dtype=np.int32)
    for document, example in zip(columns["document"], examples, strict=True):
        sentence = example.sentence
        for entity in set(sentence.entities):
            gold_entities[document, entity_types.index(entity.label)] += 1
        for triple in set(sentence.triples):
            gold_relations[document, relation_types.index(triple.label)] += 1
        for label in [label for _, label, _ in _boundaries(sentence.triples)]:
            gold_boundaries[document, relation_types.index(label)] += 1
    columns |= _entities_and_triples(model, examples)
    arrays = {name: np.array(values) for name, values in columns.items()}
    for name, values in arrays.items():
        kind = np.float32 if values.dtype.kind == "f" else np.int32 if values.dtype.kind == "i" else values.dtype
        arrays[name] = values.astype(kind)
    about = {"entity_types": entity_types, "relation_types": relation_types, "levels": LEVELS, "floor": FLOOR}
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as file:
        np.savez_compressed(
            file,
            about=np.array(json.dumps(about)),
            gold_entities=gold_entities,
            gold_relations=gold_relations,
            gold_boundaries=gold_boundaries,
            **arrays,
        )
    print(f"{output}: {len(documents)} documents, {len(arrays['entity_score'])} candidate entities")


def _entities_and_triples(model: Model, examples: list[Example]) -> dict[str, list[Any]]:
    names = "sentence start end label score correct"
    columns: dict[str, list[Any]] = {f"entity_{name}": [] for name in names.split()}
    names = "level head tail label subject object strict boundaries has_gold_subject"
    columns |= {f"triple_{name}": [] for name in names.split()}
    numbers: dict[tuple[int, Any], int] = {}
    for level, threshold in enumerate(LEVELS):
        thresholds = Thresholds(entity=threshold, subject=FLOOR, object=FLOOR)
        settings = replace(model.settings, thresholds=thresholds, temperatures=Temperatures())
        results = replace(model, settings=settings).predictor(precision="float32").predict_with_scores(examples)
        for n, (example, found) in enumerate(zip(examples, results, strict=True)):
            gold = example.sentence
            if not level:
                for entity in found.sentence.entities:
                    numbers[n, entity] = len(columns["entity_sentence"])
                    label = model.schema.entity_types.index(entity.label)
                    row = (n, entity.start, entity.end, label, entity.score, entity in gold.entities)
                    _append(columns, "entity_sentence", row)
            strict, boundaries = set(gold.triples), _boundaries(gold.triples)
            subjects = {(t.head.start, t.head.end) for t in gold.triples}
            for triple, subject, object_ in found.triples:
                head, tail = numbers.get((n, triple.head)), numbers.get((n, triple.tail))
                if head is None or tail is None:
                    # Rounding may move a score over the lowest level between two runs.
                    continue
                is_correct = triple in strict, not boundaries.isdisjoint(_boundaries([triple]))
                has_gold_subject = (triple.head.start, triple.head.end) in subjects
                label = model.schema.relation_types.index(triple.label)
                row = (level, head, tail, label, subject, object_, *is_correct, has_gold_subject)
                _append(columns, "triple_level", row)
    return columns


def _append(columns: dict[str, list[Any]], first: str, row: tuple[Any, ...]) -> None:
    """Append a row to the columns that begin with ``first``."""
    names = list(columns)
    for name, value in zip(names[names.index(first) :], row, strict=False):
        columns[name].append(value)


def _boundaries(triples: Any) -> set[Any]:
    return {((t.head.start, t.head.end), t.label, (t.tail.start, t.tail.end)) for t in triples}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect", help="run a model and store its candidates")
    collecting.add_argument("model")
    collecting.add_argument("data")
    collecting.add_argument("output", type=Path)
    collecting.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name, purpose in (("compare", "compare rules"), ("reliability", "compare maps of scores to probabilities")):
        comparing = commands.add_parser(name, help=f"{purpose} on files of collect")
        comparing.add_argument("files", type=Path, nargs="+")
        comparing.add_argument("--halves", type=int, default=20, help="number of random halves per file")
    options = parser.parse_args(arguments)
    if options.command == "collect":
        collect(options.model, options.data, options.output, options.device)
    else:
        # Imported here, because collecting also works with earlier versions of the package.
        from threshold_rules import compare_maps, compare_rules

        compare = compare_rules if options.command == "compare" else compare_maps
        print(compare(options.files, options.halves))
    return 0


if __name__ == "__main__":
    sys.exit(main())
