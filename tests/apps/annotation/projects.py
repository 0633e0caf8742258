"""A small project for tests of annotation."""

from cascade_srn.apps.annotation.annotations import Annotation, EntityMark, ProjectLabels, RelationMark
from cascade_srn.apps.annotation.project import Project
from cascade_srn.types import Document

LABELS = ProjectLabels.from_dict(
    {
        "entities": {"Method": "A technique.", "Task": "A problem."},
        "relations": {"USED-FOR": None, "COMPARE": {"definition": "Two are compared.", "symmetric": True}},
    }
)
# With a character outside the basic plane, and a slash in the id.
FIRST = Document.from_text("We train a CRF for tagging. 😀 It beats an HMM.", id="a/b")
SECOND = Document.from_text("Parsing is slow.", id="c")
CRF, TAGGING = EntityMark("e1", 11, 14, "Method"), EntityMark("e2", 19, 26, "Task", "model")
USED_FOR = RelationMark("r1", "e1", "e2", "USED-FOR")
MARKED = Annotation(0, "done", "sure", (CRF, TAGGING), (USED_FOR,), ("19:26:Method",))


def make_project(folder, documents=(FIRST, SECOND), **options):
    """Create a project and open it."""
    return Project.create(folder, documents, LABELS, **options)
