"""Texts that cannot be used, and the files of selected units."""

import json

import pytest
from tests.apps.annotation.test_selection import TEXTS, extractor

from cascade_srn import read_documents
from cascade_srn.apps.annotation import select
from cascade_srn.apps.annotation.selection_files import (
    ReadableTexts,
    choose_format,
    to_prediction_task,
    write_selected,
)
from cascade_srn.errors import DataError
from cascade_srn.inputs.sources import Text, Unreadable
from cascade_srn.text.segment import segment


def test_unusable_texts_are_counted_and_reported():
    told = []
    sources = [
        Text("a", TEXTS[0], "a.txt", 10),
        Unreadable(DataError("b.txt is broken"), 20),
        Text("c", "a \ud800 b", "c.txt", 30),
    ]
    texts = ReadableTexts(sources, segment, tell=told.append)
    assert [document.id for document in texts] == ["a"]
    assert (texts.n_bad, texts.position) == (2, 30)
    assert "b.txt" in told[0]
    assert "c.txt" in told[1]
    with pytest.raises(DataError):
        list(ReadableTexts(sources, segment, strict=True))


def test_json_lines_are_read_back(tmp_path):
    selected = select(TEXTS, 3, model=extractor())
    write_selected(selected, tmp_path / "a.jsonl", "jsonl")
    stream = read_documents(tmp_path / "a.jsonl")
    assert list(stream) == [one.document for one in selected]
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [record["selection"]["rank"] for record in records] == [1, 2, 3]


def test_tasks_have_predictions_and_no_annotations(tmp_path):
    selected = select(TEXTS, 20, model=extractor())
    write_selected(selected, tmp_path / "a.json", "label-studio", model="tiny")
    tasks = json.loads((tmp_path / "a.json").read_text())
    assert [task["data"]["rank"] for task in tasks] == [one.rank for one in selected]
    assert all("annotations" not in task for task in tasks)
    assert {found["model_version"] for task in tasks for found in task["predictions"]} == {"tiny"}
    read = list(read_documents(tmp_path / "a.json", "label-studio"))
    assert [document.entities for document in read] == [one.document.entities for one in selected]
    assert sum(len(document.relations) for document in read) > 0


def test_a_task_without_predictions_is_not_done():
    (one,) = select(TEXTS, 1, strategy="random")
    assert to_prediction_task(one)["predictions"] == []


def test_formats_by_suffix(tmp_path):
    assert choose_format(None, None) == choose_format(None, tmp_path / "a.jsonl") == "jsonl"
    assert choose_format(None, tmp_path / "a.JSON") == "label-studio"
    assert choose_format("jsonl", tmp_path / "a.json") == "jsonl"
