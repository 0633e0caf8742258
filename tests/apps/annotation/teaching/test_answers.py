import json

import pytest

from cascade_srn.apps.annotation.annotations import ProjectLabels
from cascade_srn.apps.annotation.teaching.answers import combine, read_answer
from cascade_srn.apps.annotation.teaching.prompts import DEFAULT_PROMPTS, Prompt, answer_schema, make_questions
from cascade_srn.errors import DataError, SchemaError
from cascade_srn.types import Document

LABELS = ProjectLabels.from_dict(
    {
        "entities": {"Party": {"description": "A side.", "examples": ["Tenant"]}, "Thing": "What is owed."},
        "relations": {"OWES": {"heads": ["Party"], "tails": ["Thing"]}, "LIKE": {"symmetric": True}},
    }
)
CLAUSE = Document.from_text("The Tenant pays the Landlord the rent and the Tenant's deposit.", id="c")


def answer(*entities, relations=(), document=CLAUSE):
    """Read an answer with entities ("e1", quote, type) and relations (head, type, tail)."""
    record = {
        "entities": [dict(zip(("id", "quote", "type"), one, strict=True)) for one in entities],
        "relations": [dict(zip(("head", "type", "tail"), one, strict=True)) for one in relations],
    }
    return read_answer(json.dumps(record), document, LABELS.schema)


LANDLORD, RENT = ("e1", "Landlord", "Party"), ("e2", "rent", "Thing")


def test_quotes_are_located_and_relations_checked():
    found = answer(LANDLORD, RENT, relations=[("e1", "OWES", "e2"), ("e2", "OWES", "e1")])
    assert found.entities == {(4, 5): "Party", (6, 7): "Thing"}
    assert found.relations == {((4, 5), "OWES", (6, 7))}
    assert found.dropped == {"constraints": 1}
    assert answer(LANDLORD, RENT, relations=[("Landlord", "OWES", "rent")]).relations  # by quote, too


@pytest.mark.parametrize(
    ("entity", "kind"),
    [
        (("e1", "landlords", "Party"), "quote"),  # similar words are not a quote
        (("e1", "Buyer", "Party"), "quote"),
        (("e1", "Tenant", "Party"), "places"),  # occurs twice, and the answer does not say which one
        (("e1", "rent", "Money"), "type"),
        (("e1", " ", "Party"), "malformed"),
        (("e1", ["rent"], "Thing"), "malformed"),
    ],
)
def test_what_is_not_in_the_text_or_the_labels_is_dropped_and_counted(entity, kind):
    found = answer(("e9", "deposit", "Thing"), entity, relations=[("e1", "OWES", "e9")])
    assert list(found.entities.values()) == ["Thing"]
    assert found.relations == frozenset()
    assert found.dropped == {kind: 1, "ends": 1}


def test_repeated_words_count_if_the_answer_has_all_of_them():
    found = answer(("e1", "Tenant", "Party"), ("e2", "Tenant", "Thing"))
    assert list(found.entities.items()) == [((1, 2), "Party"), ((9, 10), "Thing")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("Sure! I cannot do that.", "the answer is not JSON"),
        ('{"entities": [', "the answer is not JSON"),
        ("[1]", "the answer is not JSON"),
        ('{"entities": {}}', "the answer has no list of entities"),
        ('{"entities": [{"id": "e1", "quote": "Buyer", "type": "Party"}]}', "the answer quotes nothing of the text"),
        ("[" * 100_000, "the answer is not JSON"),
    ],
)
def test_unusable_answers(content, problem):
    assert read_answer(content, CLAUSE, LABELS.schema).problem == problem


def test_thoughts_and_fences_around_the_answer():
    content = '<think>{"a"}</think>Here:\n```json\n{"entities": [{"id": 1, "quote": "rent", "type": "Thing"}]}\n```'
    assert read_answer(content, CLAUSE, LABELS.schema).entities == {(6, 7): "Thing"}


def test_agreement_is_the_score_and_doubt_the_expected_corrections():
    owes = [("e1", "OWES", "e2")]
    answers = [answer(LANDLORD, RENT, relations=owes), answer(("e1", "Landlord", "Thing"), RENT)]
    all_labels = combine(CLAUSE, answers, LABELS.schema, n_samples=2, min_share=0.5)
    scores = {(entity.text, entity.label): entity.score for entity in all_labels.suggested.entities}
    assert scores == {("Landlord", "Party"): 0.5, ("rent", "Thing"): 1.0}  # one type, that of the first answer
    assert [one.score for one in all_labels.suggested.relations] == [0.5]
    assert all_labels.agreement == pytest.approx(0.4)  # 1 of 3 and 2 items
    assert all_labels.doubt == 1.0
    strict = combine(CLAUSE, answers, LABELS.schema, n_samples=2, min_share=1.0)
    assert [entity.text for entity in strict.labelled.entities] == ["rent"]
    assert not strict.labelled.relations


def test_missing_and_unusable_answers_agree_with_nothing():
    broken = read_answer("no", CLAUSE, LABELS.schema)
    taught = combine(CLAUSE, [answer(RENT), broken], LABELS.schema, n_samples=2, min_share=0.5)
    assert [entity.score for entity in taught.suggested.entities] == [0.5]
    assert taught.agreement is None
    assert taught.problems == ("the answer is not JSON",)
    assert combine(CLAUSE, [broken], LABELS.schema, n_samples=2, min_share=0.5).labelled is None
    # An answer without entities is a label as well: there is nothing in the sentence.
    assert combine(CLAUSE, [answer()], LABELS.schema, n_samples=1, min_share=0.5).labelled is not None


def test_questions_have_the_labels_and_the_text_and_stable_keys():
    prompts = [Prompt.read(path) for path in DEFAULT_PROMPTS]
    first, second, third = make_questions("c", "A {{labels}} text.", LABELS, prompts, 3, 0.7)
    assert "- Party: A side. Examples: Tenant." in first.text
    assert "- OWES The head is a Party. The tail is a Thing." in first.text
    assert first.text.endswith('Sentence: "A {{labels}} text."\n')
    assert [one.prompt for one in (first, second, third)] == ["list-v1", "careful-v1", "list-v1"]
    assert [one.temperature for one in (first, second, third)] == [0.0, 0.0, 0.7]
    keys = {one.key("m") for one in (first, second, third)} | {first.key("other")}
    assert len(keys) == 4
    again = make_questions("other id", "A {{labels}} text.", LABELS, prompts, 3, 0.7)
    assert again[0].key("m") == first.key("m")
    schema = answer_schema(LABELS)
    assert schema["properties"]["relations"]["items"]["properties"]["type"]["enum"] == ["OWES", "LIKE"]


def test_a_prompt_needs_its_places(tmp_path):
    (tmp_path / "own.txt").write_text("Label {{sentence}}.", encoding="utf-8")
    with pytest.raises(DataError, match=r"has no place \{\{labels\}\}"):
        Prompt.read(tmp_path / "own.txt")


def test_labels_keep_examples_and_constraints_and_refuse_errors():
    assert ProjectLabels.from_dict(LABELS.to_dict()) == LABELS
    assert ProjectLabels.from_dict(LABELS.to_dict()).schema.constraints == LABELS.schema.constraints
    for relation, problem in [
        ({"head": ["Party"]}, "unknown field 'head'"),
        ({"heads": ["Partie"]}, "unknown entity type 'Partie'"),
        ({"examples": "x"}, "the examples of 'OWES'"),
        ({"heads": "Party"}, "heads"),
    ]:
        with pytest.raises(SchemaError) as refused:
            ProjectLabels.from_dict({"entities": ["Party"], "relations": {"OWES": relation}})
        assert problem in refused.value.problem
    with pytest.raises(SchemaError, match="unknown field 'symmetric'"):
        ProjectLabels.from_dict({"entities": {"Party": {"symmetric": True}}})
