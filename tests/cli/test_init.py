import json
from collections import Counter

import pytest
import yaml
from tests.cli.conftest import failure, run
from tests.small_models import small_model
from tests.twelve_sentences import DOCUMENTS

from cascade_srn.formats.registry import write_documents
from cascade_srn.model.start import Start
from cascade_srn.training import suggestion
from cascade_srn.training.corpus import read_corpus
from cascade_srn.training.recipe import load_recipe
from cascade_srn.training.suggestion import DataSummary
from cascade_srn.types import Document, Sentence, Span, Triple


def _science(n=4):
    """Documents with labels of the bundled model, and one more."""
    made = []
    for i in range(n):
        words = f"we train the tagger{i} for parsing{i} and compare it with corpus{i}".split()
        method, task, other = Span(3, 4, "Method"), Span(5, 6, "Task"), Span(10, 11, "Dataset")
        triples = [Triple(method, "USED-FOR", task), Triple(method, "COMPARE", task)]
        made.append(Document.from_sentences([Sentence.from_words(words, [method, task, other], triples)], id=str(i)))
    return made


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_documents(DOCUMENTS, tmp_path / "corpus.jsonl")
    return tmp_path / "corpus.jsonl"


def test_a_recipe_for_one_file(data, tmp_path, capsys):
    assert run("init", "corpus.jsonl", "--device", "cpu") == 0
    assert "cascade-srn train recipe.yaml" in capsys.readouterr().out
    text = (tmp_path / "recipe.yaml").read_text(encoding="utf-8")
    recipe = load_recipe("recipe.yaml")
    # The labels are others than those of the bundled model.
    assert recipe.model.start == "scierc-small"
    assert "has 0 of the " in text
    assert (recipe.data.train, recipe.data.dev, recipe.data.format) == ("corpus.jsonl", 0.2, "jsonl")
    assert recipe.output == "runs/corpus"
    labels = Counter(entity.label for document in DOCUMENTS for entity in document.entities)
    for label, count in labels.items():
        assert f"{label} ({count})" in text
    assert "Expected time" in text
    assert read_corpus(recipe.data).dev


def test_a_named_encoder_is_trained(data, tmp_path):
    assert run("init", data, "--encoder", "some/encoder", "--device", "cpu") == 0
    recipe = load_recipe("recipe.yaml")
    assert (recipe.model.start, recipe.model.encoder.name) == (None, "some/encoder")
    assert "# start: scierc-small" in (tmp_path / "recipe.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("width", "rate"), [(384, 2.5e-4), (768, 7e-5)])
def test_a_named_model_is_the_start(data, tmp_path, monkeypatch, width, rate):
    monkeypatch.setattr(Start, "width", width)
    small_model().save(tmp_path / "yes: mine")
    assert run("init", data, "--start", tmp_path / "yes: mine", "--device", "cpu") == 0
    recipe = load_recipe("recipe.yaml")
    assert recipe.model.start == str(tmp_path / "yes: mine")
    assert recipe.training.encoder_learning_rate == rate


def test_a_start_that_cannot_be_used(data, tmp_path, capsys):
    assert "--encoder" in failure(capsys, "init", data, "--start", "scierc-small", "--encoder", "some/encoder")
    assert "'empty'" in failure(capsys, "init", data, "--start", "empty")
    assert not (tmp_path / "recipe.yaml").exists()


@pytest.mark.parametrize(("encoder", "frozen"), [("fresh", False), ("some/encoder", True)])
def test_random_embeddings_learn(data, encoder, frozen):
    assert run("init", data, "--encoder", encoder, "--device", "cpu") == 0
    assert (load_recipe("recipe.yaml").training.frozen > 0) is frozen


def test_folds_are_suggested_for_few_documents(data, tmp_path, capsys, monkeypatch):
    assert run("init", data, "--device", "cpu") == 0
    assert "--folds 5 output=runs/corpus-folds" in capsys.readouterr().out
    text = (tmp_path / "recipe.yaml").read_text(encoding="utf-8")
    assert load_recipe("recipe.yaml").data.folds is None
    (tmp_path / "recipe.yaml").write_text(text.replace("# folds:", "folds:"), encoding="utf-8")
    assert load_recipe("recipe.yaml").data.folds == 5
    monkeypatch.setattr(suggestion, "_FOLD_DOCUMENTS", 5)
    assert run("init", data, "--device", "cpu", "--overwrite") == 0
    assert "--folds" not in capsys.readouterr().out
    assert "# folds" not in (tmp_path / "recipe.yaml").read_text(encoding="utf-8")


def test_all_splits(data, tmp_path):
    write_documents(DOCUMENTS[:5], tmp_path / "dev.jsonl")
    write_documents(DOCUMENTS[5:], tmp_path / "test.json", format="spert")
    target = tmp_path / "mine.yaml"
    assert run("init", data, "--dev", tmp_path / "dev.jsonl", "--test", tmp_path / "test.json", "-o", target) == 0
    found = load_recipe(target).data
    assert (found.train, found.dev, found.test) == tuple(
        map(str, (data, tmp_path / "dev.jsonl", tmp_path / "test.json"))
    )
    # The files have different formats, which are detected.
    assert found.format is None
    read_corpus(found)


def test_labels_of_the_bundled_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_documents(_science(), "science.jsonl")
    assert run("init", "science.jsonl", "--device", "cpu") == 0
    recipe = load_recipe("recipe.yaml")
    assert recipe.model.start == "scierc-small"
    assert recipe.data.symmetric == ("COMPARE",)
    assert "# encoder:" in (tmp_path / "recipe.yaml").read_text(encoding="utf-8")


def test_options_of_reading_are_written_to_the_recipe(data, tmp_path):
    (tmp_path / "map.yaml").write_text("entities: {Place: Location}\n", encoding="utf-8")
    options = "--map", "map.yaml", "--align", "expand", "--skip-malformed", "--keep-escapes", "--format", "jsonl"
    assert run("init", data, *options) == 0
    settings = load_recipe("recipe.yaml").data
    assert (settings.map, settings.align, settings.skip_malformed, settings.keep_escapes) == (
        "map.yaml",
        "expand",
        True,
        True,
    )
    assert "Location" in read_corpus(settings).schema.entity_types


def test_skipped_and_doubtful_data_are_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.conll").write_text("A B-X\nB O\n" * 501 + "\nC\n\n")
    assert "--skip-malformed" in failure(capsys, "init", "a.conll")
    assert run("init", "a.conll", "--skip-malformed", "--device", "cpu") == 0
    told = capsys.readouterr().err
    assert "Note: 1 x sentence of more than 1,000 words" in told
    assert "Note: skipped 1 x sentence: malformed line" in told


def test_a_single_document_has_no_dev(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_documents(DOCUMENTS[:1], "one.jsonl")
    assert run("init", "one.jsonl") == 0
    assert load_recipe("recipe.yaml").data.dev is None


@pytest.mark.parametrize("name", ["1e5", "null", "a: b # c", "naïve 😀", 'it\'s "x"', "-x", "tab\tname", "{a}"])
def test_strange_names(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    spans = [Span(0, 1, f"{name}\n2"), Span(1, 2, "Other: [x]")]
    sentence = Sentence.from_words(["one", "two"], spans, [Triple(spans[0], "is\u2028a", spans[1])])
    write_documents([Document.from_sentences([sentence], id=str(i)) for i in range(3)], name, format="jsonl")
    assert run("init", "--format", "jsonl", "--", name) == 0
    recipe = load_recipe("recipe.yaml")
    assert recipe.data.train == name
    assert set(read_corpus(recipe.data).schema.entity_types) == {f"{name}\n2", "Other: [x]"}


def test_an_existing_file_is_kept(data, tmp_path, capsys):
    (tmp_path / "recipe.yaml").write_text("mine", encoding="utf-8")
    assert "--overwrite" in failure(capsys, "init", data)
    assert (tmp_path / "recipe.yaml").read_text(encoding="utf-8") == "mine"
    assert run("init", data, "--overwrite") == 0
    assert load_recipe("recipe.yaml")
    capsys.readouterr()
    failure(capsys, "init", data, "--output", tmp_path)


@pytest.mark.parametrize("content", ["", "{}\n", json.dumps({"text": "plain text"}) + "\n"])
def test_data_to_learn_nothing_from(tmp_path, monkeypatch, capsys, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.jsonl").write_text(content, encoding="utf-8")
    failure(capsys, "init", "bad.jsonl")
    failure(capsys, "init", "missing.jsonl")
    assert not (tmp_path / "recipe.yaml").exists()


class TestRules:
    def _summary(self, text, n=1):
        sentence = Sentence.from_words(text.split(), [Span(0, 1, "X")])
        return DataSummary.of([Document.from_sentences([sentence] * n)], "jsonl")

    def test_language(self):
        assert self._summary("the parser of the year is in a list").language == "English"
        assert self._summary("der Parser des Jahres steht auf einer Liste").language == "other"

    @pytest.mark.parametrize(("text", "start"), [("this is the parser", "scierc-small"), ("das ist er", None)])
    def test_other_languages_start_from_an_encoder(self, monkeypatch, text, start):
        monkeypatch.setattr(suggestion, "summarise_data", lambda *data: {"train": self._summary(text, 12)})
        found = suggestion.RecipeSuggestion.for_data(suggestion.DataSettings("x"), device="cpu")
        values = yaml.safe_load(found.to_yaml())
        assert values["model"].get("start") == start
        assert values["training"]["epochs"] * 3 == values["training"]["batch_size"] * 60 == 240

    @pytest.mark.parametrize(("threads", "every"), [(1, 26), (2, 40), (100, 80)])
    def test_a_state_is_written_about_twice_a_minute(self, monkeypatch, threads, every):
        # 80 epochs of 12 sentences, and 10 sentences a second for each thread.
        monkeypatch.setattr(suggestion, "summarise_data", lambda *data: {"train": self._summary("this is it", 12)})
        monkeypatch.setattr("torch.get_num_threads", lambda: threads)
        found = suggestion.RecipeSuggestion.for_data(suggestion.DataSettings("x"), device="cpu")
        assert yaml.safe_load(found.to_yaml())["training"]["save_every"] == every

    def test_an_encoder_in_the_cache_is_trained_on_a_gpu(self, monkeypatch):
        for cached in (False, True):
            monkeypatch.setattr(suggestion, "is_cached", lambda name, cached=cached: cached)
            start, encoder = suggestion._choose_start(self._summary("this is the parser"), None, None, is_gpu=True)
            assert (start is None) is cached
            assert encoder.width == (768 if cached else 384)


@pytest.mark.slow
def test_the_recipe_trains(data, tmp_path):
    assert run("init", data, "--encoder", "fresh", "--device", "cpu") == 0
    tiny = "fresh.width=16", "fresh.n_heads=2", "fresh.n_layers=1", "training.epochs=2"
    assert run("train", "recipe.yaml", *tiny, "--device", "cpu") == 0
    assert (tmp_path / "runs" / "corpus" / "best" / "config.json").is_file()


@pytest.mark.slow
def test_the_recipe_trains_from_the_bundled_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_documents(_science(8), "science.jsonl")
    assert run("init", "science.jsonl", "--device", "cpu") == 0
    assert run("train", "recipe.yaml", "training.epochs=1", "training.save_every=0", "--device", "cpu") == 0
    printed = capsys.readouterr().out
    assert "start: scierc-small keeps 4" in printed
    summary = json.loads((tmp_path / "runs" / "science" / "summary.json").read_text(encoding="utf-8"))
    assert summary["data"]["start"]["new"] == ["Dataset"]
