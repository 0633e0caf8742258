"""Exports of annotation tools: what is read, what is refused, and what survives a round trip."""

import json
import zipfile
import zlib

import pytest

from cascade_srn.errors import CascadeError, DataError
from cascade_srn.formats.registry import FORMATS, read_documents, write_documents
from cascade_srn.storage.limits import FILE_VARIABLE
from cascade_srn.types import Document, Sentence, Span, Triple

TEXT = "We train a CRF for tagging. It beats an HMM."
CRF, TAGGING, IT, HMM = (11, 14), (19, 26), (28, 30), (40, 43)


def regions(*results):
    return [{"id": 7, "data": {"text": TEXT}, "annotations": [{"id": 1, "result": list(results)}]}]


def region(id, span, label, **more):
    value = {"start": span[0], "end": span[1], "text": TEXT[slice(*span)], "labels": [label]}
    return {"id": id, "type": "labels", "from_name": "label", "to_name": "text", "value": value, **more}


def arrow(head, tail, *labels, **more):
    return {"type": "relation", "from_id": head, "to_id": tail, "direction": "right", "labels": list(labels), **more}


LABEL_STUDIO = regions(
    region("a", CRF, "Method"), region("b", TAGGING, "Task"), arrow("a", "b", "Used-for"), region("c", HMM, "Method")
)
DOCCANO = {
    "id": 7,
    "text": TEXT,
    "entities": [
        {"id": 20, "label": "Method", "start_offset": 11, "end_offset": 14},
        {"id": 21, "label": "Task", "start_offset": 19, "end_offset": 26},
        {"id": 22, "label": "Method", "start_offset": 40, "end_offset": 43},
    ],
    "relations": [{"id": 1, "from_id": 20, "to_id": 21, "type": "Used-for"}],
    "Comments": [],
}
PRODIGY = {
    "text": TEXT,
    "_input_hash": 1,
    "_task_hash": 2,
    "meta": {"id": "7"},
    "spans": [
        {"start": 11, "end": 14, "token_start": 3, "token_end": 3, "label": "Method"},
        {"start": 19, "end": 26, "token_start": 5, "token_end": 5, "label": "Task"},
        {"start": 40, "end": 43, "token_start": 10, "token_end": 10, "label": "Method"},
    ],
    "relations": [
        {
            "head": 3,
            "child": 5,
            "head_span": {"start": 11, "end": 14, "label": "Method"},
            "child_span": {"start": 19, "end": 26, "label": "Task"},
            "label": "Used-for",
        }
    ],
    "answer": "accept",
}


def bioc_annotation(id, label, text, offset):
    locations = [{"offset": offset, "length": len(text)}]
    return {"id": id, "infons": {"type": label}, "text": text, "locations": locations}


BIOC_PASSAGES = [
    {
        "offset": 0,
        "text": TEXT[:27],
        "annotations": [bioc_annotation("T1", "Method", "CRF", 11), bioc_annotation("T2", "Task", "tagging", 19)],
    },
    {"offset": 28, "text": TEXT[28:], "annotations": [bioc_annotation("T3", "Method", "HMM", 40)]},
]
BIOC_NODES = [{"refid": "T1", "role": ""}, {"refid": "T2", "role": ""}]
BIOC_RELATIONS = [{"id": "R1", "infons": {"type": "Used-for"}, "nodes": BIOC_NODES}]
BIOC = {"source": "", "documents": [{"id": "7", "passages": BIOC_PASSAGES, "relations": BIOC_RELATIONS}]}
XML = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE collection SYSTEM "BioC.dtd">
<collection><source>s</source><date>d</date><key>k</key>
<document><id>7</id><passage><infon key="type">abstract</infon><offset>0</offset>
<text>We train a CRF for tagging. It beats an HMM.</text>
<annotation id="1"><infon key="type">Method</infon><location offset="11" length="3"/><text>CRF</text></annotation>
<annotation id="2"><infon key="type">Task</infon><location offset="19" length="7"/><text>tagging</text></annotation>
<annotation id="3"><infon key="type">Method</infon><location offset="40" length="3"/><text>HMM</text></annotation>
<relation id="R"><infon key="type">Used-for</infon><node refid="1" role="a"/><node refid="2" role="b"/></relation>
</passage></document></collection>"""
PUBTATOR = """7|t|We train a CRF for tagging.
7|a|It beats an HMM.
7\t11\t14\tCRF\tMethod\tM1
7\t19\t26\ttagging\tTask\tT1
7\t40\t43\tHMM\tMethod\tM2
7\tUsed-for\tM1\tT1
"""
CSV = f"""document,text,start,end,label,relation,tail_start,tail_end,tail_label
7,"{TEXT}",11,14,Method,,,,
7,,19,26,Task,,,,
7,,40,43,Method,,,,
7,,11,14,Method,Used-for,19,26,Task
"""
TRIPLES = {"id": 7, "text": TEXT, "triples": [["CRF", "Used-for", "tagging"]], "entities": ["HMM"]}
FILES = {
    "label-studio": ("a.json", json.dumps(LABEL_STUDIO)),
    "doccano": ("a.jsonl", json.dumps(DOCCANO)),
    "prodigy": ("a.jsonl", json.dumps(PRODIGY)),
    "bioc": ("a.json", json.dumps(BIOC)),
    "pubtator": ("a.txt", PUBTATOR),
    "table": ("a.csv", CSV),
    "triples": ("a.jsonl", json.dumps(TRIPLES)),
}


@pytest.fixture
def stored(tmp_path):
    """Write text to a file and give its path."""

    def write(text, name="a.json"):
        path = tmp_path / name
        path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
        return path

    return write


def found(document):
    entities = [(e.text, e.label) for e in document.entities]
    return entities, [(r.head.text, r.label, r.tail.text) for r in document.relations]


@pytest.mark.parametrize("name", ["a.zip", "a.spacy"])
def test_a_compressed_file_is_limited_before_it_is_read(tmp_path, monkeypatch, name):
    monkeypatch.setenv(FILE_VARIABLE, "100000")
    if name == "a.spacy":
        pytest.importorskip("spacy")
        (tmp_path / name).write_bytes(zlib.compress(bytes(100_001)))
    else:
        pytest.importorskip("cassis")
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("a.json", bytes(100_001))
    with pytest.raises(DataError, match=rf"more than 100,000 bytes.*{FILE_VARIABLE}"):
        list(read_documents(tmp_path / name))


def test_documents_of_an_archive_share_a_type_system(tmp_path, monkeypatch):
    pytest.importorskip("cassis")
    write_documents([Document.from_text("We train a CRF.", id="a")], tmp_path / "a.xmi", "cas")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.write(tmp_path / "TypeSystem.xml", "TypeSystem.xml")
        for id in "abc":
            packed.write(tmp_path / "a.xmi", f"{id}.xmi")
    n_bytes = sum((tmp_path / name).stat().st_size * n for name, n in (("TypeSystem.xml", 1), ("a.xmi", 3)))
    monkeypatch.setenv(FILE_VARIABLE, str(n_bytes))
    assert [document.id for document in read_documents(tmp_path / "a.zip")] == ["a", "b", "c"]


def test_rows_of_a_data_set_are_limited(tmp_path, monkeypatch):
    """Parquet stores a text once that stands in many rows."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    text = pa.array(["a" * 10_000]).dictionary_encode()
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 64), text.dictionary)
    table = pa.table({"text": column.cast(pa.string()), "entities": pa.array([[]] * 64, pa.list_(pa.string()))})
    pq.write_table(table, tmp_path / "a.parquet")
    monkeypatch.setenv(FILE_VARIABLE, "100000")
    with pytest.raises(DataError, match=FILE_VARIABLE):
        list(read_documents(tmp_path / "a.parquet", "datasets"))


def test_a_data_set_does_not_lead_to_other_files(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "a").mkdir()
    (tmp_path / "other.arrow").write_bytes(b"secret")
    (tmp_path / "a" / "dataset_info.json").write_text("{}")
    (tmp_path / "a" / "state.json").write_text('{"_data_files": [{"filename": "../other.arrow"}]}')
    with pytest.raises(DataError, match=r"a/other\.arrow"):
        list(read_documents(tmp_path / "a"))


@pytest.mark.parametrize("format", [*FILES, "xml"])
def test_a_typical_export_is_recognised_and_read(stored, format):
    name, text = FILES.get(format, ("a.xml", XML))
    stream = read_documents(stored(text, name))
    (document,) = stream
    assert stream.format == {"xml": "bioc"}.get(format, format)
    entities, relations = found(document)
    if format == "triples":
        assert relations == [("CRF", "Used-for", "tagging")]
        assert [text for text, _ in entities] == ["CRF", "tagging", "HMM"]
    else:
        assert entities == [("CRF", "Method"), ("tagging", "Task"), ("HMM", "Method")]
        assert relations == [("CRF", "Used-for", "tagging")]
    # BioC has the text of passages; what is between them becomes a line break.
    assert (document.id, document.text.replace("\n", " "), len(document.sentences)) == ("7", TEXT, 2)
    assert not stream.report.noted


def test_words_and_tags_in_columns(stored):
    text = "-DOCSTART- -X- O\n\nWe PRP O\ntrain VB O\nneural JJ B-M\nmodels NN I-M\nit PRP S-G\n\n"
    text += "# text\na NN B-M\nb NN B-M\n"
    stream = read_documents(stored(text, "a.txt"))
    (document,) = stream
    assert stream.format == "conll"
    assert found(document)[0] == [("neural models", "M"), ("it", "G"), ("a", "M"), ("b", "M")]
    assert len(document.sentences) == 2


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("O B-A I-A O", [(1, 3, "A")]),
        ("I-A I-A B-A O", [(0, 2, "A"), (2, 3, "A")]),
        ("B-A E-A S-B O", [(0, 2, "A"), (2, 3, "B")]),
        ("B-A L-A U-B I-B", [(0, 2, "A"), (2, 3, "B"), (3, 4, "B")]),
        ("I-A I-B O I-A", [(0, 1, "A"), (1, 2, "B"), (3, 4, "A")]),
        ("B-A-b I-A-b", [(0, 2, "A-b")]),
    ],
)
def test_all_schemes_of_tags(tmp_path, tags, spans):
    path = tmp_path / "a.conll"
    path.write_text("".join(f"w {tag}\n" for tag in tags.split()))
    (document,) = read_documents(path)
    assert [(s.start, s.end, s.label) for s in document.sentences[0].entities] == spans


def some_documents():
    """Nested entities, two sentences, odd characters, scores, a document without entities and one without text."""
    first = Sentence(
        ("We", "train", "a", "linear", "CRF", "."),
        ((0, 2), (3, 8), (9, 10), (11, 17), (18, 21), (21, 22)),
        (Span(3, 5, "Method"), Span(4, 5, "Method"), Span(0, 1, "Generic")),
        (Triple(Span(3, 5, "Method"), "Used for", Span(0, 1, "Generic")),),
    )
    text = 'We train a linear CRF. Größe 😀, "x" <b>.'
    words = ((23, 28), (29, 30), (30, 31), (32, 33), (33, 34), (34, 35), (36, 37), (37, 38), (38, 39), (39, 40))
    second = Sentence(tuple(text[a:b] for a, b in words), words, (Span(1, 2, "O/x"), Span(3, 6, "O/x")), ())
    return [Document(text, (first, second), "a-1"), Document("Nothing here.", (), "b")]


def shape(document):
    entities = [(e.start, e.end, e.label) for e in document.entities]
    relations = [((r.head.start, r.head.end), r.label, (r.tail.start, r.tail.end)) for r in document.relations]
    return document.text, sorted(entities), sorted(relations)


CASES = {
    "jsonl": "o.jsonl", "label-studio": "o.json", "doccano": "o.jsonl", "prodigy": "o.jsonl", "bioc": "o.xml",
    "pubtator": "o.txt", "table": "o.csv", "datasets": "o.parquet",
}  # fmt: skip


@pytest.mark.parametrize(
    ("format", "name"), [*CASES.items(), ("bioc", "o.json"), ("table", "o.tsv.gz"), ("table", "o.parquet")]
)
def test_a_round_trip_keeps_text_entities_and_relations(tmp_path, format, name):
    documents = some_documents()
    report = write_documents(documents, tmp_path / name, format)
    back = list(read_documents(tmp_path / name, format, segmenter=lambda text: split(text)))
    assert [shape(d) for d in back] == [shape(d) for d in documents]
    assert [d.id for d in back] == ["a-1", "b"]
    assert report.documents == 2


def split(text):
    """Sentences and words of :func:`some_documents`."""
    return [list(s.offsets) for d in some_documents() if d.text == text for s in d.sentences]


def test_what_a_format_cannot_hold_is_counted(tmp_path):
    scored = Sentence.from_words(
        ["a", "b"], (Span(0, 1, "X", 0.5), Span(1, 2, "X")), (Triple(Span(0, 1, "X", 0.5), "r", Span(1, 2, "X"), 0.4),)
    )
    document = Document.from_sentences([scored], id="d")
    lost = {name: write_documents([document], tmp_path / f"{name}.x", name).lost for name in ("conll", "doccano")}
    assert lost["conll"] == {"ids of documents": 1, "relations": 1, "scores of entities": 1, "scores of relations": 1}
    assert lost["doccano"] == {"words and sentences": 1, "scores of entities": 1, "scores of relations": 1}
    assert not write_documents([document], tmp_path / "o.jsonl").lost


def test_predictions_become_suggestions_of_label_studio(tmp_path):
    scored = Document.from_sentences([Sentence.from_words(["a", "b"], (Span(0, 1, "X", 0.5),))], id="d")
    write_documents([scored], tmp_path / "o.json", "label-studio")
    (task,) = json.loads((tmp_path / "o.json").read_text())
    assert "annotations" not in task
    assert task["predictions"][0]["result"][0]["score"] == 0.5
    (back,) = read_documents(tmp_path / "o.json")
    assert back.entities[0].score == 0.5


def test_label_studio_chooses_one_annotation_and_notes_it(stored):
    (task,) = regions(region("a", CRF, "Old"))
    task["annotations"] = [
        {"result": [region("a", CRF, "Cancelled")], "was_cancelled": True, "updated_at": "2030"},
        {"result": [region("a", CRF, "Old")], "updated_at": "2020"},
        {"result": [region("a", CRF, "New")], "updated_at": "2021"},
    ]
    stream = read_documents(stored([task]))
    assert found(next(iter(stream)))[0] == [("CRF", "New")]
    assert len(stream.report.noted) == 2
    task["annotations"][1]["ground_truth"] = True
    assert found(next(iter(read_documents(stored([task])))))[0] == [("CRF", "Old")]


@pytest.mark.parametrize(
    ("direction", "relations"),
    [
        ("right", [("CRF", "r", "tagging")]),
        ("left", [("tagging", "r", "CRF")]),
        ("bi", [("CRF", "r", "tagging"), ("tagging", "r", "CRF")]),
    ],
)
def test_directions_of_label_studio(stored, direction, relations):
    data = regions(region("a", CRF, "M"), region("b", TAGGING, "T"), arrow("a", "b", "r", direction=direction))
    assert found(next(iter(read_documents(stored(data)))))[1] == relations


def test_the_min_form_of_label_studio_has_no_relations_and_says_so(stored):
    spans = [{"start": 11, "end": 14, "text": "CRF", "labels": ["Method"]}]
    stream = read_documents(stored([{"id": 3, "text": TEXT, "label": spans, "annotator": 1, "lead_time": 3.2}]))
    (document,) = stream
    assert (document.id, *found(document)) == ("3", [("CRF", "Method")], [])
    assert list(stream.report.noted) == ["task of the min form, which has no relations"]


def test_offsets_of_a_browser_count_an_emoji_twice(stored):
    text = "😀😀 a CRF works"
    task = {"data": {"text": text}, "annotations": [{"result": []}]}
    value = {"start": 7, "end": 10, "text": "CRF", "labels": ["Method"]}
    task["annotations"][0]["result"] = [{"id": "a", "type": "labels", "value": value}]
    stream = read_documents(stored([task]))
    (document,) = stream
    assert found(document)[0] == [("CRF", "Method")]
    assert "UTF-16" in next(iter(stream.report.noted))


def test_whitespace_that_the_mouse_selected_is_left_out(stored):
    data = {**DOCCANO, "entities": [{"id": 1, "label": "M", "start_offset": 10, "end_offset": 15}], "relations": []}
    stream = read_documents(stored(data, "a.jsonl"))
    assert found(next(iter(stream)))[0] == [("CRF", "M")]


def test_an_entity_annotated_twice_is_one_entity_with_both_relations(stored):
    data = json.loads(json.dumps(DOCCANO))
    data["entities"].append({"id": 30, "label": "Method", "start_offset": 11, "end_offset": 14})
    data["relations"].append({"id": 2, "from_id": 30, "to_id": 21, "type": "Other"})
    stream = read_documents(stored(data, "a.jsonl"))
    (document,) = stream
    assert found(document) == (
        [("CRF", "Method"), ("tagging", "Task"), ("HMM", "Method")],
        [("CRF", "Used-for", "tagging"), ("CRF", "Other", "tagging")],
    )
    assert stream.report.noted == {"entity repeated": 1}


def test_old_doccano_lines_have_labels_as_triples(stored):
    stream = read_documents(stored({"id": 1, "text": TEXT, "label": [[11, 14, "Method"]]}, "a.jsonl"))
    assert stream.format == "doccano"
    assert found(next(iter(stream)))[0] == [("CRF", "Method")]


def test_old_doccano_annotations_have_numbers_of_labels(stored):
    old = [{"label": 3, "start_offset": 11, "end_offset": 14, "user": 1}]
    documents = read_documents(stored({"id": 1, "text": TEXT, "annotations": old, "meta": {}}))
    assert documents.format == "doccano"
    assert found(*documents) == ([("CRF", "3")], [])
    assert documents.report.noted["label is a number, which a label map can rename"] == 1


def _with_ids(format, first, second, link):
    """Two entities with these ids, and a relation of the ids ``link`` if it is not empty."""
    head, tail = link or ("", "")
    if format == "bioc":
        places = [{"offset": 11, "length": 3}, {"offset": 19, "length": 7}]
        notes = [
            {"id": id, "infons": {"type": "Method"}, "locations": [place]}
            for id, place in zip((first, second), places, strict=True)
        ]
        relations = [{"infons": {"type": "U"}, "nodes": [{"refid": head}, {"refid": tail}]}] if link else []
        passage = {"offset": 0, "text": TEXT, "annotations": notes, "relations": relations}
        return {"documents": [{"id": "7", "passages": [passage]}]}
    if format == "label-studio":
        relations = [{"type": "relation", "from_id": head, "to_id": tail, "labels": ["U"]}] if link else []
        return regions(region(first, CRF, "Method"), region(second, TAGGING, "Task"), *relations)
    entities = [{**e, "id": id} for e, id in zip(DOCCANO["entities"], (first, second), strict=False)]
    return {
        **DOCCANO,
        "entities": entities,
        "relations": [{"from_id": head, "to_id": tail, "type": "U"}] if link else [],
    }


@pytest.mark.parametrize("format", ["doccano", "label-studio", "bioc"])
def test_a_relation_of_an_id_of_two_entities_is_refused(stored, format):
    (document,) = read_documents(stored(_with_ids(format, "1", "2", "12")), format)
    assert (len(document.entities), len(document.relations)) == (2, 1)
    # Files of PubTator repeat ids, which nothing refers to.
    (document,) = read_documents(stored(_with_ids(format, "1", "1", "")), format)
    assert len(document.entities) == 2
    twice = stored(_with_ids(format, "1", "1", "11"))
    with pytest.raises(DataError, match="id '1' belongs to several entities"):
        list(read_documents(twice, format))
    documents = read_documents(twice, format, strict=False)
    assert len(next(iter(documents)).entities) == 2
    assert documents.report.skipped == {"relation: repeated id": 1}


def test_words_links_and_chains_of_a_cas(tmp_path):
    cassis = pytest.importorskip("cassis")
    types, base = cassis.TypeSystem(), "uima.tcas.Annotation"
    token, entity, link = (types.create_type(name, base) for name in ("cassis.Token", "my.Entity", "my.Link"))
    slot = types.create_type("my.Slot", "uima.cas.TOP")
    types.create_feature(slot, "target", base)
    types.create_feature(entity, "args", "uima.cas.FSArray", elementType="my.Slot")
    types.create_feature(link, "next", "my.Link")
    cas = cassis.Cas(typesystem=types)
    cas.sofa_string, cas.sofa_mime = "A CRF.It works", "text/plain"
    cas.add_all([token(begin=start, end=end) for start, end in ((0, 1), (2, 5), (5, 6), (6, 8), (9, 14))])
    other = link(begin=6, end=8)
    tagged = entity(begin=2, end=5, args=types.get_type("uima.cas.FSArray")(elements=[slot(target=other)]))
    plain = types.get_type(base)(begin=0, end=1)
    cas.add_all([tagged, entity(begin=0, end=1), link(begin=2, end=5, next=other), other, plain])
    (tmp_path / "a.json").write_text(cas.to_json(), encoding="utf-8")
    documents = read_documents(tmp_path / "a.json")
    (document,) = documents
    assert [e.label for e in document.entities] == ["Entity", "Entity", "Link", "Link"]
    assert [len(sentence) for sentence in document.sentences] in ([5], [3, 2])
    assert documents.report.noted == {
        "link 'args' of my.Entity not read": 1,
        "link 'next' of my.Link not read": 1,
        "annotation without a layer not read": 1,
    }


@pytest.mark.parametrize("format", FORMATS)
def test_documents_without_ids_can_be_written_and_read(tmp_path, format):
    if format in ("cas", "datasets", "spacy"):
        pytest.importorskip({"cas": "cassis"}.get(format, format))
    documents = [Document.from_sentences([Sentence.from_words([w, "leads", "."], [Span(0, 1, "P")])]) for w in "AB"]
    write_documents(documents, tmp_path / "a", format)
    read = list(read_documents(tmp_path / "a", format))
    assert [entity.text for document in read for entity in document.entities] == ["A", "B"]


def test_rejected_examples_of_prodigy_are_left_out_and_counted(stored):
    lines = [PRODIGY, {**PRODIGY, "answer": "reject"}, {**PRODIGY, "answer": "ignore"}]
    stream = read_documents(stored("\n".join(map(json.dumps, lines)), "a.jsonl"))
    assert len(list(stream)) == 1
    assert stream.report.noted.total() == 2


def test_tokens_of_prodigy_are_the_words(stored):
    tokens = [
        {"text": t, "start": s, "end": s + len(t), "id": n} for n, (t, s) in enumerate([("state-of", 0), ("-art", 8)])
    ]
    record = {"text": "state-of-art", "tokens": tokens, "spans": [{"start": 8, "end": 12, "label": "X"}]}
    (document,) = read_documents(stored(record, "a.jsonl"))
    assert document.sentences[0].words == ("state-of", "-art")


def test_relations_of_concepts_go_to_the_nearest_mentions(stored):
    text = "1|t|A x, and b; b and A.\n1|a|\n"
    text += "1\t0\t1\tA\tE\tC1\n1\t9\t10\tb\tE\tC2\n1\t12\t13\tb\tE\tC2\n1\t18\t19\tA\tE\tC1\n1\tr\tC1\tC2\n"
    stream = read_documents(stored(text, "a.txt"))
    (document,) = stream
    (relation,) = document.relations
    assert (relation.head.start, relation.tail.start) == (18, 12)
    assert stream.report.noted.total() == 1


def test_triples_at_several_places_or_none_are_reported_and_never_guessed(stored):
    record = {
        "text": "A CRF beats a CRF for the Tagging task.",
        "triples": [["CRF", "r", "tagging"], ["HMM", "r", "tagging"], ["tagging task", "r", "tagging"]],
    }
    stream = read_documents(stored(record, "a.jsonl"))
    (document,) = stream
    assert [(r.head.text, r.tail.text) for r in document.relations] == [("Tagging task", "Tagging")]
    assert stream.report.noted == {
        "triple at several places left out": 1,
        "triple whose head and tail are in no sentence together left out": 1,
        "triple located by normalised text": 1,
    }


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ("parsers", "Many parsers use treebanks. A parser reads treebanks."),
        ("the parser", "A parser reads treebanks. There the parser fails on treebanks."),
    ],
)
def test_a_string_that_may_have_been_changed_is_not_taken_for_the_words_it_equals(stored, head, text):
    stream = read_documents(stored({"text": text, "triples": [[head, "r", "Treebank"]]}, "a.jsonl"))
    (document,) = stream
    assert document.relations == ()
    assert stream.report.noted == {"triple at several places left out": 1}
    # If both strings are in the text, they are taken at their word.
    (document,) = read_documents(stored({"text": text, "triples": [[head, "r", "treebanks"]]}, "b.jsonl"))
    assert [r.head.text for r in document.relations] == [head]


@pytest.mark.parametrize(
    ("name", "text", "span"),
    [
        ('the "deep" parsing model', 'Use "deep" parsing models for it.', '"deep" parsing models'),
        ("conditional random field", "We use conditional random fields here.", "conditional random fields"),
        ("The Semi-supervised Learning", "Use semi supervised learning.", "semi supervised learning"),
        ("supervised learning", "Use unsupervised learning.", None),
        ("GPT-2 models", "Use GPT-3 models.", None),
        ("C++", "Use C for it.", None),
        ("NER", "Use NEL for it.", None),
        ("morphologcal analysis", "Use morphological analysis now.", "morphological analysis"),
    ],
)
def test_what_counts_as_the_same_words(stored, name, text, span):
    record = {"text": f"{text}", "triples": [[name, "r", text.split()[0]]]}
    (document,) = read_documents(stored(record, "a.jsonl"), "triples")
    assert [r.head.text for r in document.relations] == ([] if span is None else [span])


@pytest.mark.parametrize(
    "record",
    [
        {"sentText": TEXT, "relationMentions": [{"em1Text": "CRF", "em2Text": "tagging", "label": "Used-for"}]},
        {"text": TEXT, "triple_list": [["CRF", "Used-for", "tagging"]]},
        {"text": TEXT, "spo_list": [{"subject": "CRF", "predicate": "Used-for", "object": "tagging"}]},
        {"text": TEXT, "relations": [{"head": "CRF", "relation": "Used-for", "tail": "tagging", "head_type": "M"}]},
    ],
)
@pytest.mark.parametrize("as_array", [False, True])
def test_forms_of_published_triples(stored, record, as_array):
    stream = read_documents(stored([record] if as_array else record))
    (document,) = stream
    assert stream.format == "triples"
    assert found(document)[1] == [("CRF", "Used-for", "tagging")]


def broken_files():
    """Yield format, file name and content of malformed files."""
    for format, (name, text) in FILES.items():
        yield format, name, ""
        yield format, name, text[: text.index("CRF\t")] if format == "pubtator" else text[: len(text) // 2]
        yield format, name, "\x00\x01 no such format"
        if name.endswith("json") or name.endswith("jsonl"):
            yield format, name, "[]" if format in ("doccano", "prodigy") else "{}"
            yield format, name, "null"
        if format not in ("bioc", "pubtator", "triples"):
            yield format, name, text.replace(TEXT, TEXT[:12])
    entity = DOCCANO["entities"][0]
    for change in (
        {"start_offset": 12},
        {"start_offset": -1},
        {"end_offset": 400},
        {"end_offset": 11},
        {"start_offset": "11"},
        {"start_offset": 11.0},
        {"label": " "},
        {"label": None},
        {"label": 3},
        {"id": ["x"]},
    ):
        yield "doccano", "a.jsonl", json.dumps({**DOCCANO, "entities": [{**entity, **change}], "relations": []})
    for change in ({"from_id": 99}, {"type": ""}, {"type": None}, {"to_id": None}):
        relation = {**DOCCANO["relations"][0], **change}
        yield "doccano", "a.jsonl", json.dumps({**DOCCANO, "relations": [relation]})
    for results in (
        [region("a", CRF, "M"), arrow("a", "zz", "r")],
        [region("a", CRF, "M"), region("b", TAGGING, "T"), arrow("a", "b")],
        [region("a", (12, 15), "M")],
        [{**region("a", CRF, "M"), "value": {"start": 11, "end": 14, "text": "HMM", "labels": ["M"]}}],
        [{"id": "a", "type": "labels", "value": {"start": "11", "end": 14, "labels": ["M"]}}],
        [{"id": "a", "type": "labels", "value": {"start": 11, "end": 14, "labels": [5]}}],
        [{"id": "a"}],
        ["a"],
    ):
        yield "label-studio", "a.json", json.dumps(regions(*results))
    for change in (
        {"spans": [{"start": 12, "end": 14, "label": "M"}]},
        {"spans": [{"start": 11, "end": 14}]},
        {"spans": {}},
        {"relations": [{"head": 0, "child": 1, "label": "r"}]},
        {"relations": [{"head_span": {}, "child_span": {}, "label": "r"}]},
        {"tokens": [{"start": 0}]},
        {"tokens": [{"start": 5, "end": 2}]},
        {"text": 5},
        {"text": None},
    ):
        yield "prodigy", "a.jsonl", json.dumps({**PRODIGY, **change})
    for old, new in (
        ("11\t14", "11\t15"),
        ("11\t14", "110\t140"),
        ("M1\tT1", "M1\tT9"),
        ("7|t|", "8|t|"),
        ("Used-for\tM1\tT1", "r"),
    ):
        yield "pubtator", "a.txt", PUBTATOR.replace(old, new)
    for old, new in (
        (",11,14,Method,,,,", ",11,144,Method,,,,"),
        (",11,14,Method,,,,", ",x,14,Method,,,,"),
        (",11,14,Method,,,,", ",11,14,,,,,"),
        (",19,26,Task\n", ",19,26,Nothing,1,2,3\n"),
        ("label", "lable"),
        ("7,,19", '7,"other text",19'),
        ('"We', '"We "quoted" '),
    ):
        yield "table", "a.csv", CSV.replace(old, new)
    for old, new in (
        ('offset="11"', 'offset="x"'),
        ('length="3"', 'length="300"'),
        ("<text>CRF", "<text>HMM"),
        ('refid="1"', 'refid="9"'),
        ('<node refid="2" role="b"/>', ""),
        ("</document>", ""),
        ('key="type">Method', 'key="kind">Method'),
        ('<location offset="11" length="3"/>', ""),
        ("<offset>0</offset>", ""),
    ):
        yield "bioc", "a.xml", XML.replace(old, new)
    for change in (
        {"triples": [["a", "b"]]},
        {"triples": [["CRF", "", "tagging"]]},
        {"triples": [[" ", "r", "tagging"]]},
        {"triples": [{"head": "CRF"}]},
        {"triples": [[1, "r", "CRF"]]},
        {"triples": "CRF"},
        {"text": None},
        {"text": ["CRF"]},
    ):
        yield "triples", "a.jsonl", json.dumps({**TRIPLES, **change})
    for change in ({"annotations": 3}, {"annotations": [{"result": 3}]}, {"data": None}, {"data": {"a": "", "b": ""}}):
        yield "label-studio", "a.json", json.dumps([{**LABEL_STUDIO[0], **change}])
    for text in ("a\nb\n", "a X-b\n\nb\n", "a\tB-\n"):
        yield "conll", "a.conll", text


BROKEN = list(broken_files())


@pytest.mark.parametrize(("format", "name", "text"), BROKEN, ids=[f"{n}-{b[0]}" for n, b in enumerate(BROKEN)])
def test_a_malformed_file_is_one_error_and_touches_no_output(stored, tmp_path, format, name, text):
    path, output = stored(text, name), tmp_path / "out.jsonl"
    output.write_text("old")
    with pytest.raises(CascadeError) as caught:
        write_documents(read_documents(path, format), output)
    assert "\n" not in caught.value.problem
    assert str(path) in caught.value.problem or "document" in caught.value.problem
    assert output.read_text() == "old"


def test_a_malformed_part_may_be_skipped(stored):
    data = json.loads(json.dumps(DOCCANO))
    data["entities"][0]["start_offset"] = 12
    stream = read_documents(stored(data, "a.jsonl"), strict=False)
    (document,) = stream
    assert found(document) == ([("tagging", "Task"), ("HMM", "Method")], [])
    assert stream.report.n_skipped == 2


@pytest.mark.parametrize("format", ["conll", "spert", "dygie"])
def test_columns_refuse_overlapping_entities_and_others_do_not(tmp_path, format):
    documents = some_documents()[:1]
    if format == "conll":
        with pytest.raises(DataError):
            write_documents(documents, tmp_path / "o", format)
    else:
        assert write_documents(documents, tmp_path / "o", format).documents == 1


def test_every_format_says_what_it_loses():
    from cascade_srn.formats.base import LOSSES

    assert all(set(format.loses) <= set(LOSSES) for format in FORMATS.values())
    assert {name for name, format in FORMATS.items() if not format.loses} == {"jsonl", "spacy", "datasets"}
