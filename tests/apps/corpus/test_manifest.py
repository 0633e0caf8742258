import json
from dataclasses import replace

import pytest
from tests.apps.corpus.jobs import save_model, settings

from cascade_srn.apps.corpus.manifest import JobFolder, Manifest, model_checksum
from cascade_srn.apps.corpus.settings import CorpusSettings
from cascade_srn.apps.corpus.shards import InputFile, Shard, ShardResult
from cascade_srn.errors import ConfigError
from cascade_srn.storage.files import checksum

FILES = (
    InputFile("/data/a.jsonl", "jsonl", 5, 100, "aa", "a.jsonl"),
    InputFile("/data/b.jsonl", "jsonl", 2, 40, "bb", "b.jsonl"),
)
SHARDS = (Shard("00000-12345678", ((0, 0, 4),)), Shard("00001-87654321", ((0, 4, 5), (1, 0, 2))))


def describe(folder, *, files=FILES, checksum="c0ffee", chosen=None, shards=SHARDS):
    return Manifest.describe(files, folder / "model", checksum, chosen or settings(), shards)


def test_a_manifest_survives_json(tmp_path):
    manifest = describe(tmp_path)
    assert Manifest.from_dict(json.loads(json.dumps(manifest.to_dict()))) == manifest
    assert manifest.n_rows == 7


def test_the_same_job_has_no_difference(tmp_path):
    moved = tuple(replace(file, address=f"/elsewhere/{file.name}", version="new") for file in FILES)
    assert describe(tmp_path).difference(describe(tmp_path, files=moved), settings()) == ""


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"checksum": "other"}, "model"),
        ({"files": FILES[:1]}, "b.jsonl is missing"),
        ({"files": (FILES[0], replace(FILES[1], sha256="cc"))}, "b.jsonl has changed"),
        ({"files": (*FILES, InputFile("/c", "text", 1, 1, "c", "c.txt"))}, "c.txt is new"),
        ({"shards": SHARDS[:1]}, "shards"),
        ({"chosen": settings(shard_documents=5)}, "shard_documents is 5, not 4"),
        ({"chosen": settings(thresholds=0.7)}, "thresholds is 0.7, not none"),
        ({"chosen": settings(overlaps="all")}, 'overlaps is "all", not "flat"'),
    ],
)
def test_a_difference_is_named(tmp_path, changes, named):
    difference = describe(tmp_path).difference(describe(tmp_path, **changes), changes.get("chosen", settings()))
    assert named in difference


def test_another_version_of_the_software_is_a_difference(tmp_path):
    old = describe(tmp_path)
    new = replace(old, software={**old.software, "torch": "0.1"})
    assert "torch is 0.1" in old.difference(new, settings())


def test_batch_size_and_when_to_give_up_may_change(tmp_path):
    chosen = settings(max_attempts=9, max_error_share=0.5, batch_words=300)
    assert describe(tmp_path).difference(describe(tmp_path, chosen=chosen), chosen) == ""


def test_the_checksum_of_a_model_depends_on_all_files_but_the_card(tmp_path):
    model = save_model(tmp_path / "model")
    before = model_checksum(model)
    (model / "README.md").write_text("another card")
    assert model_checksum(model) == before
    config = model / "config.json"
    config.write_text(config.read_text() + "\n")
    assert model_checksum(model) != before


def test_a_shard_is_finished_if_its_files_match_its_record(tmp_path):
    from cascade_srn.apps.corpus.manifest import record_text

    folder = JobFolder(tmp_path)
    folder.write_manifest(describe(tmp_path))
    folder.make_folders()
    (table := tmp_path / "documents" / f"{SHARDS[0].id}.jsonl").write_bytes(b"{}\n" * 4)
    files = {f"documents/{table.name}": checksum(table)}
    record = ShardResult(SHARDS[0].id, {"documents": 4, "entities": 0, "relations": 0, "errors": 0}, files, 1, 1, 0.5)
    (path := tmp_path / "shards" / f"{SHARDS[0].id}.json").write_text(record_text(record))
    assert list(folder.finished(SHARDS, check=True)) == [(SHARDS[0], record)]
    path.write_text(record_text(replace(record, rows={**record.rows, "documents": 3, "errors": 1})))
    assert list(folder.finished(SHARDS, check=True)) == []
    path.write_text(record_text(record))
    table.write_bytes(b"[]\n" * 4)
    assert list(folder.finished(SHARDS, check=True)) == []
    assert list(folder.finished(SHARDS)) == [(SHARDS[0], record)]
    table.unlink()
    assert list(folder.finished(SHARDS, check=True)) == []
    folder.remove_unfinished(SHARDS)
    assert list(folder.finished(SHARDS)) == []


@pytest.mark.parametrize(
    "given",
    [
        {"format": "xml"},
        {"overlaps": "some"},
        {"batch_words": 0},
        {"max_attempts": 0},
        {"threads": 0},
        {"max_error_share": 1.5},
        {"format": "jsonl", "store_text": False},
    ],
)
def test_wrong_settings_are_refused(given):
    with pytest.raises(ConfigError):
        CorpusSettings(**given)
