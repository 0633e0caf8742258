from dataclasses import replace

import pytest
from tests.apps.annotation.projects import FIRST, MARKED, make_project

from cascade_srn.apps.annotation.annotations import Annotation
from cascade_srn.apps.annotation.suggestions import (
    SUGGESTIONS,
    QueueFilter,
    Suggestions,
    list_queue,
    order_documents,
    remove_older,
    suggestion_line,
    write_priorities,
)
from cascade_srn.types import Document, Span, Triple

METHOD, TASK = Span(3, 4, "Method", 0.9), Span(5, 6, "Task", 0.5)
SUGGESTED = replace(
    FIRST,
    sentences=(
        FIRST.sentences[0].annotated([METHOD, TASK], [Triple(METHOD, "USED-FOR", TASK, 0.4)]),
        *FIRST.sentences[1:],
    ),
)


@pytest.fixture
def project(tmp_path):
    documents = [FIRST, *(Document.from_text(f"Text number {number}.", id=str(number)) for number in range(19))]
    with make_project(tmp_path / "p", documents) as made:
        (made.folder / SUGGESTIONS).mkdir()
        yield made


def add(project, name, *documents):
    with (project.folder / SUGGESTIONS / name).open("ab") as handle:
        handle.writelines(map(suggestion_line, documents))


def test_without_priorities_the_order_is_that_of_the_input(project):
    assert order_documents(project, Suggestions(project.folder)) == list(project.documents)


def test_held_out_documents_are_spread_and_not_ranked(project):
    write_priorities(project.folder, {id: number / 20 for number, id in enumerate(project.documents)})
    suggestions = Suggestions(project.folder)
    suggestions.refresh()
    ordered = order_documents(project, suggestions)
    assert sorted(ordered) == sorted(project.documents)
    held_out = [id for id in ordered if project.is_held_out(id)]
    assert held_out == [id for id in project.documents if project.is_held_out(id)]
    rest = [id for id in ordered if not project.is_held_out(id)]
    assert rest == [id for id in reversed(project.documents) if not project.is_held_out(id)]
    assert ordered.index(held_out[0]) == 4


def test_the_list_is_filtered_and_paged(project):
    suggestions = Suggestions(project.folder)
    project.save("3", "anna", Annotation(0, "done"))
    found = list_queue(project, suggestions, QueueFilter("anna", state="done"))
    assert [item["id"] for item in found["items"]] == ["3"]
    assert list_queue(project, suggestions, QueueFilter("ben", state="done"))["total"] == 0
    found = list_queue(project, suggestions, QueueFilter("anna", search="NUMBER 1"), offset=1, limit=3)
    assert (found["total"], [item["id"] for item in found["items"]]) == (10, ["10", "11", "12"])


def test_open_suggestions_are_counted(project):
    add(project, "run-1.jsonl", SUGGESTED)
    suggestions = Suggestions(project.folder)

    def count():
        return list_queue(project, suggestions, QueueFilter("anna"))["items"][0]["n_suggestions"]

    assert count() == 3
    project.save("a/b", "anna", Annotation(0, "started", rejected=("19:26:Task",)))
    assert count() == 1
    project.save("a/b", "anna", replace(MARKED, version=1))
    assert count() == 0


def test_new_lines_are_read_and_later_runs_win(project):
    suggestions = Suggestions(project.folder)
    suggestions.refresh()
    assert suggestions.get("a/b").entities == ()
    add(project, "run-1.jsonl", SUGGESTED)
    suggestions.refresh()
    assert [one["score"] for one in suggestions.get("a/b").entities] == [0.9, 0.5]
    assert suggestions.get("a/b").to_dict()["relations"] == [
        {"id": "t0", "head": "s0", "tail": "s1", "label": "USED-FOR", "score": 0.4}
    ]
    add(project, "run-2.jsonl", FIRST)
    with (project.folder / SUGGESTIONS / "run-2.jsonl").open("ab") as handle:
        handle.write(suggestion_line(SUGGESTED)[:-5])  # being written
    suggestions.refresh()
    assert suggestions.get("a/b").entities == ()
    remove_older(project.folder, "run-2.jsonl")
    assert [path.name for path in (project.folder / SUGGESTIONS).iterdir()] == ["run-2.jsonl"]
