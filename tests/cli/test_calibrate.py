import pytest
from tests.cli.conftest import run as run_command
from tests.evaluation.saved_models import DOCUMENTS, corpus, saved_model
from tests.small_models import SENTENCES, examples, small_model, spread_probabilities

from cascade_srn import Document, write_documents
from cascade_srn.config import Thresholds
from cascade_srn.evaluation.scores import score
from cascade_srn.model.model import Model


def run(*arguments):
    return run_command("calibrate", *arguments, "--device", "cpu")


@pytest.mark.slow
def test_before_and_after(tmp_path, capsys):
    model = spread_probabilities(small_model("swift"))
    model.save(tmp_path / "model")
    found = model.predictor(thresholds=Thresholds(0.3, 0.2, 0.25)).predict(examples(SENTENCES))
    documents = [Document.from_sentences([s], id=f"{i}-{n}") for n in range(2) for i, s in enumerate(found) if s.words]
    write_documents(documents, tmp_path / "data.jsonl")
    assert run(tmp_path / "model", tmp_path / "data.jsonl", "--output", tmp_path / "new", "--by-label") == 0
    shown = capsys.readouterr()
    chosen = Model.load(tmp_path / "new").settings.thresholds
    assert shown.out.startswith("micro F1 on these documents, before and after:\n  NER ")
    assert f"thresholds: entity {chosen.entity:g}, subject {chosen.subject:g}, object {chosen.object:g}" in shown.out
    assert chosen.entity_types
    assert all(f"{label} {value:g}" in shown.out for label, value in chosen.entity_types.items())
    assert "temperatures: entity " in shown.out
    assert shown.err == f"The model is in {tmp_path / 'new'}\n"


def test_nothing_to_change(tmp_path, capsys):
    write_documents(DOCUMENTS[2:3], tmp_path / "one.jsonl")
    assert run(saved_model(), tmp_path / "one.jsonl", "--output", tmp_path / "new") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("Nothing was changed")
    model = Model.load(tmp_path / "new")
    sentences = DOCUMENTS[2].sentences
    found = score(sentences, model.predictor().predict(examples(sentences)), schema=model.schema)
    assert [line.split()[-1] for line in shown[2:5]] == [
        f"{100 * task.counts.f1:.1f}" for task in (found.ner, found.re_boundaries, found.re_strict)
    ]
    assert [line.rsplit(maxsplit=1)[0].strip() for line in shown[2:5]] == ["NER", "RE boundaries", "RE strict"]
    chosen = model.settings.thresholds
    assert shown[5].startswith(f"thresholds: entity {chosen.entity:g}, subject {chosen.subject:g}, object ")
    assert shown[6].startswith("temperatures: entity 1")
    assert shown[7] == "overlaps: all"


@pytest.mark.parametrize(
    ("arguments", "data"),
    [
        (["nowhere", "DATA", "--output", "new"], "'nowhere'"),
        (["MODEL", "nowhere.jsonl", "--output", "new"], "nowhere.jsonl"),
        (["MODEL", "DATA"], "--output"),
        (["MODEL", "DATA", "--output", "new", "--align", "out"], "'out'"),
    ],
)
def test_errors(arguments, data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    known = {"MODEL": saved_model(), "DATA": corpus()}
    assert run(*(known.get(argument, argument) for argument in arguments)) == 2
    assert data in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
