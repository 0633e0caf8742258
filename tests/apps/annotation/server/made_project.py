"""A project of made-up texts with suggestions, and a service of it on its own port."""

import json
from contextlib import contextmanager

from tests.apps.web.live_app import run_app

from cascade_srn import Document
from cascade_srn.apps.annotation.annotations import ProjectLabels
from cascade_srn.apps.annotation.project import Project
from cascade_srn.apps.annotation.server.app import create_annotator
from cascade_srn.text.segment import segment
from cascade_srn.types import Sentence

LABELS = {
    "entities": {
        "Method": "A model, algorithm or technique.",
        "Task": "A problem to solve.",
        "Material": "A data set or another resource.",
        "Metric": "A measure of quality.",
    },
    "relations": {
        "USED-FOR": "The head is used for the tail.",
        "EVALUATE-FOR": "The head evaluates the tail.",
        "COMPARE": {"definition": "Two things are compared.", "symmetric": True},
    },
}
GUIDELINES = """# What to annotate

Mark **every** mention, without articles.

- Names of models and algorithms are *methods*.
- Measures such as `F1` are metrics.

## Relations

Relate entities of one sentence only.
"""
TEXTS = {
    "parsing": (
        "We train a graph parser with beam search for semantic parsing. On a new treebank of recipes, the parser "
        "improves labelled attachment over a transition system. It needs no hand-written grammar."
    ),
    "tagging": (
        "A conditional random field tags Finnish news with named entities. Its F1 rises when we add subword features. "
        "The tagger is compared with a long short-term memory network."
    ),
    "translation": (
        "Neural machine translation of low-resource languages profits from back-translation. We measure BLEU on a "
        "corpus of folk tales. Human judges prefer the new system."
    ),
    "emoji": "👩‍🚀🚀 Word vectors help sentiment analysis 😀 of naïve cafe\u0301 reviews.",
    "markup": "<img/src=x onerror=boom()> is a tag & <script/x>boom()</script/x> is not a method.",
    "weather": "The weather was mild all week.",
    **{f"short-{n}": f"A small classifier number {n} solves question answering on trivia data." for n in range(1, 11)},
}
# Entities (phrase, label, score) and relations (head, label, tail, score) that the model suggests.
SUGGESTED = {
    "parsing": (
        [("graph parser", "Method", 0.93), ("beam search", "Method", 0.88), ("semantic parsing", "Task", 0.96),
         ("treebank of recipes", "Material", 0.71), ("labelled attachment", "Metric", 0.84), ("grammar", "Task", 0.31)],
        [("graph parser", "USED-FOR", "semantic parsing", 0.82), ("beam search", "USED-FOR", "graph parser", 0.55)],
    ),
    "emoji": ([("Word vectors", "Method", 0.9), ("sentiment analysis", "Task", 0.9)],
              [("Word vectors", "USED-FOR", "sentiment analysis", 0.8)]),
}  # fmt: skip


def make_documents(texts=TEXTS):
    """Return the texts as documents without annotations."""
    return [_document(id, text) for id, text in texts.items()]


def _document(id, text):
    offsets = [tuple(map(tuple, words)) for words in segment(text)]
    sentences = tuple(Sentence(tuple(text[low:high] for low, high in pairs), pairs) for pairs in offsets)
    return Document(text, sentences, id)


def create_project(folder, *, labels=LABELS, texts=TEXTS, suggested=SUGGESTED, guidelines=GUIDELINES, **options):
    """Create a project with suggestions."""
    project = Project.create(
        folder, make_documents(texts), ProjectLabels.from_dict(labels), guidelines=guidelines, **options
    )
    with project:
        write_suggestions(folder, suggested, texts)
    return folder


def write_suggestions(folder, suggested, texts=TEXTS, name="run-00001"):
    """Write suggestions as a model would."""
    lines = []
    for id, (entities, relations) in suggested.items():
        ids = {phrase: f"s{n}" for n, (phrase, _, _) in enumerate(entities)}
        marks = [
            {"id": ids[phrase], "start": texts[id].index(phrase), "end": texts[id].index(phrase) + len(phrase),
             "label": label, "score": score}
            for phrase, label, score in entities
        ]  # fmt: skip
        links = [
            {"id": f"t{n}", "head": ids[head], "tail": ids[tail], "label": label, "score": score}
            for n, (head, label, tail, score) in enumerate(relations)
        ]
        lines.append(json.dumps({"id": id, "entities": marks, "relations": links}))
    (folder / "suggestions").mkdir(exist_ok=True)
    (folder / "suggestions" / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@contextmanager
def live_project(folder, settings=None):
    """Serve a project for the duration of the block, and yield a client."""
    with run_app(create_annotator(Project.open(folder), settings), settings) as (_, client):
        yield client
