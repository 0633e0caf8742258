"""The recipes in the repository: each can be read, and says what it is."""

import re
from pathlib import Path

import pytest

from cascade_srn.training.recipe import load_recipe
from cascade_srn.training.run import Run

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))


def _opening(path):
    """The comment that a recipe begins with."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))])


def test_they_are_all_here():
    names = {path.stem for path in RECIPES}
    assert names >= {"scierc", "scierc-early", "scierc-context", "scierc-small", "scierc-paper", "news"}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
class TestEach:
    def test_it_opens_with_its_command_its_cost_and_what_to_expect(self, path):
        opening = _opening(path)
        assert f"\n#   cascade-srn train recipes/{path.name}\n" in opening
        assert "\n# Cost: " in opening
        assert re.search(r"\n# Expected on test[^:]*: ", opening)

    def test_it_can_be_read(self, path):
        recipe = load_recipe(path)
        assert recipe.output == f"runs/{path.stem}"
        assert set(recipe.data.splits) == {"train", "dev", "test"}

    def test_its_folder_is_not_one_of_this_machine(self, path):
        recipe = load_recipe(path)
        for given in (*recipe.data.splits.values(), recipe.model.encoder.name, recipe.output):
            assert not Path(given).is_absolute()


def test_the_paper_has_the_papers_settings():
    recipe = load_recipe(ROOT / "recipes" / "scierc-paper.yaml")
    training = recipe.training
    assert (training.batch_size, training.epochs, training.optimiser) == (8, 100, "adam")
    assert training.learning_rate == training.encoder_learning_rate == 1e-5
    assert (training.schedule, training.warmup, training.weight_decay, training.ema) == ("constant", 0.0, 0.0, None)
    assert (training.evaluate_every, training.evaluate_steps) == (None, 100)
    model = recipe.model
    assert (model.fusion.preset, model.matcher, model.sequence_encoder, model.hidden_width) == (
        "early",
        "linear",
        "srn",
        128,
    )
    assert model.encoder.name == "allenai/scibert_scivocab_uncased"


@pytest.mark.slow
def test_the_example_corpus_is_learned_from(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    overrides = ["training.epochs=2", "training.batch_size=32", f"output={tmp_path / 'run'}", "training.trackers=[]"]
    run = Run(load_recipe("recipes/news.yaml", overrides), device="cpu", command="x")
    first, last = (progress for progress in run if progress.epoch_done)
    assert last.loss < 0.9 * first.loss
    assert (tmp_path / "run" / "best" / "model.safetensors").is_file()
