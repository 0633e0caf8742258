import json
import os
from pathlib import Path

import pytest
from tests.cli.conftest import failure as command_failure
from tests.cli.conftest import run as run_command
from tests.evaluation.saved_models import DOCUMENTS, corpus, cut_short, saved_model

from cascade_srn import write_documents


def run(*arguments):
    return run_command("evaluate", *arguments, "--device", "cpu")


def failure(capsys, *arguments):
    return command_failure(capsys, "evaluate", *arguments, "--device", "cpu")


def shown(capsys, *arguments):
    assert run(*arguments) == 0
    return capsys.readouterr().out


def test_one_model(capsys):
    text = shown(capsys, saved_model(), corpus())
    assert text.startswith("…/seed-0-0/best on ")
    for protocol in ("ner, micro", "ner, macro", "re_boundaries, directed, micro", "re_strict, directed, micro"):
        assert sum(line.startswith(protocol) for line in text.splitlines()) == 1
    assert "speed of this one run" in text
    assert "encoder in float32, batches of 4,096 words" in text


def test_unknown_fields_are_noted(tmp_path, capsys):
    lines = (json.loads(line) for line in Path(corpus()).read_text(encoding="utf-8").splitlines())
    odd = "".join(f"{json.dumps({**line, 'entites': [1]})}\n" for line in lines)
    (tmp_path / "odd.jsonl").write_text(odd, encoding="utf-8")
    for arguments in ([tmp_path / "odd.jsonl"], [corpus(), "--train", tmp_path / "odd.jsonl"]):
        assert run(saved_model(), *arguments) == 0
        (note,) = capsys.readouterr().err.splitlines()
        assert note.startswith("Note: 5 x field 'entites'")
        assert f"{tmp_path}/odd.jsonl" in note
    assert run(saved_model(), corpus()) == 0
    assert capsys.readouterr().err == ""


def test_options_reach_the_evaluation(capsys):
    options = ("--symmetric", "all", "--per-label", "--gold-entities", "--by", "nesting", "--resamples", "200")
    text = shown(capsys, saved_model(), saved_model(1), corpus(), *options, "--seed", "5")
    assert "…/seed-0-0/best minus …/seed-1-0/best: paired bootstrap, 200 resamples of 5 documents, seed 5" in text
    assert "re_strict, doubled, label compare, with gold entities" in text
    assert ", micro, nested, with gold entities" in text
    assert "ner" not in text.replace("corpus", "")


def test_overlaps(capsys):
    text = shown(capsys, saved_model(), corpus(), "--overlaps", "flat")
    assert text.splitlines()[0].endswith(", end to end, overlaps flat")


def test_against(capsys):
    both = ("--against", saved_model(1), "--against", saved_model(2), "--resample", "sentences", "--resamples", "100")
    text = shown(capsys, saved_model(), corpus(), *both)
    assert "against 2 models (mean ± standard deviation)" in text
    assert "resamples of 6 sentences and of the models of each side" in text


def test_from_text(tmp_path, capsys):
    text = shown(capsys, saved_model(), corpus(), "--from-text", "--by", "brackets", "--json", tmp_path / "scores.json")
    assert ", from text, overlaps " in text
    assert "re_strict, directed, micro, from text" in text
    assert "re_strict, directed, micro, without brackets, from text" in text
    assert "gold kept by the segmenter" in text
    record = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert record["condition"] == "from text"
    assert record["models"][0]["segmentation"]["found"]["entities"]["n_gold"] == 13


def test_noise(tmp_path, capsys):
    chosen = ("--noise", "capitals,ocr", "--report", tmp_path, "--seed", "1")
    text = shown(capsys, saved_model(), saved_model(1), corpus(), *chosen, "--resample", "sentences")
    assert ", from text, overlaps " in text
    rows = [line for line in text.splitlines() if line.startswith(("F1 with noise", "clean", "capitals", "ocr"))]
    assert [row.split()[0] for row in rows] == ["F1", "clean", "capitals", "ocr"]
    assert all("±" in row for row in rows[1:])
    record = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    clean, *others = record["noise_of_models"]
    (ner,) = [one for one in record["figures_of_models"] if one["protocol"] == "ner, micro, from text"]
    assert clean["ner"] == ner["f1"]
    assert [one["noise"] for one in others] == ["capitals", "ocr"]
    for page in tmp_path.glob("*/report.html"):
        assert "F1 on text with noise" in page.read_text(encoding="utf-8")


def test_foreign_text(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("A tagger helps parsing. It works.", encoding="utf-8")
    (tmp_path / "b.jsonl").write_text(json.dumps({"body": "Taggers and parsers."}), encoding="utf-8")
    files = ("--foreign", tmp_path / "a.txt", "--foreign", tmp_path / "b.jsonl", "--field", "body")
    text = shown(capsys, saved_model(), *files, "--json", tmp_path / "found.json", "--per-label")
    assert ", foreign text, 2 texts" in text
    record = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert record["models"][0]["relations"]["sentences"]["n_sentences"] == 3
    assert str(tmp_path) not in json.dumps(record["data"])


@pytest.mark.parametrize(
    "options",
    [
        ["--gold-entities"], ["--from-text"], ["--train", "t"], ["--by", "nesting"], ["--report", "r"],
        ["--against", "m"],
    ],
)  # fmt: skip
def test_foreign_text_has_no_gold(options, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("It works.", encoding="utf-8")
    assert options[0] in failure(capsys, saved_model(), "--foreign", tmp_path / "a.txt", *options)


def test_foreign_text_and_data(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("It works.", encoding="utf-8")
    assert "corpus.jsonl" in failure(capsys, saved_model(), corpus(), "--foreign", tmp_path / "a.txt")
    assert "b.txt" in failure(capsys, saved_model(), "--foreign", tmp_path / "b.txt")


def test_json(tmp_path, capsys):
    path = tmp_path / "new" / "scores.json"
    shown(capsys, saved_model(), corpus(), "--json", path, "--batch-words", "16", "--precision", "bf16")
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["models"][0]["scores"]["directed"]["ner"]["micro"]["n_gold"] == 13
    assert record["environment"]["precision"] == "bf16"
    assert record["environment"]["command"]
    assert str(tmp_path) not in path.read_text(encoding="utf-8")


def test_the_format_of_the_data(tmp_path, capsys):
    write_documents(DOCUMENTS, tmp_path / "data.json", format="spert")
    text = shown(capsys, saved_model(), tmp_path / "data.json", "--format", "spert")
    assert "6 documents, 6 sentences, 32 words, 13 entities, 7 relations" in text


def test_one_document_is_scored_though_not_compared(tmp_path, capsys):
    write_documents(DOCUMENTS[:1], tmp_path / "one.jsonl")
    models = saved_model(), saved_model(1)
    text = shown(capsys, *models, tmp_path / "one.jsonl", "--json", tmp_path / "scores.json")
    assert "95 % interval" not in text
    record = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert (len(record["models"]), record["differences"]) == (2, [])
    assert "95 % interval" in shown(capsys, *models, tmp_path / "one.jsonl", "--resample", "sentences")


def test_offsets_within_words(tmp_path, capsys):
    write_documents(DOCUMENTS, tmp_path / "data.jsonl")
    whole = shown(capsys, saved_model(), tmp_path / "data.jsonl")
    cut_short(tmp_path / "data.jsonl")
    assert "--align" in failure(capsys, saved_model(), tmp_path / "data.jsonl")
    assert run(saved_model(), tmp_path / "data.jsonl", "--align", "expand") == 0
    found = capsys.readouterr()
    assert _scores(found.out) == _scores(whole)
    assert found.err.startswith("Note: 1 x entity ")


def _scores(text):
    return [line for line in text.splitlines() if line.lstrip().startswith(("NER", "RE"))]


@pytest.mark.parametrize(
    ("options", "data"),
    [
        (["--symmetric", "doubl"], "'doubled'"), (["--precision", "half"], "'half'"),
        (["--overlaps", "some"], "'some'"), (["--noise", "capital"], "'capitals'"),
        (["--noise", "all", "--gold-entities"], "--gold-entities"), (["--resample", "words"], "'words'"),
        (["--resamples", "1"], "n_resamples is 1"), (["--format", "colln"], "'colln'"),
        (["--align", "outward"], "'outward'"), (["--train", "no.jsonl"], "no.jsonl"),
        (["--json", "."], "folder"),
        (["--gold-entities", "--batch-words", "0"], "batch_words is 0"),
    ],
)  # fmt: skip
def test_unknown_values(options, data, capsys):
    assert data in failure(capsys, saved_model(), corpus(), *options)


def test_the_model_last(capsys):
    assert "best'" in failure(capsys, corpus(), saved_model())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_an_unwritable_folder_is_found_before_the_models_run(tmp_path, capsys):
    (tmp_path / "closed").mkdir(mode=0o500)
    assert "Permission denied" in failure(capsys, saved_model(), corpus(), "--json", tmp_path / "closed" / "a.json")


def test_data_without_annotations(tmp_path, capsys):
    (tmp_path / "data.jsonl").write_text('{"text": "Ada leads."}\n', encoding="utf-8")
    assert "no entities" in failure(capsys, saved_model(), tmp_path / "data.jsonl")


def test_predictions(tmp_path, capsys):
    write_documents(DOCUMENTS, tmp_path / "same.json", "spert")
    text = shown(capsys, corpus(), "--predictions", tmp_path / "same.json", "--json", tmp_path / "scores.json")
    assert text.splitlines()[0].endswith(", end to end")
    assert "speed" not in text
    record = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert {figure["f1"]["mean"] for figure in record["figures_of_models"]} == {1.0}
