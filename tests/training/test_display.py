import io

from rich.console import Console
from tests.twelve_sentences import SCHEMA, SENTENCES

from cascade_srn.evaluation.scores import score
from cascade_srn.training.display import (
    comparison_table,
    describe_failure,
    describe_in_words,
    describe_scores,
    display,
    line,
    scores_table,
)
from cascade_srn.training.progress import TrainingProgress

SCORES = score(SENTENCES, SENTENCES, schema=SCHEMA)


def _progress(**changes):
    values = {
        "epoch": 2, "epochs": 4, "loss": 3.0, "step": 50, "steps": 100, "epoch_done": False,
        "parts": {"entity": 2.0, "total": 2.5},
        "seconds": 120.0,
        "words_per_second": 1234.5,
    }  # fmt: skip
    return TrainingProgress(**(values | changes))


def test_a_line():
    assert line(_progress()) == "epoch 2/4  step 50/100  loss 2.500  1,234 words/s  2 min left"
    done = line(_progress(dev=SCORES, best=True, step=100, finished=True))
    assert done == (
        "epoch 2/4  step 100/100  loss 2.500  dev: NER 100.0, RE strict, directed 100.0 (best so far)  "
        "1,234 words/s  done"
    )
    nothing = score(SENTENCES, [s.annotated((), ()) for s in SENTENCES], schema=SCHEMA)
    assert "RE strict, directed 0.0  1,234 words/s" in line(_progress(dev=nothing, best=True))


def _file():
    return Console(file=io.StringIO(), width=120, soft_wrap=True)


def test_files_get_a_line_for_epochs_and_evaluations():
    console = _file()
    with display(console) as shown:
        for changes in ({"step": 1}, {"step": 2, "epoch_done": True}, {"step": 3}, {"step": 4, "dev": SCORES}):
            shown.step(changes["step"])
            shown.progress(_progress(**changes))
    lines = console.file.getvalue().splitlines()
    assert [text.split("  ")[1] for text in lines] == ["step 2/100", "step 4/100"]


def test_tables_of_one_run_and_of_several():
    half = score(SENTENCES, [s.annotated(s.entities, ()) for s in SENTENCES], schema=SCHEMA)
    one, two = {"dev": SCORES.to_dict()}, {"dev": half.to_dict()}
    console = _file()
    console.print(scores_table([one]))
    console.print(scores_table([one, two]))
    text = console.file.getvalue()
    assert "RE strict, directed, micro" in text
    assert "mean ± standard deviation over 2 seeds" in text
    assert "50.0 ± 70.7" in text
    assert "100.0 ± 0.0" in text
    assert "test" not in text


def test_without_scores_there_is_a_sentence():
    assert "data.dev" in describe_scores([{"seed": 0}, {"seed": 1}])
    assert not isinstance(describe_scores([{"dev": SCORES.to_dict()}]), str)


def test_advice_for_runs_without_a_correct_prediction():
    nothing = score(SENTENCES, [s.annotated((), ()) for s in SENTENCES], schema=SCHEMA).to_dict()
    good, bad = {"dev": SCORES.to_dict()}, {"dev": nothing}
    assert "training.epochs" in describe_failure([{"seed": 0, **bad}])
    assert "seed 1 " in describe_failure([{"seed": 0, **good}, {"seed": 1, **bad}])
    assert "seeds 0, 1 " in describe_failure([{"seed": 0, **bad}, {"seed": 1, **bad}])
    assert describe_failure([{"seed": 0, **good}]) == describe_failure([{"seed": 0}]) == ""
    only_entities = score(SENTENCES, [s.annotated(s.entities, ()) for s in SENTENCES], schema=SCHEMA)
    assert describe_failure([{"seed": 0, "dev": only_entities.to_dict()}]) == ""


def _summary(ner, strict):
    figures = {"ner": ner, "re_boundaries": strict, "re_strict": strict}
    return {
        "symmetric": "directed",
        **{task: {"micro": dict.fromkeys(("precision", "recall", "f1"), value)} for task, value in figures.items()},
    }


def test_teacher_and_student_side_by_side():
    out = io.StringIO()
    teacher = {"dev": _summary(0.7, 0.4), "test": _summary(0.68, 0.38)}
    students = [
        {"dev": _summary(0.6, 0.3), "test": _summary(0.5, 0.2)},
        {"dev": _summary(0.62, 0.3), "test": _summary(0.5, 0.2)},
    ]
    Console(file=out, width=100).print(comparison_table(teacher, students))
    cells = [[cell.strip() for cell in row.split("│")[1:-1]] for row in out.getvalue().splitlines() if "micro" in row]
    assert cells[0] == ["dev", "NER, micro", "70.0", "61.0 ± 1.4"]
    assert cells[3] == ["test", "NER, micro", "68.0", "50.0 ± 0.0"]
    assert cells[5] == ["", "RE strict, directed, micro", "38.0", "20.0 ± 0.0"]


def _run_summary(precision, recall, by_label, sentences=40, n_relations=5):
    ner, strict = ({"micro": {"precision": precision, "recall": recall, "n_gold": n}} for n in (9, n_relations))
    return {"dev": {"ner": ner, "re_strict": strict}, "data": {"train": {"sentences": sentences, "by_label": by_label}}}


def test_scores_in_words():
    words = describe_in_words(_run_summary(0.41, 0.33, {"Party": 60, "OWES": 3}))
    assert "Of ten relations that the model reports, 4 are right; of ten in the text it finds 3." in words
    assert "rare labels would help most: OWES (3)." in words
    words = describe_in_words(_run_summary(1.0, 0.1, {"Party": 60}, n_relations=0))
    assert "nearly all are right; of ten in the text it finds one." in words
    assert "relations" not in words
    assert "More annotated sentences than these 40" in words
    assert "raw text" in describe_in_words(_run_summary(0.6, 0.6, {"Party": 600}, sentences=900))
    assert describe_in_words({"data": {}}) == ""
