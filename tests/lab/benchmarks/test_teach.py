"""The simulated teacher and its benchmark: asked errors, repetition, checking, going on, table and plot."""

import json
from functools import cache
from pathlib import Path

import pytest
from tests.lab.benchmarks.test_few_shot import F1, options, trainings_that_end_with

from cascade_srn import Document, Sentence, Span, Triple, write_documents
from cascade_srn.apps.annotation.worker import DEV_SHARE, FEW_SHOT_THRESHOLDS
from cascade_srn.errors import ConfigError, DataError
from cascade_srn.evaluation.scores import score_documents
from cascade_srn.lab.benchmarks import trainings
from cascade_srn.lab.benchmarks.options import ALL, TeachOptions
from cascade_srn.lab.benchmarks.simulated_teacher import (
    Quality,
    SimulatedTeacher,
    correct,
    doubtful,
    label_share,
)
from cascade_srn.lab.benchmarks.teach import Teach, plot_teach
from cascade_srn.lab.benchmarks.workload import read_corpus
from cascade_srn.training.recipe import load_recipe

LEVEL = "80/75+50/40"


@cache
def corpus():
    return read_corpus(None, 500)


def teacher(level=LEVEL, seed=0, repeated=0.7):
    return SimulatedTeacher(Quality.parse(level), corpus().schema, seed=seed, repeated=repeated)


def scores(gold, predicted):
    return score_documents(gold, predicted, schema=corpus().schema)


@pytest.mark.parametrize("level", ["90/85+70/60", LEVEL, "45/44+12/9"])
def test_labels_have_the_asked_precision_and_recall(level):
    gold = corpus().documents
    quality = Quality.parse(level)
    for number in (0, 1):
        found = scores(gold, teacher(level).answer(gold, number))
        assert found.ner.counts.precision == pytest.approx(quality.entity_precision, abs=0.01)
        assert found.ner.counts.recall == pytest.approx(quality.entity_recall, abs=0.01)
        assert found.re_strict.counts.precision == pytest.approx(quality.relation_precision, abs=0.01)
        assert found.re_strict.counts.recall == pytest.approx(quality.relation_recall, abs=0.01)


def test_errors_are_of_all_kinds():
    gold = corpus().documents
    answer = teacher().answer(gold)
    pairs = [pair for g, a in zip(gold, answer, strict=True) for pair in zip(g.sentences, a.sentences, strict=True)]
    n_retyped = n_moved = n_spurious = n_turned = n_relabelled = 0
    for right, given in pairs:
        right_places = {(span.start, span.end) for span in right.entities}
        for span in set(given.entities) - set(right.entities):
            overlaps = any(span.start < other.end and other.start < span.end for other in right.entities)
            n_retyped += (span.start, span.end) in right_places
            n_moved += overlaps and (span.start, span.end) not in right_places
            n_spurious += not overlaps
        for triple in set(given.triples) - set(right.triples):
            n_turned += Triple(triple.tail, triple.label, triple.head) in right.triples
            n_relabelled += any((t.head, t.tail) == (triple.head, triple.tail) for t in right.triples)
    n_wrong = scores(gold, answer).ner.counts
    n_wrong = n_wrong.n_predicted - n_wrong.n_correct
    assert n_spurious == pytest.approx(n_wrong / 2, abs=1)
    assert n_retyped > n_moved > 5
    assert min(n_relabelled, n_turned) > 5


def test_same_seed_same_labels_and_second_answers_repeat_a_share():
    gold = corpus().documents[:100]
    answer = teacher().answer(gold)
    assert teacher().answer(gold) == answer
    assert teacher(seed=1).answer(gold) != answer
    assert teacher(repeated=1.0).answer(gold, 1) == answer
    agreements = [scores(answer, teacher(repeated=share).answer(gold, 1)).ner.counts.f1 for share in (0, 0.7)]
    assert agreements[0] < agreements[1] < 1
    perfect = scores(gold, teacher("100/100+100/100").answer(gold))
    assert perfect.ner.counts.f1 == perfect.re_strict.counts.f1 == 1


def test_a_small_corpus_without_room_for_errors():
    sentence = Sentence.from_words(["Oslo"], [Span(0, 1, "Place")])
    (answer,) = teacher("50/100+50/50").answer([Document.from_sentences([sentence])])
    assert answer.sentences == (sentence,)


def test_checking_restores_gold_where_answers_differ():
    gold = corpus().documents
    answers = [teacher().answer(gold, number) for number in (0, 1)]
    assert correct(answers[0], gold, range(len(gold))) == gold
    assert correct(answers[0], gold, ()) == answers[0]
    positions = doubtful(answers, 0.1)
    assert len(positions) == round(len(gold) / 10)
    checked = correct(answers[0], gold, positions)
    for at, document in enumerate(checked):
        assert document == (gold[at] if at in positions else answers[0][at])
    # Doubt finds more errors than chance.
    by_chance = correct(answers[0], gold, range(len(positions)))
    assert scores(gold, checked).ner.counts.f1 > scores(gold, by_chance).ner.counts.f1
    assert label_share(gold, positions) > 0.1
    assert label_share(gold, range(len(gold))) == 1


@pytest.fixture
def field(tmp_path):
    for split in ("train", "dev"):
        write_documents(corpus().documents[:120], tmp_path / f"field-{split}.jsonl")
    return tmp_path


def make(folder, **changes):
    values = options(folder).to_dict() | {"sizes": ("20", "110", "500"), "teachers": (LEVEL,)} | changes
    return TeachOptions(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})


@pytest.mark.slow
def test_trainings_of_a_project_scored_on_dev(field, monkeypatch):
    run = trainings_that_end_with(0)
    recipes = []

    def running(commands, *others):
        recipes.extend(load_recipe(command[1]) for command in commands.values())
        yield from run(commands, *others)

    monkeypatch.setattr(trainings, "run_parallel", running)
    path = field / "results.json"
    result = Teach.run_all(make(field), path=path)
    shown = [(row["size"], row["labels"]) for row in result.rows]
    labels = ("gold", LEVEL, f"{LEVEL} checked")
    # The corpus has no 500 sentences.
    assert shown == [(size, by) for size in ("20", "110") for by in labels]
    for recipe in recipes:
        assert Path(recipe.data.test).name == "field-dev.jsonl"
    assert recipes[0].data.dev is None
    assert recipes[0].model.thresholds.to_dict().items() >= FEW_SHOT_THRESHOLDS.items()
    assert recipes[-1].data.dev == DEV_SHARE
    gold, answer, checked = (row["trainings"][0] for row in result.rows[-3:])
    assert gold["dev"] == answer["dev"] == F1
    assert "teacher" not in gold
    assert answer["teacher"] == answer["labels"] == checked["teacher"]
    assert checked["labels"]["ner"] > answer["labels"]["ner"]
    assert checked["checked"]["sentences"] == 11
    # Only what another share of checked sentences changes is trained again.
    stored = path.read_text(encoding="utf-8")
    Teach.run_all(make(field), path=path)
    assert len(run.sizes) == 6
    assert path.read_text(encoding="utf-8") == stored
    Teach.run_all(make(field, checked=0.5), path=path)
    assert len(run.sizes) == 8
    # Without a person, on all sentences, or from a random encoder.
    changes = {"checked": 0.0, "sizes": (ALL,), "encoders": ("fresh",)}
    rows = Teach.run_all(make(field, **changes), path=field / "other.json").rows
    assert [row["labels"] for row in rows] == ["gold", LEVEL]


@pytest.mark.parametrize(
    "changes",
    [{"checked": 1.5}, {"repeated": -0.1}, {"teachers": ("80/75",)}, {"teachers": ("0/75+50/40",)}, {"epochs": -1}],
)
def test_options_that_are_refused(field, changes):
    with pytest.raises(ConfigError):
        Teach.run_all(make(field, **changes))


def test_sizes_that_no_corpus_has(field):
    with pytest.raises(DataError, match="most: 120"):
        Teach.run_all(make(field, sizes=("500",)))


def test_table_and_plot(tmp_path):
    score = dict.fromkeys(F1, 0.25)
    rows = [
        {"corpus": "news", "size": "50", "start": "my model", "labels": labels, "trainings": [
            {"seed": 0, "sentences": 50, "dev": score} | more
        ]}
        for labels, more in (("gold", {}), (LEVEL, {"teacher": F1, "labels": F1}),
                             (f"{LEVEL} checked", {"teacher": F1, "labels": score}))
    ]  # fmt: skip
    shown = [[column.show(row) for column in Teach.COLUMNS[3:]] for row in rows]
    assert shown == [
        ["gold", "1", "–", "–", "–", "–", "25.0", "25.0"],
        [LEVEL, "1", "50.0", "12.5", "50.0", "12.5", "25.0", "25.0"],
        [f"{LEVEL} checked", "1", "50.0", "12.5", "25.0", "25.0", "25.0", "25.0"],
    ]
    pytest.importorskip("matplotlib")
    plot_teach(json.loads(json.dumps({"rows": rows})), tmp_path / "teach.svg")
    picture = (tmp_path / "teach.svg").read_text(encoding="utf-8")
    assert all(name in picture for name in ("news, 50 sentences", "human labels", "not checked", "a person checks"))
