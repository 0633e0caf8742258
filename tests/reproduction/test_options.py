import pytest

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.reproduction.options import DEFAULTS, QUICK, ReproduceOptions, data_overrides


def _options(**given):
    return ReproduceOptions.create(**{"tables": ("main",), **given})


def test_defaults_stand_where_nothing_is_given():
    options = _options(n_seeds=None, recipe="mine.yaml")
    assert (options.n_seeds, options.recipe, options.output) == (DEFAULTS["n_seeds"], "mine.yaml", DEFAULTS["output"])


def test_a_quick_look_has_its_own(monkeypatch, tmp_path):
    options = _options(quick=True, n_seeds=1, changes=("training.epochs=1",))
    assert (options.n_seeds, options.recipe, options.repeats) == (1, QUICK["recipe"], QUICK["repeats"])
    before, after = options.overrides()
    assert before == []
    # What is set comes last, and so counts.
    assert after[-1] == "training.epochs=1"
    assert "training.epochs=2" in after
    with pytest.raises(ConfigError, match="--quick and --encoder were both given"):
        _options(quick=True, encoder="x")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="--quick wants recipes/news.yaml, which is not here; run it in a checkout"):
        _options(quick=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tables": ()}, "no table was named"),
        ({"tables": ("mian",)}, "there is no table 'mian'. Did you mean 'main'?"),
        ({"n_seeds": 0}, "--seeds is 0; give a number at least 1"),
        ({"jobs": 0}, "--jobs is 0; give a number at least 1"),
        ({"repeats": 0}, "--repeats is 0; give a number at least 1"),
        ({"batch_words": 0}, "--batch-words is 0; give a number at least 1"),
        ({"n_resamples": 10}, "--resamples is 10; give a number at least 100"),
        ({"precision": "half"}, "--precision is 'half', not one of auto, float32, bf16"),
        ({"resample": "words"}, "--resample is 'words', not one of documents, sentences"),
        ({"changes": ("model.joint=false",)}, "--set model.joint=false would change what tells"),
    ],
)
def test_refusals(given, message):
    with pytest.raises(ConfigError, match=message):
        _options(**given)


def test_an_encoder_takes_the_place_of_the_recipes():
    assert _options(encoder="bert-base-cased").overrides()[0] == ["model.encoder.name=bert-base-cased", "fresh=null"]
    assert _options(encoder="fresh").overrides()[0] == ["model.encoder.name=fresh"]


def test_a_folder_of_data(tmp_path):
    for name in ("train.json", "dev.json", "test.json"):
        (tmp_path / name).touch()
    assert _options(data=str(tmp_path)).overrides()[0] == [
        "data.format=null",
        f"data.train={tmp_path / 'train.json'}",
        f"data.dev={tmp_path / 'dev.json'}",
        f"data.test={tmp_path / 'test.json'}",
        "data.schema=null",
    ]
    (tmp_path / "schema.json").touch()
    assert data_overrides(tmp_path)[-2:] == [f"data.schema={tmp_path / 'schema.json'}", "data.symmetric=[]"]


def test_a_folder_without_what_it_takes(tmp_path):
    with pytest.raises(DataError, match="which is no folder; give one that holds train, dev and test"):
        data_overrides(tmp_path / "nowhere")
    (tmp_path / "train.json").touch()
    with pytest.raises(DataError, match=r"where one file dev\.\* was expected and there is none; give a folder with"):
        data_overrides(tmp_path)
    (tmp_path / "train.jsonl").touch()
    with pytest.raises(DataError, match=r"one file train\.\* was expected and there is train.json and train.jsonl"):
        data_overrides(tmp_path)
