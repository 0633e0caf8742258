import os
from functools import partial

import pytest
from tests.formats.asserting import assert_mentions, assert_refused_or_skipped

from cascade_srn.errors import DataError
from cascade_srn.formats.registry import read_documents, write_documents
from cascade_srn.types import Document, Sentence, Span, Triple

TEXT = "A deep CRF tags text.\nIt works on news."
ENTITIES = ["T1\tMethod 2 10\tdeep CRF", "T2\tMethod 7 10\tCRF", "T3\tMaterial 16 20\ttext", "T4\tData 34 38\tnews"]
RELATIONS = ["R1\tUsed-for Arg1:T1 Arg2:T3", "R2\tPart-of Arg2:T1 Arg1:T2\t"]


@pytest.fixture
def folder(tmp_path):
    """Write a folder of pairs and give its path; None leaves a file out."""

    def make(name="d1", lines=(*ENTITIES, *RELATIONS), text=TEXT):
        path = tmp_path / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.with_name(f"{path.name}.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
        if lines is not None:
            path.with_name(f"{path.name}.ann").write_bytes("".join(f"{line}\n" for line in lines).encode())
        return tmp_path / "corpus"

    return make


@pytest.fixture
def read(segmenter):
    return lambda path, **options: read_documents(path, segmenter=segmenter, **options)


def test_entities_and_relations_of_a_folder(folder, read):
    (document,) = read(folder())
    assert (document.id, document.text) == ("d1", TEXT)
    assert [len(s) for s in document.sentences] == [6, 5]
    assert [(e.text, e.label) for e in document.entities] == [
        ("deep CRF", "Method"),
        ("CRF", "Method"),
        ("text", "Material"),
        ("news", "Data"),
    ]
    assert [(r.head.text, r.label, r.tail.text) for r in document.relations] == [
        ("deep CRF", "Used-for", "text"),
        ("CRF", "Part-of", "deep CRF"),
    ]


def test_one_ann_file(folder, read):
    (document,) = read(folder("a.b") / "a.b.ann")
    assert document.id == "a.b"
    assert len(document.entities) == 4


def test_folders_below_are_read_in_the_order_of_the_ids(folder, read):
    for name in ("b", "a/z", "a/c.1", "c"):
        path = folder(name)
    assert [document.id for document in read(path)] == ["a/c.1", "a/z", "b", "c"]


def test_roles_of_other_names_count_in_their_order(folder, read):
    (document,) = read(folder(lines=[*ENTITIES, "R1\tCoref Anaphor:T2 Antecedent:T1"]))
    assert [(r.head.text, r.tail.text) for r in document.relations] == [("CRF", "deep CRF")]


def test_lines_of_other_kinds_are_counted(folder, read):
    others = [
        "E1\tUse:T1 Agent:T2",
        "E2\tUse:T3",
        "A1\tNegated E1",
        "M1\tNegated E1",
        "N1\tReference T1 Wiki:1\tCRF",
        "#1\tAnnotatorNotes T1\tsure?",
        "*\tEquiv T1 T2",
        "R9\tCauses Arg1:E1 Arg2:E2",
    ]
    stream = read(folder(lines=[*ENTITIES, *others, ""]))
    (document,) = stream
    assert (len(document.entities), document.relations) == (4, ())
    assert stream.report.noted == {
        "event line not read": 2,
        "attribute line not read": 1,
        "modification line not read": 1,
        "normalization line not read": 1,
        "note line not read": 1,
        "equivalence line not read": 1,
        "relation between events not read": 1,
    }


def test_an_entity_over_a_line_break_shows_a_space_in_its_text(folder):
    stream = read_documents(
        folder(lines=["T1\tX 2 5\tb c"], text="a b\nc"), segmenter=lambda text: [[(0, 1), (2, 3), (4, 5)]]
    )
    assert [entity.text for document in stream for entity in document.entities] == ["b\nc"]


@pytest.mark.parametrize("first", [2, 3])  # offsets that do not count the byte-order mark, and brat's, which do
def test_a_byte_order_mark_is_no_part_of_the_text(folder, read, first):
    lines = [f"T1\tMethod {first} {first + 8}\tdeep CRF"]
    (document,) = read(folder(lines=lines, text=b"\xef\xbb\xbf" + TEXT.encode()))
    assert document.text == TEXT
    assert [(e.start, e.text) for e in document.entities] == [(2, "deep CRF")]


def test_carriage_returns_count_as_characters(folder, read):
    path = folder(lines=["T1\tX 3 4\tb\r"], text="a\r\nb")
    (document,) = read(path)
    assert document.text == "a\r\nb"
    assert [e.text for e in document.entities] == ["b"]


def test_a_text_without_annotations_is_noted(folder, read):
    folder("one")
    stream = read(folder("two", lines=None))
    assert [(d.id, len(d.entities)) for d in stream] == [("one", 4), ("two", 0)]
    assert stream.report.noted == {"text without an .ann file": 1}


def test_hidden_files_are_noted(folder, read):
    folder("one")
    stream = read(folder("._one"))
    assert [d.id for d in stream] == ["one"]
    assert stream.report.noted == {"hidden file not read": 2}


ENTITY_FAULTS = [
    ("T9\tX 2 6;11 15\tdeep tags", "discontinuous span", ["2 6;11 15"]),
    ("T9\tX 2\tdeep", "malformed line", ["T1<tab>Label start end<tab>text"]),
    ("T9\tX 2.0 6.0\tdeep", "malformed line", ["2.0 6.0"]),
    ("T9 X 2 6 deep", "malformed line", ["T9 X 2 6 deep"]),
    ("T1\tX 2 6\tdeep", "duplicate id", ["T1"]),
    ("T9\tMethod 2 10\tdeep CRF", "duplicate", ["'Method'", "[1, 3)"]),
    ("T9\tX 6 2\t", "end before start", ["T9", "6", "2"]),
    ("T9\tX 34 40\tnews.", "index out of range", ["39 characters"]),
    ("T9\tX -2 6\tdeep", "index out of range", ["39 characters"]),
    ("T9\tX 2 6\tDeep", "text mismatch", ["'Deep'", "'deep'"]),
    ("T9\tX 3 6\teep", "not on word boundaries", ["T9", "'deep' [2, 6)"]),
    ("T9\tX 16 24\ttext. It", "crosses a sentence boundary", ["T9", "sentence 1", "segmenter"]),
]


RELATION_FAULTS = [
    ("R9\tX Arg1:T1 Arg2:T7", "missing entity", ["T7"]),
    ("R9\tX Arg1:T1", "malformed line", ["R1<tab>Label Arg1:T1 Arg2:T2"]),
    ("R9\tX T1 T2", "malformed line", ["R1<tab>Label Arg1:T1 Arg2:T2"]),
]


@pytest.mark.parametrize(
    ("name", "line", "kind", "data"),
    [*(("entity", *f) for f in ENTITY_FAULTS), *(("relation", *f) for f in RELATION_FAULTS)],
)
def test_a_bad_annotation_is_refused_or_skipped(folder, read, name, line, kind, data):
    whole = list(read(folder()))
    path = folder(lines=[*ENTITIES, *RELATIONS, line])
    assert_refused_or_skipped(partial(read, path), f"{name}: {kind}", whole, "d1.ann, line 7", "'d1'", *data)


def test_a_skipped_entity_takes_its_relations_along(folder, read):
    stream = read(folder(lines=["T1\tMethod 2 6;7 10\tdeep CRF", *ENTITIES[1:], *RELATIONS]), strict=False)
    assert [len(document.entities) for document in stream] == [3]
    assert stream.report.skipped == {"entity: discontinuous span": 1, "relation: needs a skipped entity": 2}


def test_relations_across_sentences_are_left_out_and_counted(folder, read):
    stream = read(folder(lines=[*ENTITIES, *RELATIONS, "R9\tX Arg1:T1 Arg2:T4"]))
    assert list(stream) == list(read(folder()))
    assert stream.report.noted == {"relation across sentences not read": 1}


def test_a_line_of_no_known_kind_is_refused_or_skipped(folder, read):
    path = folder(lines=["X1\tfoo"])
    with pytest.raises(DataError, match=r"d1.ann, line 1, document 'd1': X1 is 'X1.tfoo'"):
        list(read(path))
    stream = read(path, strict=False)
    assert [len(document.entities) for document in stream] == [0]
    assert stream.report.skipped == {"line: unknown line": 1}


def test_expanding_is_counted_in_the_report(folder, read):
    stream = read(folder(lines=["T1\tX 3 9\teep CR"]), align="expand")
    assert [e.text for document in stream for e in document.entities] == ["deep CRF"]
    assert stream.report.noted == {"entity aligned outward to whole words": 1}


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        ({"text": None}, "missing text file", r"bad.txt, document 'bad'"),
        ({"text": b"\xffx"}, "not UTF-8", r"bad.txt, document 'bad': .*0xff"),
    ],
)
def test_a_bad_pair_is_refused_or_skipped(folder, read, fault, kind, message):
    folder("good")
    path = folder("bad", **fault)
    with pytest.raises(DataError, match=message):
        list(read(path))
    stream = read(path, strict=False)
    assert [document.id for document in stream] == ["good"]
    assert stream.report.skipped == {f"document: {kind}": 1}


def test_a_folder_without_ann_files_is_refused(folder):
    with pytest.raises(DataError, match=r"corpus .*\.ann"):
        list(read_documents(folder(lines=None), "brat"))


def test_a_file_of_another_kind_is_refused(folder):
    with pytest.raises(DataError, match=r"d1\.txt .*\.ann"):
        list(read_documents(folder() / "d1.txt", "brat"))


def make_document(id="d", label="X", text="a b\nc"):
    offsets = [(0, 1), (2, 3), (4, 5)]
    first, second = Span(0, 1, label), Span(1, 3, "Y")
    triple = Triple(second, "R", first)
    words = tuple(text[start:end] for start, end in offsets)
    return Document(text, (Sentence(words, tuple(offsets), (first, second), (triple, triple)),), id)


def test_the_files_of_a_document(tmp_path):
    write_documents([make_document(), make_document("sub/e.1")], tmp_path / "out", "brat")
    names = sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file())
    assert names == ["out/d.ann", "out/d.txt", "out/sub/e.1.ann", "out/sub/e.1.txt"]
    assert (tmp_path / "out/d.txt").read_bytes() == b"a b\nc"
    assert (tmp_path / "out/d.ann").read_bytes() == (
        b"T1\tX 0 1\ta\nT2\tY 2 5\tb c\nR1\tR Arg1:T2 Arg2:T1\nR2\tR Arg1:T2 Arg2:T1\n"
    )


def test_one_document_to_an_ann_file(tmp_path):
    write_documents([make_document()], tmp_path / "x.y.ann")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.y.ann", "x.y.txt"]


@pytest.mark.parametrize("count", [0, 2])
def test_an_ann_file_holds_one_document(tmp_path, count):
    with pytest.raises(DataError, match=r"x\.ann"):
        write_documents([make_document()] * count, tmp_path / "x.ann")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("id", ["../a", "/a", "a//b", ".a", "a/.b", "a\\b", "a\0b", "a/"])
def test_an_id_that_names_no_file_is_refused(tmp_path, id):
    with pytest.raises(DataError) as caught:
        write_documents([make_document(id)], tmp_path / "out", "brat")
    assert_mentions(caught, repr(id))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([make_document(), make_document()], "id 'd'"),
        ([make_document(label="two words")], "label 'two words' in document 'd'"),
        ([make_document(text="\ufeff b\nc")], "document 'd' .*byte-order mark"),
        ([make_document("x" * 300)], r"File name too long"),
    ],
)
def test_what_brat_cannot_hold_is_refused_and_leaves_nothing(tmp_path, documents, message):
    with pytest.raises(DataError, match=message):
        write_documents([make_document("first"), *documents], tmp_path / "out", "brat")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_files_is_not_written_into(folder):
    path = folder()
    with pytest.raises(DataError, match="corpus "):
        write_documents([make_document()], path)
    assert sorted(p.name for p in path.iterdir()) == ["d1.ann", "d1.txt"]


@pytest.mark.skipif(os.name != "posix" or os.uname().sysname != "Linux", reason="names are UTF-8 here")
def test_names_that_are_not_utf_8(folder, read):
    path = folder("caf\ufffd", text="A plain text.", lines=[])
    for name in (b"caf\xe9", b"caf\xe8"):
        for ending, content in ((b".txt", f"A text of {name!r}."), (b".ann", "T1\tX 2 6\ttext\n")):
            with open(os.path.join(os.fsencode(path), name + ending), "w", encoding="utf-8") as file:
                file.write(content)
    documents = list(read(path))
    assert [(d.id, d.text, len(d.entities)) for d in documents] == [
        ("caf\ufffd-2", r"A text of b'caf\xe8'.", 1),
        ("caf\ufffd-3", r"A text of b'caf\xe9'.", 1),
        ("caf\ufffd", "A plain text.", 0),
    ]
    (one,) = read(path / os.fsdecode(b"caf\xe9.ann"))
    assert one.id == "caf\ufffd"
