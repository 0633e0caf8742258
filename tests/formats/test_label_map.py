import pytest

from cascade_srn.errors import DataError
from cascade_srn.formats.label_map import LabelMap
from cascade_srn.formats.registry import read_documents, write_documents
from cascade_srn.formats.reports import ReadReport
from cascade_srn.types import Document, Sentence, Span, Triple

A, B, C = Span(0, 1, "A"), Span(0, 1, "B"), Span(1, 2, "C")
DOCUMENT = Document.from_sentences(
    [Sentence.from_words(["x", "y"], (A, B, C), (Triple(A, "r", C), Triple(B, "r", C), Triple(A, "s", C)))], id="d"
)


def applied(labels, report=None):
    (sentence,) = labels.apply(DOCUMENT, report).sentences
    return [(e.start, e.label) for e in sentence.entities], [(t.head.label, t.label) for t in sentence.triples]


def test_labels_are_renamed_merged_and_dropped():
    assert applied(LabelMap({"A": "N"}, {"s": "t"})) == (
        [(0, "N"), (0, "B"), (1, "C")],
        [("N", "r"), ("B", "r"), ("N", "t")],
    )
    report = ReadReport()
    assert applied(LabelMap({"A": "N", "B": "N"}, {"s": None}), report) == ([(0, "N"), (1, "C")], [("N", "r")])
    assert report.noted.total() == 2
    assert applied(LabelMap({"C": None})) == ([(0, "A"), (0, "B")], [])


def test_other_labels_are_kept_dropped_or_refused():
    assert applied(LabelMap({"A": "A", "C": "C"}, {"r": "r"}, "drop")) == ([(0, "A"), (1, "C")], [("A", "r")])
    with pytest.raises(DataError, match="'A'"):
        applied(LabelMap(others="error"))


def test_a_file_is_read_and_applied_to_a_stream(tmp_path):
    (tmp_path / "labels.yaml").write_text("entities:\n  A: N\n  B: null\nrelations: {r: R}\n")
    write_documents([DOCUMENT], tmp_path / "a.jsonl")
    stream = read_documents(tmp_path / "a.jsonl", labels=LabelMap.read(tmp_path / "labels.yaml"))
    (document,) = stream
    assert {entity.label for entity in document.entities} == {"N", "C"}
    assert {relation.label for relation in document.relations} == {"R", "s"}
    assert (stream.report.entities, stream.report.relations) == (2, 2)


@pytest.mark.parametrize(
    "text",
    [
        "", "- a", "entity: {A: B}", "entities: [A]", "entities: {A: 3}", "entities: {A: ' '}", "others: no",
        "a: [", "\xff",
    ],
)  # fmt: skip
def test_a_wrong_map_is_one_error(tmp_path, text):
    path = tmp_path / "labels.yaml"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        LabelMap.read(path)
    assert str(path) in caught.value.problem
    assert "\n" not in caught.value.problem
