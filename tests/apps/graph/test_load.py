import gzip
import json
from dataclasses import replace
from datetime import date

import pytest
from tests.apps.graph.documents import DOCUMENTS, write_lines

from cascade_srn.apps.corpus.tables import table_schema
from cascade_srn.apps.graph import GraphSettings, build, open_graph
from cascade_srn.apps.graph.load import load
from cascade_srn.errors import ConfigError, DataError

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def rows(extracted, name):
    return extracted.tables[name].to_pylist()


def annotations(extracted):
    """Return what does not depend on where the documents were read from."""
    names = [row["document_id"] for row in rows(extracted, "documents")]
    return {
        name: [
            {
                **row,
                "document": names[row["document"]],
                "model": None,
                "score": row.get("score") and round(row["score"], 5),
            }
            for row in rows(extracted, name)
        ]
        for name in ("sentences", "entities", "relations")
    }


def write_job(folder, documents, *, shards=2, finished=None, kept=None):
    """Write the tables of a corpus job by hand."""
    (folder / "shards").mkdir(parents=True)
    ids = [f"{number:05}-abc" for number in range(shards)]
    for number, shard in enumerate(ids):
        tables = {"documents": [], "entities": [], "relations": []}
        for row, item in enumerate(documents[number::shards]):
            place = {"document_id": item.id, "shard": shard, "row": row}
            sentences = [{"start": s.offsets[0][0], "end": s.offsets[-1][1]} for s in item.sentences]
            extra = {name: values[item.id] for name, values in (kept or {}).items()}
            tables["documents"].append(place | {"text": item.text, "sentences": sentences, "model": "m" * 64} | extra)
            entities = list(item.entities)
            spans = {
                (n, span): at
                for at, (n, span) in enumerate((n, e) for n, s in enumerate(item.sentences) for e in s.entities)
            }
            for (n, _), at in spans.items():
                entity = entities[at]
                tables["entities"].append(
                    place
                    | {"entity": at, "sentence": n, "start": entity.start, "end": entity.end, "text": entity.text}
                    | {"label": entity.label, "score": entity.score, "model": "m" * 64}
                )
            triples = [(n, triple) for n, s in enumerate(item.sentences) for triple in s.triples]
            for at, (n, triple) in enumerate(triples):
                ends = {"head": spans[n, triple.head], "tail": spans[n, triple.tail]}
                tables["relations"].append(
                    place
                    | {"relation": at, "sentence": n, "label": triple.label, "score": triple.score, "model": "m" * 64}
                    | {"status": item.sentences[n].status(triple)}
                    | ends
                )
        for name, found in tables.items():
            (folder / name).mkdir(exist_ok=True)
            types = {column: pa.scalar(next(iter(values.values()))).type for column, values in (kept or {}).items()}
            table = pa.Table.from_pylist(found, schema=table_schema(name, types))
            parquet.write_table(table, folder / name / f"{shard}.parquet")
        if finished is None or number < finished:
            (folder / "shards" / f"{shard}.json").write_text("{}")
    manifest = {"software": {"cascade-srn": "9.9"}, "shards": [{"id": shard} for shard in ids]}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_tables_and_lines_give_the_same(tmp_path):
    lines = load([write_lines(DOCUMENTS, tmp_path / "a.jsonl")], GraphSettings())
    job = load([write_job(tmp_path / "job", DOCUMENTS)], GraphSettings())
    assert annotations(job) == annotations(lines)
    assert {row["version"] for row in rows(job, "documents")} == {"9.9"}
    assert {row["model"] for row in rows(job, "entities")} == {"m" * 64}
    for row in rows(lines, "sentences"):
        assert row["start"] < row["end"]


def test_compressed_lines_folders_and_repeats(tmp_path):
    plain = write_lines(DOCUMENTS[:2], tmp_path / "in" / "a.jsonl") if (tmp_path / "in").mkdir() is None else None
    packed = tmp_path / "in" / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(write_lines(DOCUMENTS[2:], tmp_path / "b").read_bytes()))
    whole = load([write_lines(DOCUMENTS, tmp_path / "all.jsonl")], GraphSettings())
    assert annotations(load([tmp_path / "in"], GraphSettings())) == annotations(whole)
    assert annotations(load([packed, tmp_path / "in", plain, plain], GraphSettings())) == annotations(whole)


def test_a_job_of_json_lines(tmp_path):
    job = tmp_path / "job"
    (job / "documents").mkdir(parents=True)
    (job / "shards").mkdir()
    write_lines(DOCUMENTS, job / "documents" / "00000-x.jsonl")
    (job / "shards" / "00000-x.json").write_text("{}")
    (job / "manifest.json").write_text('{"shards": [{"id": "00000-x"}, {"id": "00001-x"}]}')
    found = load([job], GraphSettings())
    assert {row["shard"] for row in rows(found, "documents")} == {"00000-x"}
    assert len(found.notes) == 1


def test_unfinished_shards_are_left_out_with_a_note(tmp_path):
    found = load([write_job(tmp_path / "job", DOCUMENTS, finished=1)], GraphSettings())
    assert len(rows(found, "documents")) == 2
    assert "1 of 2 shards" in found.notes[0]


def test_two_jobs_with_the_same_shards_stay_apart(tmp_path):
    halves = {"one": DOCUMENTS[:2], "two": DOCUMENTS[2:]}
    found = load([write_job(tmp_path / name, half) for name, half in halves.items()], GraphSettings())
    assert len({(row["shard"], row["row"]) for row in rows(found, "documents")}) == 4
    assert found.notes == ()


def test_documents_that_several_inputs_have_count_once_with_a_note(tmp_path):
    whole = load([write_lines(DOCUMENTS, tmp_path / "all.jsonl")], GraphSettings())
    # In one file, they count as often as they occur.
    twice = load([write_lines(DOCUMENTS * 2, tmp_path / "twice.jsonl")], GraphSettings())
    assert (len(rows(twice, "documents")), twice.notes) == (8, ())
    changed = replace(DOCUMENTS[0], id="other")
    job = write_job(tmp_path / "job", [*DOCUMENTS[:3], changed])
    for inputs in ([tmp_path / "all.jsonl", job], [job, tmp_path / "all.jsonl"]):
        found = load(inputs, GraphSettings())
        assert [row["document_id"] for row in rows(found, "documents")] == ["2019.a", "2020.b", "2021.c", "d", "other"]
        assert [row["shard"] for row in rows(found, "documents")][:4] == ["all.jsonl"] * 4
        (note,) = found.notes
        assert f"{job}: 3 documents" in note
        assert f"in {tmp_path / 'all.jsonl'} " in note
        kept = [row for row in annotations(found)["relations"] if row["document"] != "other"]
        assert kept == annotations(whole)["relations"]


def test_the_same_row_of_the_same_file_counts_once_without_texts_and_with_other_ids(tmp_path):
    jobs = []
    for name, prefix in (("one", ""), ("two", "folder/")):
        items = [replace(item, id=f"{prefix}{item.id}") for item in DOCUMENTS]
        job = write_job(tmp_path / name, items, shards=1)
        path = job / "documents" / "00000-abc.parquet"
        table = parquet.read_table(path, partitioning=None).drop_columns(["text", "input"])
        table = table.append_column("text", pa.nulls(4, pa.string()))
        parquet.write_table(table.append_column("input", pa.array([f"{prefix}in.csv"] * 4)), path)
        manifest = json.loads((job / "manifest.json").read_text())
        manifest["inputs"] = [{"name": f"{prefix}in.csv", "sha256": "0" * 64, "address": "/data/folder/in.csv"}]
        (job / "manifest.json").write_text(json.dumps(manifest))
        jobs.append(job)
    found = load(jobs, GraphSettings())
    assert [row["document_id"] for row in rows(found, "documents")] == [item.id for item in DOCUMENTS]
    assert len(found.notes) == 1


def test_dates_and_titles(tmp_path):
    kept = {"day": {item.id: date(2020, 1, number + 1) for number, item in enumerate(DOCUMENTS)}}
    job = write_job(tmp_path / "job", DOCUMENTS, kept=kept)
    found = load([job], GraphSettings(date_field="day"))
    assert [row["date"] for row in rows(found, "documents")] == [f"2020-01-0{n}" for n in range(1, 5)]
    found = load([job], GraphSettings(date_field="day", date_pattern=r"(\d+)-(\d+)"))
    assert {row["date"] for row in rows(found, "documents")} == {"2020"}
    lines = write_lines(DOCUMENTS, tmp_path / "a.jsonl", year=2001, name=" A title ")
    found = load([lines], GraphSettings(date_field="year", title_field="name"))
    assert {(row["date"], row["title"]) for row in rows(found, "documents")} == {("2001", "A title")}


@pytest.mark.parametrize("setting", ["date_field", "title_field"])
def test_a_field_that_no_document_has(tmp_path, setting):
    lines = write_lines(DOCUMENTS, tmp_path / "a.jsonl", title="x", date="2000")
    with pytest.raises(DataError) as caught:
        load([lines], GraphSettings(**{setting: "dat" if setting == "date_field" else "titel"}))
    assert caught.value.option == setting
    assert "Did you mean" in caught.value.hint


@pytest.mark.parametrize(
    "settings", [{"date_pattern": "x"}, {"date_field": "id", "date_pattern": "("}, {"min_count": 0}]
)
def test_settings_are_checked(settings):
    with pytest.raises(ConfigError):
        GraphSettings(**settings)


def test_bad_input_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.jsonl").write_text('{"id": "a"')
    job = write_job(tmp_path / "job", DOCUMENTS)
    for path in (tmp_path / "missing", tmp_path / "empty", tmp_path / "bad.jsonl"):
        with pytest.raises(DataError):
            load([path], GraphSettings())
    (job / "entities" / "00001-abc.parquet").write_bytes(b"damaged")
    with pytest.raises(DataError):
        load([job], GraphSettings())
    (job / "entities" / "00001-abc.parquet").unlink()
    with pytest.raises(DataError):
        load([job], GraphSettings())


def test_a_job_without_texts_gives_a_graph_without_sentences(tmp_path):
    pytest.importorskip("duckdb")
    job = write_job(tmp_path / "job", DOCUMENTS, shards=1)
    path = job / "documents" / "00000-abc.parquet"
    table = parquet.read_table(path, partitioning=None)
    at = table.column_names.index("text")
    parquet.write_table(table.set_column(at, table.schema.field("text"), pa.nulls(4, pa.string())), path)
    report = build([job], tmp_path / "graph")
    assert report.counts["evidence"] > 0
    with open_graph(tmp_path / "graph") as graph:
        assert {row["sentence_text"] for row in graph.query("SELECT sentence_text FROM evidence")} == {None}
        assert graph.query("SELECT * FROM evidence WHERE sentence_end <= sentence_start") == []
