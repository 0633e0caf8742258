import json

import pytest
from tests.apps.corpus.jobs import fingerprints, rows_of, run_here, save_model, texts, write_lines

from cascade_srn import Extractor, read_documents
from cascade_srn.apps.corpus.tables import TABLES, table_schema
from cascade_srn.apps.corpus.writing import normalize

GIVEN = [
    *texts(6),
    {"id": "number", "text": 3},
    {"text": "Taggers and parsers help search engines.", "title": "Löwe \u201cx\u201d", "year": 1999},
    {"id": "empty", "text": ""},
    {"id": "spaces", "text": " \n\t "},
    {"id": "lines", "text": "Neural speech\nrecognition systems need data.\r\n\r\nA tagger\u00a0helps pars\u00ading."},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model, the input, and the output in both formats."""
    folder = tmp_path_factory.mktemp("tables")
    save_model(folder / "model")
    given = [one if isinstance(one, dict) else {"id": f"d{n}", "text": one, "year": n} for n, one in enumerate(GIVEN)]
    write_lines(folder / "in.jsonl", given)
    inputs = {"keep": ("title", "year:int64")}
    for name in ("parquet", "jsonl"):
        run_here(folder / "in.jsonl", folder / name, folder / "model", format=name, inputs=inputs)
    return folder


@pytest.fixture(scope="module")
def expected(folder):
    """The documents of the extractor, by text."""
    extractor = Extractor.from_pretrained(folder / "model", overlaps="flat")
    given = [one["text"] if isinstance(one, dict) else one for one in GIVEN]
    return {text: extractor.extract(text) for text in given if isinstance(text, str)}


def test_documents_have_all_columns(folder, expected):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = next((folder / "parquet" / "documents").iterdir())
    kept = {"title": pa.string(), "year": pa.int64()}
    assert pq.read_schema(path).equals(table_schema("documents", kept), check_metadata=True)
    rows = {row["document_id"]: row for row in rows_of(folder / "parquet", "documents")}
    assert list(rows) == [*(f"d{n}" for n in range(6)), "in.jsonl:7", "empty", "spaces", "lines"]
    row = rows["in.jsonl:7"]
    assert (row["title"], row["year"], row["input"], row["row"]) == ("Löwe \u201cx\u201d", 1999, "in.jsonl", 7)
    for row in rows.values():
        document = expected[row["text"]]
        assert row["n_words"] == sum(map(len, document.sentences))
        assert (row["n_entities"], row["n_relations"]) == (len(document.entities), len(document.relations))
        bounds = [(s.offsets[0][0], s.offsets[-1][1]) for s in document.sentences]
        assert [(s["start"], s["end"]) for s in row["sentences"]] == bounds
        assert len(row["model"]) == 64


def test_entities_are_those_of_the_extractor(folder, expected):
    documents = {row["document_id"]: row for row in rows_of(folder / "parquet", "documents")}
    entities = rows_of(folder / "parquet", "entities")
    assert len(entities) > 10
    for id, row in documents.items():
        found = [e for e in entities if e["document_id"] == id]
        assert [e["entity"] for e in found] == list(range(len(found)))
        for entity, known in zip(found, expected[row["text"]].entities, strict=True):
            assert (entity["start"], entity["end"], entity["label"]) == (known.start, known.end, known.label)
            assert entity["text"] == row["text"][entity["start"] : entity["end"]]
            assert entity["normalized"] == normalize(known.text)
            assert entity["score"] == pytest.approx(known.score, abs=1e-6)
            sentence = row["sentences"][entity["sentence"]]
            assert sentence["start"] <= entity["start"] < entity["end"] <= sentence["end"]
            assert (entity["shard"], entity["row"]) == (row["shard"], row["row"])


def test_relations_refer_to_entities(folder, expected):
    entities = {(e["document_id"], e["entity"]): e for e in rows_of(folder / "parquet", "entities")}
    relations = rows_of(folder / "parquet", "relations")
    assert len(relations) > 3
    for relation in relations:
        for role in ("head", "tail"):
            entity = entities[relation["document_id"], relation[role]]
            names = ("start", "end", "text", "label")
            assert [relation[f"{role}_{name}"] for name in names] == [entity[name] for name in names]
            assert relation["sentence"] == entity["sentence"]
    for row in rows_of(folder / "parquet", "documents"):
        found = [r for r in relations if r["document_id"] == row["document_id"]]
        assert [r["relation"] for r in found] == list(range(len(found)))
        known = expected[row["text"]].relations
        assert [(r["label"], r["status"]) for r in found] == [(r.label, r.status) for r in known]
        assert [r["score"] for r in found] == pytest.approx([r.score for r in known], abs=1e-6)


def test_errors_have_a_reason_and_a_place(folder):
    rows = rows_of(folder / "parquet", "errors")
    assert [(row["document_id"], row["row"], row["attempts"]) for row in rows] == [("number", 6, 1)]
    assert "not a string" in rows[0]["reason"]


def test_json_lines_can_be_read_by_this_package(folder, expected):
    paths = sorted((folder / "jsonl" / "documents").iterdir())
    documents = [document for path in paths for document in read_documents(path, "jsonl")]
    assert len(documents) == 10
    for document in documents:
        known = expected[document.text]
        assert document.entities == known.entities
        assert document.relations == known.relations
        assert all(entity.score == round(entity.score, 6) for entity in document.entities)
    lines = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line["year"] for line in lines if line["id"] == "in.jsonl:7"] == [1999]
    assert not (folder / "jsonl" / "entities").exists() or not any((folder / "jsonl" / "entities").iterdir())
    errors = [path.read_text(encoding="utf-8") for path in (folder / "jsonl" / "errors").iterdir()]
    assert [json.loads(text)["document_id"] for text in errors if text] == ["number"]


def test_texts_can_be_left_out(folder, tmp_path):
    run_here(folder / "in.jsonl", tmp_path / "out", folder / "model", store_text=False)
    assert {row["text"] for row in rows_of(tmp_path / "out", "documents")} == {None}
    with_text = rows_of(folder / "parquet", "entities")
    without = rows_of(tmp_path / "out", "entities")
    assert [e["text"] for e in without] == [e["text"] for e in with_text]


def test_the_bytes_do_not_depend_on_places(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    moved = write_lines(
        tmp_path / "elsewhere" / "in.jsonl",
        [json.loads(line) for line in (folder / "in.jsonl").read_text(encoding="utf-8").splitlines()],
    )
    inputs = {"keep": ("title", "year:int64")}
    run_here(moved, tmp_path / "out", folder / "model", inputs=inputs)
    assert fingerprints(tmp_path / "out") == fingerprints(folder / "parquet")


def test_duckdb_reads_each_table_as_one_dataset(folder):
    import duckdb

    for table in TABLES:
        rows = rows_of(folder / "parquet", table)
        path = folder / "parquet" / table
        assert duckdb.sql(f"SELECT count(*) FROM '{path}/*.parquet'").fetchall() == [(len(rows),)]
    joined = duckdb.sql(
        f"""SELECT count(*) FROM '{folder}/parquet/relations/*.parquet' r
        JOIN '{folder}/parquet/entities/*.parquet' e ON (r.shard, r.row, r.head) = (e.shard, e.row, e.entity)
        WHERE r.head_text = e.text"""
    ).fetchall()
    assert joined == [(len(rows_of(folder / "parquet", "relations")),)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Named Entity", "named entity"),
        ("named\n  entity", "named entity"),
        ("sys-\ntem", "system"),
        ("of\ufb01ce \u201cX\u201d", 'office "x"'),
        ("\u200b", ""),
    ],
)
def test_normalized_text(text, expected):
    assert normalize(text) == expected
