"""docs/serve.md: all operations, options, limits, codes and metrics, and its Python example."""

import dataclasses
import inspect
import json
import re
from pathlib import Path

import pytest
from tests.apps.extract.models import model_folder
from tests.apps.service.live import TEXT
from tests.cli.conftest import run
from tests.small_models import small_model

from cascade_srn import Document, Extractor, Sentence, write_documents
from cascade_srn.apps.service.messages import DocumentForm, ExtractRequest
from cascade_srn.apps.web.settings import Limits
from cascade_srn.cli.serve import serve

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")


def test_every_option_with_its_default():
    documented = dict(re.findall(r"^\| `--([a-z-]+)` \| `(.*?)` \|", PAGE, flags=re.MULTILINE))
    parameters = inspect.signature(serve).parameters.values()
    assert documented == {p.name.replace("_", "-"): str(p.default) for p in parameters}


def test_every_limit_with_its_default():
    documented = dict(re.findall(r"^\| `([a-z_]+)` \| ([0-9.]+) \|", PAGE, flags=re.MULTILINE))
    assert documented == {field.name: str(field.default) for field in dataclasses.fields(Limits)}


def test_every_operation(service):
    for path, operations in service.client.get("/openapi.json").json()["paths"].items():
        for method in operations:
            assert f"`{method.upper()} {path}`" in PAGE


def test_every_metric(service):
    names = re.findall(r"# TYPE (\S+)", service.client.get("/metrics").text)
    assert sorted(names) == sorted(set(re.findall(r"`(cascade_srn_\w+)`", PAGE)))


def test_every_code():
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/cascade_srn/apps").glob("[sw]e*/*.py"))
    codes = set(re.findall(r'Refusal\(\s*[\w.]+,\s*"(\w+)"', source)) | set(re.findall(r'unavailable\("(\w+)"', source))
    assert len(codes) > 10
    for code in codes - {"client_gone"}:  # no client receives it
        assert f"`{code}`" in PAGE, code


def test_its_json_matches_the_forms():
    request, response = re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(ExtractRequest.model_validate_json(request).texts) == 2
    DocumentForm.model_validate_json(response)


def test_all_documents_have_the_form_of_the_schema(service, extractor, tmp_path, capsys):
    jsonschema = pytest.importorskip("jsonschema")
    schema = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "document.schema.json").read_text("utf-8")))
    assert run("extract", "--text", TEXT, "--format", "jsonl", "--model", model_folder(), "--device", "cpu") == 0
    line = json.loads(capsys.readouterr().out)
    (answer,) = service.post("/extract", {"text": TEXT}).json()["documents"]
    found = extractor.extract(TEXT)
    write_documents([Document.from_sentences([Sentence.from_words(["a", "b"])], id="a"), found], tmp_path / "o.jsonl")
    written = [json.loads(record) for record in (tmp_path / "o.jsonl").read_text("utf-8").splitlines()]
    for record in (line, answer, found.to_dict(), *written):
        schema.validate(record)
    assert line["entities"]
    assert found.relations
    assert written[1] == found.to_dict()
    assert Document.from_dict(line).to_dict() == {k: v for k, v in line.items() if k not in ("model", "version")}
    assert service.post("/convert", {"document": line, "format": "brat"}).status_code == 200
    with pytest.raises(jsonschema.ValidationError):
        schema.validate({**answer, "entities": [{**answer["entities"][0], "score": 2}]})


@pytest.mark.slow
def test_its_sample_is_the_response_of_the_bundled_model():
    document = json.loads(re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)[1])
    found = Extractor.from_pretrained().extract(document["text"]).to_dict()
    for annotation in (*found["entities"], *found["relations"]):
        annotation["score"] = pytest.approx(annotation["score"], abs=1e-3)
    assert document == found


def test_its_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_model().save(tmp_path / "runs" / "news" / "best")
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names = {}
    exec(compile(block, "docs/serve.md", "exec"), names)
    assert names["app"].state.engine.settings.limits.texts == 16
