import pytest

from cascade_srn.config import BaselineSettings, EncoderSettings, FusionSettings, ModelSettings
from cascade_srn.model.card import model_card
from cascade_srn.schema import Schema

SCHEMA = Schema(("Task", "Thing"), ("compare", "used-for"), frozenset({"compare"}))


def _card(schema=SCHEMA, **settings):
    return model_card(ModelSettings(EncoderSettings("/some/folder"), **settings), schema, "folder")


def test_a_cascade_has_a_fusion():
    card = _card(fusion=FusionSettings("markers", "markers"), hidden_width=7)
    assert "| fusion | `early`: entities by markers, subject by markers |" in card
    assert "| sequence encoder | srn, hidden width 7 |" in card
    assert "| fusion | no preset: entities by none, subject by tag |" in _card(fusion=FusionSettings("none", "tag"))


def test_an_entity_model_does_not_mention_relations():
    card = _card(joint=False)
    assert "Extracts entities from text." in card
    assert "| model family | first turn of the cascade only: entities, no relations |" in card
    assert "| sequence encoder | srn, hidden width 128 |" in card
    assert "| entity types | Task, Thing |" in card
    assert "tags: [named-entity-recognition]\n" in card
    assert all(word not in card for word in ("fusion", "relation types", "relation-extraction", "used-for"))
    assert "tags: [named-entity-recognition, relation-extraction]\n" in _card()
    assert "Extracts entities and the relations between them from text." in _card()


@pytest.mark.parametrize(
    ("method", "line"),
    [
        ("pfn", "| sequence encoder | partition filter network, hidden width 128 |"),
        ("table-srn", "| sequence encoder | srn of two tasks, hidden width 128 |"),
        ("pipeline", "| model family | baseline: classifies spans of up to 5 words, then pairs of entities, "),
    ],
)
def test_a_baseline_has_no_fusion(method, line):
    card = _card(method=method, baseline=BaselineSettings(max_span_words=5))
    assert line in card
    assert "baseline" in card
    assert "fusion" not in card


@pytest.mark.parametrize("method", ["cascade", "pfn"])
def test_labels_are_listed_without_paths(method):
    card = _card(method=method)
    assert "| entity types | Task, Thing |" in card
    assert "| relation types | compare (symmetric), used-for |" in card
    assert "| relation types | none |" in _card(Schema(("Task",)), method=method)
    assert "| encoder | folder |" in card
    assert "/some" not in card
