from dataclasses import replace

import pytest
import yaml
from tests.cli.conftest import run
from tests.small_models import small_model
from tests.training.runs import small_recipe
from tests.twelve_sentences import DOCUMENTS

from cascade_srn.evaluation.noise import available_kinds
from cascade_srn.formats.registry import write_documents
from cascade_srn.model.card import CardDetails, model_card
from cascade_srn.model.model import Model
from cascade_srn.runs.environment import environment, shareable
from cascade_srn.training.card import score_split, score_with_noise, training_card
from cascade_srn.training.corpus import read_corpus
from cascade_srn.training.recipe import CardSettings
from cascade_srn.training.run import Run
from cascade_srn.training.run_folder import RunFolder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a function that makes the card of an untrained model, with changes of the recipe."""
    import torch

    folder = tmp_path_factory.mktemp("card")
    recipe = small_recipe(folder, data={"dev": 0.5})
    corpus = read_corpus(recipe.data)
    model = small_model(schema=corpus.schema)
    results = {"dev": score_split(model, [*corpus.dev, *corpus.train])}
    described = {"recipe": recipe.to_dict(), "data": corpus.to_dict(), "command": "cascade-srn train recipe.yaml"}
    summary = shareable(described | {"environment": environment(torch.device("cpu"))})

    def make(**card):
        changed = replace(recipe, card=CardSettings(**card) if card else None)
        return training_card(model, changed, corpus, results, summary), corpus, results

    return make


def _header(text):
    return yaml.safe_load(text.split("---\n")[1])


def test_no_text_of_the_data_unless_asked_for(made):
    text, corpus, _ = made()
    mentions = {entity.text for document in corpus.train for entity in document.entities}
    assert not [mention for mention in mentions if mention in text]
    with_examples, _, _ = made(examples=True)
    assert [mention for mention in mentions if mention in with_examples]
    assert "→" in with_examples


def test_the_card_has_everything_that_is_known(made):
    text, corpus, results = made(name="mine", description="About it.", licence="mit", language="en, de")
    counts = {"documents": len(corpus.train), "entities": sum(len(d.entities) for d in corpus.train)}
    row = next(line for line in text.splitlines() if line.startswith("| train |"))
    assert "| train.jsonl |" in row
    assert all(f"| {count} |" in row for count in counts.values())
    for label in corpus.schema.entity_types:
        count = sum(entity.label == label for document in corpus.train for entity in document.entities)
        assert f"| {label} | entity | {count} |" in text
    assert f"{100 * results['dev'].scores.ner.counts.f1:.1f}" in text
    for part in ("# mine\n", "About it.", "cascade-srn train recipe.yaml", "epochs: 10", "| torch |", "## Limits"):
        assert part in text
    assert "(held out)" in text
    assert str(corpus.splits["train"].path) not in text
    low, high = results["dev"].intervals["ner"]
    assert low <= results["dev"].scores.ner.counts.f1 <= high


def test_the_hub_reads_the_header(made):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    text, _, results = made(name="mine", licence="mit", language="en, de")
    header = _header(text)
    assert (header["license"], header["language"], header["library_name"]) == ("mit", ["en", "de"], "cascade-srn")
    read = huggingface_hub.ModelCard(text).data
    values = {(one.task_name, one.metric_type): one.metric_value for one in read.eval_results}
    assert values["NER", "f1"] == round(results["dev"].scores.ner.counts.f1, 4)
    assert "license" not in _header(made()[0])


def test_few_documents_have_no_interval(made):
    _, corpus, _ = made()
    assert score_split(small_model(schema=corpus.schema), corpus.dev[:3]).intervals == {}


def test_scores_with_noise_are_in_the_card(made):
    _, corpus, _ = made()
    model = small_model(schema=corpus.schema)
    found = score_with_noise(model, corpus.dev[:2])
    assert list(found) == ["clean", *available_kinds()]
    card = model_card(model.settings, model.schema, "e", CardDetails(noise=found))
    assert "## Robustness\n\nF1 on dev, from text: clean, and with noise.\n\n| noise | NER | RE strict |\n" in card
    assert f"| ocr | {100 * found['ocr']['NER']:.1f} | {100 * found['ocr']['RE strict']:.1f} |" in card


@pytest.mark.slow
def test_a_run_writes_the_card(tmp_path, capsys):
    recipe = small_recipe(tmp_path, data={"dev": 0.3}, training={"epochs": 1, "noise": 0.5})
    write_documents(DOCUMENTS[:4], tmp_path / "test.jsonl")
    recipe = replace(recipe, data=replace(recipe.data, test=str(tmp_path / "test.jsonl")))
    list(Run(replace(recipe, card=CardSettings(licence="mit")), device="cpu", command="the command"))
    text = (tmp_path / "run" / "best" / "README.md").read_text(encoding="utf-8")
    assert "the command" in text
    assert "| test | NER | micro |" in text
    assert "## Robustness" in text
    assert str(tmp_path) not in text
    Model.load(tmp_path / "run" / "best").save(tmp_path / "copy")
    assert (tmp_path / "copy" / "README.md").read_text(encoding="utf-8") == text
    assert run("info", tmp_path / "copy") == 0
    shown = capsys.readouterr().out
    assert "data of the model card" in shown
    assert "labels of the model card" in shown
    # Another card is no other run.
    changed = replace(recipe, card=CardSettings(licence="apache-2.0"))
    RunFolder(changed.output).check(changed, resume=True)
