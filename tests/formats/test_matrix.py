"""Every format to every other and back, and the table of docs/formats.md that says what survives."""

import json
from pathlib import Path

import pytest

from cascade_srn.formats.base import ReadContext
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.jsonl import read_document
from cascade_srn.formats.registry import FORMATS, read_documents, write_documents
from cascade_srn.formats.reports import Place

PAGE = Path(__file__).resolve().parents[2] / "docs" / "formats.md"
NEEDED = {"cas": "cassis", "spacy": "spacy", "datasets": "datasets"}
NAMES = {"table": "a.csv", "cas": "folder", "datasets": "folder"}


def from_record(record):
    return read_document(Value(record, Place("record")), ReadContext())


def documents():
    """Two documents with one sentence each, whose entities do not overlap and occur once."""
    texts = {
        "a": ("Ada leads Acme in Rome .", [(0, 3, "Person"), (10, 14, "Company"), (18, 22, "City")]),
        "b": ("Bea works for Umbra .", [(0, 3, "Person"), (14, 19, "Company")]),
    }
    for id, (text, spans) in texts.items():
        entities = [{"start": a, "end": b, "label": label} for a, b, label in spans]
        relations = [{"head": 0, "label": "works-for", "tail": 1}]
        yield from_record({"id": id, "text": text, "entities": entities, "relations": relations})


def summary(found):
    entities = [sorted((e.text, e.label) for e in d.entities) for d in found]
    return entities, [sorted((r.head.text, r.label, r.tail.text) for r in d.relations) for d in found]


def convert(found, path, format):
    write_documents(found, path / NAMES.get(format, "a"), format)
    return list(read_documents(path / NAMES.get(format, "a"), format))


def cell(folder, source, target):
    """Return what is left of documents in the format ``source`` after a conversion to ``target``."""
    folders = [folder / f"{source}-{target}-{step}" for step in (1, 2)]
    for each in folders:
        each.mkdir()
    before = convert(list(documents()), folders[0], source)
    entities, relations = summary(convert(before, folders[1], target))
    assert entities == summary(before)[0], (source, target)
    if not any(summary(before)[1]):
        return "–"
    return "all" if relations == summary(before)[1] else "entities"


@pytest.mark.slow
def test_the_table_of_the_documentation(tmp_path):
    for module in NEEDED.values():
        pytest.importorskip(module)
    names = list(FORMATS)
    rows = ["| from, to | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]
    for source in names:
        cells = [cell(tmp_path, source, target) for target in names]
        rows.append(f"| {source} | " + " | ".join(cells) + " |")
    page = PAGE.read_text(encoding="utf-8")
    begin, end = "<!-- matrix: begin -->\n", "<!-- matrix: end -->"
    stored = page[page.index(begin) + len(begin) : page.index(end)]
    assert stored == "\n".join(rows) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("format", NEEDED)
def test_formats_of_libraries_keep_words_and_nesting(tmp_path, format):
    pytest.importorskip(NEEDED[format])
    record = {
        "id": "x/y",
        "text": 'Use  "state-of-the-art" CRFs.\n\n😀 It works.',
        "sentences": [
            [[0, 3], [5, 6], [6, 22], [22, 23], [24, 28], [28, 29]],
            [[31, 32], [33, 35], [36, 41], [41, 42]],
        ],
        "entities": [
            {"start": 6, "end": 28, "label": "M"},
            {"start": 24, "end": 28, "label": "N"},
            {"start": 33, "end": 35, "label": "G"},
        ],
        "relations": [{"head": 1, "label": "p q", "tail": 0}],
    }
    document = from_record(record)
    (back,) = convert([document], tmp_path, format)
    assert back == document


@pytest.mark.slow
def test_a_cas_that_other_software_wrote(tmp_path):
    cassis = pytest.importorskip("cassis")
    types = cassis.load_dkpro_core_typesystem()
    relation = types.create_type("webanno.custom.Rel", "uima.tcas.Annotation")
    types.create_feature(relation, "kind", "uima.cas.String")
    types.create_feature(relation, "value", "uima.cas.String")
    for name in ("Governor", "Dependent"):
        types.create_feature(relation, name, "uima.tcas.Annotation")
    cas = cassis.Cas(typesystem=types)
    cas.sofa_string = "😀 Ada leads Acme."
    entity = types.get_type("de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity")
    ada, acme = entity(begin=2, end=5, value="PER"), entity(begin=12, end=16, value="ORG")
    cas.add_all([ada, acme, relation(begin=12, end=16, value="leads", Governor=ada, Dependent=acme)])
    cas.to_xmi(tmp_path / "doc.xmi")
    types.to_xml(tmp_path / "TypeSystem.xml")
    for path in (tmp_path / "doc.xmi", tmp_path):
        stream = read_documents(path)
        (document,) = stream
        assert (stream.format, document.id) == ("cas", "doc")
        assert [(e.text, e.label) for e in document.entities] == [("Ada", "PER"), ("Acme", "ORG")]
        assert [(r.head.text, r.label, r.tail.text) for r in document.relations] == [("Ada", "leads", "Acme")]


@pytest.mark.slow
def test_a_doc_bin_that_spacy_wrote(tmp_path):
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    doc = nlp("Ada leads Acme. She sings.")
    doc.ents = [doc.char_span(0, 3, label="PER"), doc.char_span(10, 14, label="ORG")]
    doc.spans["sc"] = [doc.char_span(0, 14, label="FACT")]
    spacy.tokens.Doc.set_extension("rel", default={}, force=True)
    doc._.rel = {(0, 2): {"leads": 1.0, "owns": 0.0}}
    spacy.tokens.DocBin(docs=[doc], store_user_data=True).to_disk(tmp_path / "a.spacy")
    (document,) = read_documents(tmp_path / "a.spacy")
    assert {(e.text, e.label) for e in document.entities} == {
        ("Ada", "PER"),
        ("Acme", "ORG"),
        ("Ada leads Acme", "FACT"),
    }
    assert [(r.head.text, r.label, r.tail.text) for r in document.relations] == [("Ada", "leads", "Acme")]
    assert len(document.sentences) == 2


@pytest.mark.slow
def test_tags_of_a_hugging_face_dataset(tmp_path):
    datasets = pytest.importorskip("datasets")
    tags = datasets.Sequence(datasets.ClassLabel(names=["O", "B-PER", "I-PER"]))
    text = datasets.Value("string")
    features = datasets.Features({"id": text, "tokens": datasets.Sequence(text), "ner_tags": tags})
    rows = {"id": ["1"], "tokens": [["Ada", "King", "sings"]], "ner_tags": [[1, 2, 0]]}
    data = datasets.Dataset.from_dict(rows, features=features)
    data.save_to_disk(tmp_path / "folder")
    data.to_parquet(tmp_path / "a.parquet")
    for path in (tmp_path / "folder", tmp_path / "a.parquet"):
        stream = read_documents(path)
        (document,) = stream
        assert (stream.format, document.id) == ("datasets", "1")
        assert [(e.text, e.label) for e in document.entities] == [("Ada King", "PER")]


@pytest.mark.slow
def test_bioc_agrees_with_its_library(tmp_path):
    bioc = pytest.importorskip("bioc")
    biocjson = pytest.importorskip("bioc.biocjson")
    write_documents(documents(), tmp_path / "a.xml", "bioc")
    with (tmp_path / "a.xml").open(encoding="utf-8") as handle:
        collection = bioc.biocxml.load(handle)
    found = [
        (a.text, a.infons["type"], a.total_span.offset) for d in collection.documents for a in d.passages[0].annotations
    ]
    assert found == [(e.text, e.label, e.start) for d in documents() for e in d.entities]
    with (tmp_path / "b.xml").open("w", encoding="utf-8") as handle:
        bioc.biocxml.dump(collection, handle)
    with (tmp_path / "c.json").open("w", encoding="utf-8") as handle:
        biocjson.dump(collection, handle)
    for name in ("b.xml", "c.json"):
        assert summary(list(read_documents(tmp_path / name))) == summary(list(documents()))
    assert json.loads((tmp_path / "c.json").read_text())["documents"][0]["id"] == "a"
