"""The examples of docs/extract.md run, and the options it names exist."""

import json
import re
from pathlib import Path

import pytest
import typer
from tests.apps.extract.models import model_folder
from typer.main import get_command

from cascade_srn import Document, Schema
from cascade_srn.cli.extract import extract
from cascade_srn.model.model import Model
from cascade_srn.storage import bundled
from cascade_srn.types import Sentence, Span

PAGE = (Path(__file__).parents[3] / "docs" / "extract.md").read_text(encoding="utf-8")


def test_the_examples_run(tmp_path, monkeypatch):
    pytest.importorskip("networkx")
    model = Model.load(model_folder())
    schema = Schema(("Method", "Organization", "Task"), ("USED-FOR", *model.schema.relation_types[1:]))
    Model(model.settings, schema, model.tokenizer, model.cascade).save(tmp_path / "models" / bundled.DEFAULT)
    monkeypatch.setattr(bundled, "_MODELS", tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 10
    names = {}
    for block in blocks:
        exec(block, names)
    assert len(names["documents"]) == 2
    assert Path("picture.svg").read_text(encoding="utf-8").startswith("<svg")
    assert len(names["document"].entities) == 2


def test_the_json_example_is_a_document():
    shown = re.search(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)[1]
    document = Document.from_dict(json.loads(shown))
    assert document == Document(
        "A CRF.", (Sentence(("A", "CRF", "."), ((0, 1), (2, 5), (5, 6)), (Span(1, 2, "Method"),)),), "d"
    )


def test_all_options_exist():
    app = typer.Typer()
    app.command()(extract)
    known = {name for parameter in get_command(app).params for name in parameter.opts}
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE))
    assert shown <= known
    assert len(shown) > 8
