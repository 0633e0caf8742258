import importlib
import itertools
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import cascade_srn.config
from cascade_srn.config import (
    ENTITY_FUSIONS,
    PRESETS,
    SUBJECT_FUSIONS,
    BaselineSettings,
    EncoderSettings,
    FusionSettings,
    LossWeights,
    ModelSettings,
    Settings,
    Temperatures,
    Thresholds,
    TurnWeights,
    preset_axes,
    require_range,
)
from cascade_srn.errors import ConfigError

WEIGHTS = TurnWeights(entity=LossWeights(0.5, 0.25, 1.0), object=LossWeights(match=0.1))


@pytest.mark.parametrize(
    "settings",
    [
        EncoderSettings("some/encoder", pooling="max", max_pieces=64, overlap=3, context_words=20),
        EncoderSettings("e"),
        FusionSettings("markers", "tag", tag_width=5, max_distance=7),
        LossWeights(0.1, 0.2, 0.3),
        WEIGHTS,
        Thresholds(0.1, 0.2, 0.3),
        Thresholds(0.5, related=0.3),
        ModelSettings(EncoderSettings("e")),
        ModelSettings(
            EncoderSettings("e"),
            FusionSettings("none", "markers"),
            sequence_encoder="bisrn", hidden_width=3, matcher="linear", matcher_width=4, dropout=0.25,
            joint=False, loss_weights=WEIGHTS,
            thresholds=Thresholds(entity=0.3),
        ),
        BaselineSettings(0.3, 4, 5, 6),
        ModelSettings(EncoderSettings("e"), method="pfn", baseline=BaselineSettings(drop_connect=0.0)),
    ],
    ids=lambda settings: type(settings).__name__,
)  # fmt: skip
def test_plain_values_make_the_round_trip_through_json(settings):
    assert type(settings).from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


# Values of the settings without a default, by class.
REQUIRED = {
    "AdaptSettings": {"encoder": "e"},
    "DataSettings": {"train": "train.jsonl", "symmetric": ("one", "two")},
    "EncoderSettings": {"name": "e"},
    "EvaluateOptions": {"models": ("a", "b"), "data": "test.jsonl", "against": ("c",)},
    "ForeignOptions": {"models": ("a",), "texts": ("news.txt",)},
    "ModelSettings": {"encoder": EncoderSettings("e")},
    "Recipe": {"model": {"encoder": {"name": "e"}}, "data": {"train": "train.jsonl"}, "output": "runs"},
    "ReproduceOptions": {
        **{
            "tables": ("main", "fusion"), "recipe": "r.yaml", "output": "out", "n_seeds": 1, "repeats": 1,
            "n_resamples": 100,
        },
        "changes": ("training.epochs=1",),
    },
    "ServeSettings": {"allowed_hosts": ("example.org",), "cors_origins": ("https://example.org", "https://a.example")},
}  # fmt: skip


def settings_classes():
    """Yield all settings classes of the package, found in its source."""
    root = Path(cascade_srn.config.__file__).parent
    for path in sorted(root.rglob("*.py")):
        module = ".".join(("cascade_srn", *path.relative_to(root).with_suffix("").parts))
        for name in re.findall(r"^class (\w+)\(Settings\):", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield pytest.param(module, name, id=name)


@pytest.mark.parametrize(("module", "name"), list(settings_classes()))
def test_all_settings_classes_make_the_round_trip(module, name):
    kind = getattr(importlib.import_module(module), name)
    settings = kind.from_dict(REQUIRED.get(name, {}))
    assert kind.from_dict(settings.to_dict()) == settings
    assert kind.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


@dataclass(frozen=True)
class Listed(Settings):
    names: tuple[str, ...] = ()
    shapes: tuple[tuple[int, float], ...] = ()
    some: tuple[int, ...] | None = None


def test_lists():
    found = Listed.from_dict({"names": ["a"], "shapes": [[1, 2]], "some": None})
    assert found == Listed(("a",), ((1, 2.0),))
    assert type(found.shapes[0][1]) is float
    assert Listed.from_dict({"some": (1, 2)}).some == (1, 2)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"names": "ab"}, r"^here: names is 'ab' \(str\).* list"),
        ({"names": {"a": 1}}, r"names is {'a': 1} \(dict\).* list"),
        ({"names": ["a", 3]}, r"here: names\[1\] is 3 \(int\).* str"),
        ({"shapes": [[1, 2.0], [1]]}, r"here: shapes\[1\] is \[1\].* 2 "),
        ({"some": 3}, r"here: some is 3 \(int\).* list or null"),
    ],
)
def test_invalid_lists_are_refused(given, named):
    with pytest.raises(ConfigError, match=named):
        Listed.from_dict(given, "here")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"hiden_width": 3}, r"recipe: model .*'hiden_width'.* 'hidden_width'"),
        ({3: 3}, r"recipe: model .* 3\b.* baseline, constraints, dropout, encoder, "),
        ({"encoder": {"name": "e", "poling": "max"}}, r"model: encoder .*'poling'.* 'pooling'"),
        ({"encoder": {}}, r"recipe: model: encoder .*'name'"),
        ({"encoder": "e"}, r"recipe: model: encoder is 'e'"),
        ({"encoder": {"name": 3}}, r"encoder: name is 3 \(int\).* str"),
        ({"encoder": {"name": "e", "max_pieces": "9"}}, r"max_pieces is '9' \(str\).* int or null"),
        ({"encoder": {"name": "e", "max_pieces": True}}, r"max_pieces is True \(bool\).* int or null"),
        ({"hidden_width": True}, r"model: hidden_width is True \(bool\).* int"),
        ({"hidden_width": 8.0}, r"model: hidden_width is 8\.0 \(float\).* int"),
        ({"hidden_width": None}, r"model: hidden_width is None \(NoneType\).* int"),
        ({"dropout": False}, r"model: dropout is False \(bool\).* float"),
        ({"dropout": "0.1"}, r"model: dropout is '0\.1' \(str\).* float"),
        ({"dropout": 10**400}, r"model: dropout is 1000"),
        ({"method": "pnf"}, r"method is 'pnf', .*cascade, pfn, table-srn, pipeline.* 'pfn'\?"),
        ({"baseline": {"max_words": 3}}, r"model: baseline .*'max_words'.* 'max_span_words'"),
        ({"joint": 1}, r"model: joint is 1 \(int\).* bool"),
        ({"loss_weights": {"object": {"match": "x"}}}, r"model: loss_weights: object: match is 'x' \(str\)"),
        ({"srn_backend": "a\0b"}, r"model: srn_backend is 'a\\x00b'"),
    ],
)
def test_unknown_keys_and_wrong_types_are_refused(given, named):
    with pytest.raises(ConfigError, match=named):
        ModelSettings.from_dict({"encoder": {"name": "e"}, **given}, "recipe: model")


def test_a_whole_number_may_stand_for_a_float():
    found = ModelSettings.from_dict({"encoder": {"name": "e"}, "dropout": 0}).dropout
    assert (found, type(found)) == (0.0, float)


@pytest.mark.parametrize(
    ("preset", "axes"),
    [
        ("early", ("markers", "markers")),
        ("late", ("tags", "tag")),
        ("subject-marker", ("none", "markers")),
        ("swift", ("tags", "span")),
        ("hybrid", ("markers", "span")),
    ],
)
def test_presets_name_combinations_of_the_two_axes(preset, axes):
    for given in (preset, {"preset": preset}):
        fusion = FusionSettings.from_dict(given)
        assert (fusion.entities, fusion.subject) == axes == preset_axes(preset)
        assert fusion.preset == preset
    model = ModelSettings.from_dict({"encoder": {"name": "e"}, "fusion": preset})
    assert model.fusion == FusionSettings(*axes)


def test_widths_may_stand_beside_a_preset():
    assert FusionSettings.from_dict({"preset": "late", "tag_width": 7}) == FusionSettings("tags", "tag", tag_width=7)


@pytest.mark.parametrize(("entities", "subject"), list(itertools.product(ENTITY_FUSIONS, SUBJECT_FUSIONS)))
def test_all_nine_combinations_of_axes_are_legal(entities, subject):
    fusion = FusionSettings.from_dict({"entities": entities, "subject": subject})
    assert (fusion.entities, fusion.subject) == (entities, subject)
    assert fusion.preset == next((name for name, axes in PRESETS.items() if axes == (entities, subject)), None)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("swfit", r"'swfit'.* 'swift'\?"),
        ({"preset": "zzz"}, r"'zzz'.* early, hybrid, late, "),
        ({"preset": 3}, r" 3\b.* early, "),
        ({"preset": ["swift"]}, r"\['swift'\]"),
        ({"preset": "late", "subject": "span"}, r"'late'.*'subject'"),
        ({"preset": "late", "entities": "tags"}, r"'late'.*'entities'"),
        ({"subject": "none"}, r"fusion\.subject is 'none'.* markers, tag, span"),
        ({"subject": "tags"}, r"fusion\.subject is 'tags'.* markers, tag, span.* 'tag'\?"),
        ({"entities": "marker"}, r"fusion\.entities is 'marker'.* none, markers, tags.* 'markers'\?"),
        ({"tag_width": 0}, r"fusion\.tag_width is 0.* 1"),
        ({"max_distance": 0}, r"fusion\.max_distance is 0.* 1"),
        ({"width": 3}, r"fusion .*'width'"),
        (None, r"fusion is None"),
    ],
)
def test_invalid_fusions_are_refused(given, named):
    with pytest.raises(ConfigError, match=named):
        FusionSettings.from_dict(given)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: EncoderSettings("e", pooling="sum"), r"encoder\.pooling is 'sum', .*first, mean, max"),
        (lambda: EncoderSettings("e", max_pieces=7), r"encoder\.max_pieces is 7.* 8"),
        (lambda: EncoderSettings("e", overlap=-1), r"encoder\.overlap is -1.* 0"),
        (lambda: EncoderSettings("e", context_words=-1), r"encoder\.context_words is -1.* 0"),
        (lambda: LossWeights(start=1.5), r"start is 1\.5.* 0 to 1"),
        (lambda: LossWeights(end=-0.1), r"end is -0\.1.* 0 to 1"),
        (lambda: LossWeights(match=float("nan")), r"match is nan.* 0 to 1"),
        (lambda: Thresholds(entity=1.1), r"entity is 1\.1.* 0 to 1"),
        (lambda: Thresholds(subject=-1), r"subject is -1.* 0 to 1"),
        (lambda: Thresholds(object=2), r"object is 2.* 0 to 1"),
        (lambda: Thresholds(related=1.5), r"related is 1\.5.* 0 to 1"),
        (lambda: Thresholds(relation=-0.5), r"relation is -0\.5.* 0 to 1"),
        (lambda: Thresholds(entity_types={"Task": 2}), r"'Task' is 2.* 0 to 1"),
        (lambda: Thresholds.from_dict({"related": "x"}), r"related is 'x' \(str\).* float or null"),
        (lambda: Thresholds.from_dict({"entity_types": {"Task": "x"}}), r"entity_types\.Task is 'x' \(str\)"),
        (lambda: Thresholds.from_dict({"entity_types": 3}), r"entity_types is 3 \(int\).* mapping"),
        (lambda: Temperatures(subject=0), r"subject is 0.* 0\.01 to 100"),
        (lambda: BaselineSettings(max_span_words=0), r"baseline\.max_span_words is 0.* 1"),
        (lambda: BaselineSettings(drop_connect=1.0), r"baseline\.drop_connect is 1\.0.* 0 to 0\.99"),
        (lambda: _model(sequence_encoder="lstm"), r"sequence_encoder is 'lstm', .*srn, bisrn, bilstm"),
        (lambda: _model(matcher="biaffine"), r"matcher is 'biaffine', .*mlp, linear"),
        (lambda: _model(hidden_width=0), r"hidden_width is 0.* 1"),
        (lambda: _model(matcher_width=0), r"matcher_width is 0.* 1"),
        (lambda: _model(dropout=1.0), r"dropout is 1\.0.* 0 to 0\.99"),
        (lambda: _model(head_dropout=-0.1), r"head_dropout is -0\.1.* 0 to 0\.99"),
        (lambda: require_range("x", -1, 0, 4_294_967_295), r"x is -1.* 0 to 4294967295"),
    ],
)
def test_values_out_of_range_are_refused(make, named):
    with pytest.raises(ConfigError, match=named):
        make()


def _model(**settings):
    return ModelSettings(EncoderSettings("e"), **settings)
