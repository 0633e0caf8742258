import os
import shutil
import sys

import pytest
from tests.small_models import SENTENCES, small_model, spread_probabilities

from cascade_srn.apps.integrations.spark import annotations, extract_partition, output_schema
from cascade_srn.errors import ConfigError
from cascade_srn.extractor import Extractor

THRESHOLDS = {"entity": 0.5, "subject": 0.3, "object": 0.3}
TEXT = " ".join(f"{' '.join(sentence.words).capitalize()}." for sentence in SENTENCES[:5])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A random model that finds entities and relations in ``TEXT`` with ``THRESHOLDS``."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    spread_probabilities(small_model(), seed=3).save(folder)
    return folder


@pytest.fixture(scope="module")
def document(model):
    return Extractor.from_pretrained(model, overlaps="all").extract(TEXT, thresholds=THRESHOLDS)


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    pyspark = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        session = (
            pyspark.SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.local.dir", str(folder))
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


def test_annotations_refer_to_entities_by_position(document):
    entities, relations = annotations(document)
    assert entities
    assert relations
    assert [(one["start"], one["end"], one["text"], one["label"]) for one in entities] == [
        (entity.start, entity.end, entity.text, entity.label) for entity in document.entities
    ]
    for relation in relations:
        for role in ("head", "tail"):
            entity = entities[relation[role]]
            assert {name: relation[f"{role}_{name}"] for name in ("start", "end", "text", "label")} == {
                name: entity[name] for name in ("start", "end", "text", "label")
            }
            assert entity["sentence"] == relation["sentence"]
    assert {one["sentence"] for one in entities} <= set(range(len(document.sentences)))


@pytest.mark.parametrize("wrong", [{"overlaps": "some"}, {"batch_words": 0}, {"threads": 0}, {"constraints": "maybe"}])
def test_wrong_arguments_are_refused_before_spark_starts(wrong):
    with pytest.raises(ConfigError):
        extract_partition(**wrong)


def test_the_function_works_on_frames(model, document):
    pd = pytest.importorskip("pandas")
    frames = [
        pd.DataFrame({"id": [1, 2, 3], "abstract": [TEXT, None, "half a pair \ud800"]}, dtype=object),
        pd.DataFrame({"id": [4], "abstract": [""]}),
        pd.DataFrame({"id": [], "abstract": []}),
        pd.DataFrame({"id": [5, 6], "abstract": [7, TEXT]}, index=[8, 8]),
    ]
    found = list(partition(model)(iter(frames)))
    assert [frame["id"].tolist() for frame in found] == [[1, 2, 3], [4], [], [5, 6]]
    rows = [row for frame in found for row in frame.to_dict("records")]
    assert [row["error"] is None for row in rows] == [True, False, False, True, False, True]
    assert [row["entities"] is None for row in rows] == [False, True, True, False, True, False]
    assert rows[0]["entities"] == annotations(document)[0] == rows[5]["entities"]
    assert rows[3]["entities"] == rows[3]["relations"] == []


def test_a_missing_column_is_named(model):
    pd = pytest.importorskip("pandas")
    with pytest.raises(ConfigError, match="abstrct"):
        list(extract_partition(text="abstrct", model=model)(iter([pd.DataFrame({"abstract": ["a"]})])))


@pytest.mark.slow
def test_spark_keeps_all_rows_and_columns(spark, model, document):
    large = 2**53 + 1
    given = [(n, TEXT if n % 3 else None, None if n % 2 else large, ["a", "b"]) for n in range(12)]
    papers = spark.createDataFrame(given, "id int, abstract string, number bigint, tags array<string>").repartition(3)
    found = papers.mapInPandas(partition(model), schema=output_schema(papers.schema)).cache()
    rows = {row["id"]: row.asDict(recursive=True) for row in found.collect()}
    assert sorted(rows) == list(range(12))
    entities, relations = annotations(document)
    for number, text, count, tags in given:
        row = rows[number]
        assert (row["abstract"], row["number"], row["tags"]) == (text, count, tags)
        if text is None:
            assert row["error"]
            assert row["entities"] is None
        else:
            assert row["error"] is None
            assert without_scores(row["entities"]) == without_scores(entities)
            assert without_scores(row["relations"]) == without_scores(relations)
            assert [one["score"] for one in row["entities"]] == pytest.approx([one["score"] for one in entities])
    flat = found.selectExpr("id", "inline(entities)").collect()
    assert len(flat) == 8 * len(entities)


@pytest.mark.slow
def test_a_column_with_a_new_name_is_refused(spark):
    papers = spark.createDataFrame([("a", "b")], "text string, error string")
    with pytest.raises(ConfigError, match="error"):
        output_schema(papers.schema)


def partition(model):
    return extract_partition(text="abstract", model=model, thresholds=THRESHOLDS, overlaps="all")


def without_scores(rows):
    return [{name: value for name, value in row.items() if name != "score"} for row in rows]
