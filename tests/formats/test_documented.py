import json
import re
from pathlib import Path

import pytest

from cascade_srn.errors import AnnotationError, DataError
from cascade_srn.formats.label_map import LabelMap
from cascade_srn.formats.registry import read_documents, read_schema

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")


def block(heading):
    """The first block of code below a heading."""
    return re.search(rf"^## {heading}\n.*?^```\w*\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[1]


SUFFIXES = {"brat": ".ann", "table": ".csv"}
WITH_RELATIONS = [
    "dygie", "spert", "brat", "jsonl", "label-studio", "doccano", "prodigy", "bioc", "pubtator", "table",
    "triples",
]  # fmt: skip


@pytest.mark.parametrize("format", WITH_RELATIONS)
def test_the_example_of_each_format(tmp_path, segmenter, format):
    path = tmp_path / f"example{SUFFIXES.get(format, '.json')}"
    path.write_text(block(format), encoding="utf-8")
    (tmp_path / "example.txt").write_text("A CRF tags text.")
    stream = read_documents(path, segmenter=segmenter)
    (document,) = stream
    assert stream.format == format
    assert [(e.text, e.label) for e in document.entities][:2] == [("CRF", "Method"), ("text", "Material")]
    assert [(r.head.text, r.label, r.tail.text) for r in document.relations] == [("CRF", "Used-for", "text")]
    assert not stream.report.noted


def test_the_example_of_columns(tmp_path):
    path = tmp_path / "example"
    path.write_text(block("conll"), encoding="utf-8")
    stream = read_documents(path)
    (document,) = stream
    assert stream.format == "conll"
    assert [(e.text, e.label) for e in document.entities] == [("CRF", "Method"), ("text", "Material")]


def test_the_example_of_a_label_map(tmp_path):
    path = tmp_path / "labels.yaml"
    path.write_text(block("Label maps"), encoding="utf-8")
    labels = LabelMap.read(path)
    assert labels.entities == {"Meth": "Method", "Algorithm": "Method", "Generic": None}
    assert (labels.relations, labels.others) == ({"usedFor": "Used-for"}, "keep")


def test_both_forms_of_a_schema(tmp_path):
    path = tmp_path / "schema.json"
    section = PAGE.split("## Label sets")[1]
    examples = re.findall(r"^```json\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert len(examples) == 3
    for example in examples:
        path.write_text(example)
        assert "Task" in read_schema(path).entity_types
        assert read_schema(path).symmetric == {"Compare"}
    constrained = read_schema(path)
    assert not constrained.allows("Method", "Compare", "Task")
    assert constrained.inverses["Has-part"] == "Part-of"


def test_the_messages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    jsonl = json.loads(block("jsonl"))
    jsonl["entities"] = [{"start": 3, "end": 5, "label": "Method"}]
    Path("notes.jsonl").write_text(json.dumps(jsonl))
    dygie = json.loads(block("dygie"))
    dygie["ner"][0][1] = [4, 3, "Method"]
    Path("train.json").write_text("\n\n" + json.dumps({**dygie, "doc_key": "d3"}))
    (spert,) = json.loads(block("spert"))
    wrong = {**spert, "relations": [{"type": "Used-for", "head": 0, "tail": 5}], "orig_id": "s2"}
    Path("train.spert").write_text(json.dumps([spert, wrong]))
    for name in ("notes.jsonl", "train.json", "train.spert"):
        with pytest.raises((DataError, AnnotationError)) as caught:
            list(read_documents(name))
        assert f"{caught.value}\n" in PAGE
