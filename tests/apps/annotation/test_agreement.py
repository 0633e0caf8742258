from dataclasses import replace

import pytest
from tests.apps.annotation.projects import CRF, MARKED, TAGGING, USED_FOR, make_project

from cascade_srn.apps.annotation.agreement import cohen_kappa, measure_agreement
from cascade_srn.apps.annotation.annotations import Annotation, EntityMark, RelationMark
from cascade_srn.errors import DataError


@pytest.fixture
def project(tmp_path):
    with make_project(tmp_path / "p") as made:
        made.save("a/b", "anna", MARKED)
        yield made


def test_equal_annotations_agree(project):
    project.save("a/b", "ben", MARKED)
    found = measure_agreement(project, "anna", "ben")
    assert (found.entities.f1, found.relations.f1, found.kappa) == (1.0, 1.0, 1.0)
    assert found.disagreements == ()


def test_disagreements_are_paired_by_place(project):
    wide = EntityMark("x", 9, 14, "Method")
    other = RelationMark("r", "x", "y", "COMPARE")
    project.save("a/b", "ben", Annotation(0, "done", entities=(wide, replace(TAGGING, id="y")), relations=(other,)))
    found = measure_agreement(project, "anna", "ben")
    assert (found.entities.n_first, found.entities.n_second, found.entities.n_both) == (2, 2, 1)
    assert found.entities.f1 == 0.5
    assert found.relations.f1 == 0.0
    entity, relation = found.disagreements
    assert (entity["first"]["text"], entity["second"]["text"]) == ("CRF", "a CRF")
    assert (relation["first"]["label"], relation["second"]["label"]) == ("USED-FOR", "COMPARE")
    assert {one["sentence"] for one in found.disagreements} == {0}
    # 13 words, 12 of them labelled alike. By chance: 1 x 2 methods, 1 x 1 tasks, 11 x 10 without a label.
    assert found.kappa == pytest.approx((12 / 13 - 113 / 169) / (1 - 113 / 169))


def test_a_missing_entity_is_a_disagreement_with_nothing(project):
    project.save("a/b", "ben", Annotation(0, "done"))
    found = measure_agreement(project, "anna", "ben")
    assert [one["second"] for one in found.disagreements] == [None, None, None]
    assert found.to_dict()["entities"]["precision"] is None
    assert measure_agreement(project, "ben", "anna").to_dict()["entities"]["recall"] is None


def test_the_direction_of_symmetric_relations_does_not_count(project):
    compare = replace(USED_FOR, label="COMPARE")
    project.save("a/b", "ben", replace(MARKED, relations=(compare,)))
    project.save("a/b", "chen", replace(MARKED, relations=(replace(compare, head="e2", tail="e1"),)))
    assert measure_agreement(project, "ben", "chen").relations.f1 == 1.0


def test_kappa_does_not_apply_to_nested_entities(project):
    project.save("a/b", "ben", Annotation(0, "done", entities=(CRF, EntityMark("e5", 9, 14, "Task"))))
    assert measure_agreement(project, "anna", "ben").kappa is None


def test_kappa():
    # 20 pairs of which both say yes, 5 first only, 10 second only, 15 neither: a well-known example.
    pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert cohen_kappa(pairs) == pytest.approx(0.4)
    assert cohen_kappa([("n", "n")] * 5) is None
    assert cohen_kappa([]) is None
    assert cohen_kappa([("a", "b"), ("b", "a")]) == -1


def test_names_that_cannot_be_compared(project):
    project.save("c", "ben", Annotation(0, "done"))
    for names in (("anna", "ben"), ("anna", "anna"), ("anna", "nobody")):
        with pytest.raises(DataError):
            measure_agreement(project, *names)
