"""An analysis of the example corpus with errors of every kind."""

from functools import cache
from pathlib import Path
from random import Random

from cascade_srn import read_documents
from cascade_srn.evaluation.analysis import analyse
from cascade_srn.formats.schema_file import read_schema
from cascade_srn.types import Document, Span, Triple

NEWS = Path(__file__).parents[3] / "examples" / "news"


@cache
def example(symmetric="directed", entities="predicted", n_documents=None):
    """Return the analysis, which is deterministic."""
    gold = list(read_documents(NEWS / "test.jsonl"))[:n_documents]
    schema = read_schema(NEWS / "schema.json")
    random = Random(0)
    predicted = [
        Document(d.text, tuple(_with_errors(s, schema, random, entities == "gold") for s in d.sentences), d.id)
        for d in gold
    ]
    return analyse(
        gold,
        predicted,
        schema=schema,
        symmetric=symmetric,
        entities=entities,
        training_documents=read_documents(NEWS / "train.jsonl"),
        about={"model": "a model & more", "data": "examples/news"},
    )


def _with_errors(sentence, schema, random, given):
    found = {}
    for entity in sentence.entities:
        rng = 1.0 if given else random.random()
        start, end, label = entity.start, entity.end, entity.label
        if rng < 0.15:
            continue
        if rng < 0.3:
            label = random.choice(schema.entity_types)
        elif rng < 0.4 and end < len(sentence):
            end += 1
        changed = Span(start, end, label, None if given else 0.5 + random.random() / 2)
        if changed not in found.values():
            found[entity] = changed
    triples = []
    for triple in sentence.triples:
        rng = random.random()
        if rng < 0.2 or triple.head not in found or triple.tail not in found:
            continue
        head, tail = found[triple.head], found[triple.tail]
        label = random.choice(schema.relation_types) if rng < 0.35 else triple.label
        if 0.35 < rng < 0.45:
            head, tail = tail, head
        triples.append(Triple(head, label, tail, 0.3 + 0.7 * random.random()))
    entities = list(found.values())
    if not given and random.random() < 0.2:
        extra = Span(len(sentence) - 1, len(sentence), schema.entity_types[0], 0.9)
        entities += [extra] * (extra not in entities)
    return sentence.annotated(entities, triples)
