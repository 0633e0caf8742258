import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascade_srn.errors import AnnotationError, DataError
from cascade_srn.evaluation.from_text import align_by_characters, rebuild_text
from cascade_srn.formats.registry import read_documents, write_documents
from cascade_srn.types import Document, Mention, Sentence, Span

RECORD = {
    "doc_key": "d1",
    "sentences": [["A", "CRF", "tags", "text", "."], [], ["It", "works", "."]],
    "ner": [[[1, 1, "Method"]], [], []],
    "relations": [[], [], []],
    "clusters": [[[1, 1], [5, 5]], [[2, 3], [6, 7]]],
}
CLUSTERS = ((Mention(0, 1, 2), Mention(2, 0, 1)), (Mention(0, 2, 4), Mention(2, 1, 3)))
LINE = {
    "id": "d1",
    "text": "A CRF tags text. It works.",
    "sentences": [[[0, 1], [2, 5], [6, 10], [11, 15], [15, 16]], [[17, 19], [20, 25], [25, 26]]],
    "clusters": [[[2, 5], [17, 19]]],
}


def test_dygie_reads_and_writes_clusters(lines_file, tmp_path):
    stream = read_documents(lines_file(RECORD))
    (document,) = stream
    assert document.clusters == CLUSTERS
    assert [document.text[slice(*document.locate(m))] for m in document.clusters[0]] == ["CRF", "It"]
    assert stream.report.clusters == 2
    assert not stream.report.noted
    assert "2 coreference clusters" in str(stream.report)
    write_documents([document], tmp_path / "out.json", "dygie")
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8")) == RECORD


def test_jsonl_reads_and_writes_clusters(lines_file, tmp_path):
    (document,) = read_documents(lines_file(LINE))
    assert document.clusters == ((Mention(0, 1, 2), Mention(1, 0, 1)),)
    write_documents([document], tmp_path / "out.jsonl")
    written = json.loads((tmp_path / "out.jsonl").read_text(encoding="utf-8"))
    assert written == {**LINE, "entities": [], "relations": []}
    assert Document.from_dict(document.to_dict()) == document
    assert document.to_dict()["clusters"] == LINE["clusters"]


@pytest.mark.parametrize(("record", "format"), [(RECORD, "dygie"), (LINE, "jsonl")])
@pytest.mark.parametrize("clusters", [..., None, []])
def test_documents_without_clusters_are_written_without_the_field(
    lines_file, tmp_path, changed, record, format, clusters
):
    (document,) = read_documents(lines_file(changed(record, ("clusters",), clusters)))
    assert document.clusters == ()
    write_documents([document], tmp_path / "out", format)
    assert "clusters" not in json.loads((tmp_path / "out").read_text(encoding="utf-8"))
    assert "clusters" not in document.to_dict()
    assert "coreference" not in str(read_documents(tmp_path / "out").report)


@pytest.mark.parametrize(
    ("record", "path", "value", "kind"),
    [
        (RECORD, ("clusters",), 5, "document: wrong type"),
        (RECORD, ("clusters", 0), "ab", "cluster: wrong type"),
        (RECORD, ("clusters", 0), [], "cluster: empty"),
        (RECORD, ("clusters", 0, 1), [5], "mention: wrong length"),
        (RECORD, ("clusters", 0, 1), ["5", 5], "mention: wrong type"),
        (RECORD, ("clusters", 0, 1), [5, 4], "mention: end before start"),
        (RECORD, ("clusters", 0, 1), [-1, 0], "mention: index out of range"),
        (RECORD, ("clusters", 0, 1), [7, 8], "mention: index out of range"),
        (RECORD, ("clusters", 0, 1), [4, 5], "mention: crosses a sentence boundary"),
        (RECORD, ("clusters", 1, 1), [5, 5], "mention: in two clusters"),
        (LINE, ("clusters",), {"a": 1}, "document: wrong type"),
        (LINE, ("clusters", 0), [], "cluster: empty"),
        (LINE, ("clusters", 0, 1), [17, 17], "mention: end before start"),
        (LINE, ("clusters", 0, 1), [17, 99], "mention: index out of range"),
        (LINE, ("clusters", 0, 1), [17.0, 19], "mention: wrong type"),
        (LINE, ("clusters", 0, 1), [18, 19], "mention: not on word boundaries"),
        (LINE, ("clusters", 0, 1), [11, 19], "mention: crosses a sentence boundary"),
    ],
)
def test_malformed_clusters_are_refused_or_skipped(lines_file, lenient, changed, record, path, value, kind):
    file = lines_file(changed(record, path, value))
    with pytest.raises((DataError, AnnotationError), match="clusters") as caught:
        list(read_documents(file))
    assert caught.value.hint or kind.endswith(("wrong type", "wrong length"))
    # Another document, because a file in which all are malformed is an error.
    _, report = lenient(lines_file(changed(record, path, value), record, name="two.json"))
    assert report.skipped == {kind: 1}


def test_only_the_malformed_mention_is_skipped(lines_file, lenient, changed):
    (document,), _ = lenient(lines_file(changed(RECORD, ("clusters", 0, 0), [99, 99])))
    assert document.clusters == ((Mention(2, 0, 1),), CLUSTERS[1])
    (document,), report = lenient(lines_file(changed(RECORD, ("clusters", 0), [[99, 99]])))
    assert document.clusters == CLUSTERS[1:]
    assert report.n_skipped == 1


def test_mentions_follow_their_sentence_where_another_is_skipped(lines_file, lenient, changed):
    (document,), report = lenient(lines_file(changed(RECORD, ("sentences", 0, 0), "")))
    assert document.clusters == ((Mention(1, 0, 1),), (Mention(1, 1, 3),))
    assert report.skipped == {"sentence: empty word": 1, "mention: needs a skipped sentence": 2}


def test_a_mention_repeated_in_its_cluster_is_read_once_and_noted(lines_file, changed):
    stream = read_documents(lines_file(changed(RECORD, ("clusters", 0), [[1, 1], [5, 5], [1, 1]])))
    (document,) = stream
    assert document.clusters == CLUSTERS
    assert stream.report.noted == {"mention repeated": 1}


def test_mentions_are_expanded_to_words(lines_file, changed):
    stream = read_documents(lines_file(changed(LINE, ("clusters", 0, 1), [18, 19])), align="expand")
    (document,) = stream
    assert document.clusters == ((Mention(0, 1, 2), Mention(1, 0, 1)),)
    assert stream.report.noted == {"mention aligned outward to whole words": 1}


@pytest.mark.parametrize(("format", "name"), [("brat", "folder"), ("spert", "out.json"), ("doccano", "out.jsonl")])
def test_formats_without_clusters_report_that_they_are_lost(lines_file, tmp_path, format, name):
    documents = list(read_documents(lines_file(RECORD)))
    assert write_documents(documents, tmp_path / name, format).lost["coreference clusters"] == 2
    plain = [Document(d.text, d.sentences, d.id) for d in documents]
    assert "coreference clusters" not in write_documents(plain, tmp_path / f"plain-{name}", format).lost
    for kept in ("jsonl", "dygie"):
        assert "coreference clusters" not in write_documents(documents, tmp_path / kept, kept).lost


def test_clusters_stay_on_their_words_when_the_text_is_rebuilt_or_aligned(lines_file):
    (document,) = read_documents(lines_file(RECORD))
    rebuilt = rebuild_text(document)
    assert rebuilt.text == "A CRF tags text. It works."
    assert rebuilt.clusters == document.clusters
    other = Document.from_text(rebuilt.text, segmenter=lambda text: [[(m, m + 1) for m in range(len(text))]])
    ((moved,), _) = align_by_characters([rebuilt], [other])
    assert [[moved.text[slice(*moved.locate(m))] for m in c] for c in moved.clusters] == [
        ["CRF", "It"],
        ["tags text", "works."],
    ]


@pytest.mark.parametrize(
    "clusters",
    [
        ((),), ((Mention(1, 0, 1),),), ((Mention(-1, 0, 1),),), ((Mention(0, 1, 1),),),
        ((Mention(0, -1, 1),),), ((Mention(0, 0, 3),),), ((Mention(0, 0, 1), Mention(0, 0, 1)),),
        ((Mention(0, 0, 1),), (Mention(0, 0, 1),)),
    ],
)  # fmt: skip
def test_a_document_refuses_clusters_that_do_not_fit(clusters):
    with pytest.raises(AnnotationError):
        Document.from_sentences([Sentence.from_words(["a", "b"])], clusters=clusters)


@st.composite
def documents(draw):
    words = st.lists(st.text("aé😀-", min_size=1, max_size=3), max_size=5)
    sentences = []
    for given_words in draw(st.lists(words, max_size=4)):
        entities = [Span(0, len(given_words), "X")] if given_words and draw(st.booleans()) else []
        sentences.append(Sentence.from_words(given_words, entities))
    possible = [
        Mention(number, start, end)
        for number, sentence in enumerate(sentences)
        for start in range(len(sentence))
        for end in range(start + 1, len(sentence) + 1)
    ]
    chosen = draw(st.lists(st.sampled_from(possible), unique=True)) if possible else []
    n_clusters = draw(st.integers(1, 4))
    clusters = [chosen[number::n_clusters] for number in range(n_clusters)]
    return Document.from_sentences(sentences, id=draw(st.text("ab", max_size=2)), clusters=[c for c in clusters if c])


@settings(deadline=None)
@given(st.lists(documents(), min_size=1, max_size=3))
@pytest.mark.parametrize("format", ["jsonl", "dygie"])
def test_clusters_come_back_as_they_were(tmp_path_factory, format, given_documents):
    path = tmp_path_factory.mktemp("clusters") / "out"
    write_documents(given_documents, path, format)
    assert list(read_documents(path, format)) == given_documents
    assert [Document.from_dict(document.to_dict()) for document in given_documents] == given_documents
