import json
import re

import pytest
from tests.small_models import small_encoder

from cascade_srn.config import ModelSettings
from cascade_srn.errors import DataError
from cascade_srn.formats.registry import write_documents
from cascade_srn.model.model import Model
from cascade_srn.training.corpus import read_corpus
from cascade_srn.training.preflight import preflight, require_entities
from cascade_srn.training.recipe import DataSettings
from cascade_srn.types import Document, Sentence, Span, Triple


def _sentence(text, entities=(), triples=()):
    spans = [Span(*entity) for entity in entities]
    return Sentence.from_words(text.split(), spans, [Triple(spans[a], label, spans[b]) for a, label, b in triples])


GOOD = _sentence("a parser needs data", [(1, 2, "Thing"), (3, 4, "Thing")], [(0, "needs", 1)])
OTHER = _sentence("systems need a parser", [(0, 1, "Thing")])
ANOTHER = _sentence("data", [(0, 1, "Thing")])


def _found(tmp_path, train, dev=(), *, encoder=(), model=(), **data):
    """The findings for documents, each a list of sentences. ``dev`` may be a share of train."""
    paths = {}
    for split, documents in (("train", train), ("dev", dev)):
        if isinstance(documents, float):
            paths[split] = documents
        elif documents:
            paths[split] = str(tmp_path / f"{split}.jsonl")
            whole = [Document.from_sentences(sentences, id=f"{split}-{i}") for i, sentences in enumerate(documents)]
            write_documents(whole, paths[split])
    corpus = read_corpus(DataSettings.from_dict({**paths, **data}))
    settings = ModelSettings.from_dict(
        {"encoder": {"name": small_encoder(), **dict(encoder)}, "hidden_width": 4, "matcher_width": 4, **dict(model)}
    )
    return preflight(Model.create(settings, corpus.schema), corpus)


def _counts(report):
    return {(finding.split, finding.problem): finding.count for finding in report.findings}


def test_nothing_to_report(tmp_path):
    report = _found(tmp_path, [[GOOD]], [[OTHER]])
    assert report.findings == ()
    assert report.to_dict() == {"notes": list(report.notes), "findings": []}
    assert str(report).splitlines()[1:-1] == [f"  {note}" for note in report.notes]


def test_what_was_read(tmp_path):
    train, dev, *_ = _found(tmp_path, [[GOOD], [OTHER]], [[OTHER]]).notes
    assert train == "train: 2 documents, 2 sentences, 3 entities, 1 relations"
    assert dev.startswith("dev: 1 ")


def test_dev_is_missing(tmp_path):
    *_, note = _found(tmp_path, [[GOOD]]).notes
    assert note.startswith("dev: missing")
    assert "data.dev=0.1" in note


def test_dev_is_held_out(tmp_path):
    train, dev, *_ = _found(tmp_path, [[GOOD], [OTHER], [ANOTHER]], 0.3).notes
    assert train.startswith("train: 2 documents")
    assert dev.startswith("dev: 1 documents")
    assert "held out" in dev


def test_sentences_without_words(tmp_path):
    empty = _sentence("")
    report = _found(tmp_path, [[GOOD, empty], [empty]], [[OTHER, empty]])
    assert _counts(report) == {("train", "sentence without words"): 2, ("dev", "sentence without words"): 1}


def test_entities_that_cross(tmp_path):
    crossing = _sentence("neural speech systems need data", [(0, 2, "Thing"), (1, 3, "Thing"), (1, 2, "Task")])
    report = _found(tmp_path, [[GOOD, crossing]])
    assert _counts(report) == {("train", "pair of entities that cross"): 1}
    assert (
        "(first: Thing 'neural speech' in document 'train-0', sentence 1 ('neural speech systems need data') and "
        "Thing 'speech systems')" in str(report)
    )


def test_relations_of_several_entities_on_the_same_words(tmp_path):
    twice = _sentence(
        "a parser needs data",
        [(1, 2, "Thing"), (1, 2, "Task"), (3, 4, "Thing")],
        [(0, "needs", 2), (1, "needs", 2), (1, "needs", 0)],
    )
    report = _found(tmp_path, [[GOOD], [twice]])
    problem = "relation of a second entity on the same words"
    assert _counts(report) == {("train", problem): 1}


def test_words_that_the_tokenizer_drops_or_does_not_know(tmp_path):
    # The vocabulary has Latin letters only; a zero-width space is dropped by the normaliser.
    odd = Sentence.from_words(
        ["a", "parser", "\u200b", "学", "data", "学"], [Span(1, 4, "Thing"), Span(2, 4, "Thing"), Span(5, 6, "Task")]
    )
    report = _found(tmp_path, [[GOOD, odd]])
    assert _counts(report) == {
        ("train", "word that the tokenizer drops"): 1,
        ("train", "word that the tokenizer does not know"): 2,
        ("train", "entity of nothing but words that the tokenizer drops or does not know"): 2,
    }


def test_sentences_past_the_limit_and_entities_across_windows(tmp_path):
    words = ["parser", "needs", "data"] * 10
    long = Sentence.from_words(words, [Span(0, 30, "Thing"), Span(3, 4, "Thing")])
    report = _found(tmp_path, [[GOOD, long]], encoder={"max_pieces": 16})
    problems = [problem for _, problem in _counts(report)]
    assert problems == [
        "sentence longer than the encoder's window of 14 pieces",
        "entity read from more than one window",
    ]
    assert set(_counts(report).values()) == {1}
    assert not _found(tmp_path, [[GOOD, long]]).findings


def test_labels_that_train_does_not_have(tmp_path):
    odd = _sentence("accuracy measures data", [(0, 1, "Metric"), (2, 3, "Thing")], [(0, "measures", 1)])
    report = _found(tmp_path, [[GOOD]], [[odd, odd]])
    assert _counts(report) == {
        ("train", "entity type without an example"): 1,
        ("train", "relation type without an example"): 1,
        ("dev", "entity of a type that train does not have"): 2,
        ("dev", "relation of a type that train does not have"): 2,
    }
    assert "type 'Metric'" in str(report)


def test_sentences_of_train_in_dev(tmp_path):
    report = _found(tmp_path, [[GOOD], [OTHER]], [[OTHER.annotated((), ())], [ANOTHER]])
    assert _counts(report) == {("dev", "sentence that is also in train"): 1}
    assert "sentence 0 ('systems need a parser')" in str(report)


def test_single_sentences_with_context_words(tmp_path):
    documents = [[GOOD], [OTHER, GOOD]]
    assert not _found(tmp_path, documents).findings
    report = _found(tmp_path, documents, encoder={"context_words": 5})
    assert _counts(report) == {("train", "document of a single sentence"): 1}
    assert "first: document 'train-0'" in str(report)


def test_malformed_annotations(tmp_path):
    record = {
        "id": "bad",
        "text": "a parser",
        "words": [[[0, 1], [2, 8]]],
        "entities": [{"start": 2, "end": 8, "label": "Thing"}],
        "relations": [{"head": 0, "label": "needs", "tail": 7}],
    }
    (tmp_path / "bad.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    report = _found(tmp_path, [[GOOD]], dev=(), test=str(tmp_path / "bad.jsonl"), skip_malformed=True)
    ((split, problem), count) = next(iter(_counts(report).items()))
    assert (split, count) == ("test", 1)
    assert problem.startswith("malformed relation")


def test_unknown_fields(tmp_path):
    entity = {"start": 2, "end": 8, "label": "Thing"}
    record = {"id": "odd", "text": "a parser", "words": [[[0, 1], [2, 8]]], "entites": [entity], "entities": [entity]}
    (tmp_path / "odd.jsonl").write_text(f"{json.dumps(record)}\n" * 4, encoding="utf-8")
    report = _found(tmp_path, [[GOOD]], dev=(), test=str(tmp_path / "odd.jsonl"))
    assert _counts(report)["test", "field 'entites' not read"] == 4
    assert "odd.jsonl, line 1" in str(report)


def _slips(tmp_path, labels, relations=()):
    """Return the findings for labels with the given numbers of examples."""
    sentences = [_sentence("a parser needs data", [(1, 2, label)]) for label, n in labels.items() for _ in range(n)]
    for label, n in dict(relations).items():
        sentences += [_sentence("a parser needs data", [(1, 2, "Thing"), (3, 4, "Thing")], [(0, label, 1)])] * n
    report = _found(tmp_path, [sentences])
    return [(f.problem, f.count, re.findall("'.*?'", f.consequence)[0]) for f in report.findings]


def test_misspelt_labels(tmp_path):
    found = _slips(tmp_path, {"Ingredient": 20, "Ingrediant": 2, "Tool": 1}, {"part-of": 12, "part_of": 1, "for": 1})
    assert found == [("entity of type 'Ingrediant'", 2, "'Ingredient'"), ("relation of type 'part_of'", 1, "'part-of'")]


@pytest.mark.parametrize("labels", [{"Thing": 19, "Thin": 2}, {"Thing": 40, "Thin": 3}, {"Thing": 40, "Tool": 1}])
def test_frequent_or_different_labels_are_not_misspelt(tmp_path, labels):
    assert _slips(tmp_path, labels) == []


def test_nothing_to_learn_is_refused(tmp_path):
    record = {"id": "odd", "text": "a parser", "words": [[[0, 1], [2, 8]]], "entites": "parser"}
    (tmp_path / "train.jsonl").write_text(f"{json.dumps(record)}\n" * 4, encoding="utf-8")
    write_documents([Document.from_sentences([GOOD], id="dev")], tmp_path / "dev.jsonl")
    paths = {split: str(tmp_path / f"{split}.jsonl") for split in ("train", "dev")}
    corpus = read_corpus(DataSettings.from_dict(paths))
    with pytest.raises(DataError, match=r"data.train, .*train.jsonl'.* 'entites' not read: 4 x"):
        require_entities(corpus)


def test_few_examples_are_listed_and_all_are_counted(tmp_path):
    report = _found(tmp_path, [[GOOD], *[[_sentence("")] for _ in range(7)]])
    (finding,) = report.to_dict()["findings"]
    assert finding["count"] == 7
    assert len(finding["examples"]) == 3
    json.dumps(report.to_dict())


def test_annotations_that_a_baseline_cannot_find(tmp_path):
    long = _sentence("a parser needs data", [(0, 4, "Thing"), (3, 4, "Thing")])
    model = {"method": "pipeline", "baseline": {"max_span_words": 2}}
    (finding,) = _found(tmp_path, [[GOOD], [long]], model=model).findings
    assert (finding.split, finding.count) == ("train", 1)
