"""Export of tiny models: the folder, what cannot be exported, and the gate for lost accuracy in both directions."""

import json
import os
import subprocess
import sys
import urllib.request
from dataclasses import replace
from functools import partial

import pytest
import torch
from tests.small_models import SENTENCES, examples, small_model, spread_probabilities

from cascade_srn.config import Thresholds
from cascade_srn.errors import ConfigError, ModelError
from cascade_srn.extractor import Extractor
from cascade_srn.model.info import describe_model
from cascade_srn.model.model import Model
from cascade_srn.types import Document

MANY = Thresholds(0.3, 0.1, 0.1)
TEXTS = ["A tagger helps parsing , translation and search engines .", "We train tagging models. Accuracy counts."]


def saved(folder, fusion="swift", damage=False, **settings):
    model = spread_probabilities(small_model(fusion, thresholds=MANY, **settings))
    if damage:
        make_int8_useless(model)
    model.save(folder)
    return folder


def make_int8_useless(model):
    """Add weights that are a thousand times larger than all others, for an input that is always 0.

    In float32 they change nothing. In int8 they leave one step to all other weights of their channel.
    """
    encoder = model.network.encoder.model
    with torch.no_grad():
        for part in (encoder.embeddings.LayerNorm.weight, encoder.embeddings.LayerNorm.bias):
            part[0] = 0
        attention = encoder.encoder.layer[0].attention
        for layer in (attention.self.query, attention.self.key, attention.self.value):
            layer.weight[:, 0] = 1000 * layer.weight.abs().max()
            # Otherwise the rest of the layer hides what attention computes.
            layer.weight[:, 1:] *= 20


def write_own_predictions(folder, path, *, keep=lambda sentence: True):
    """Write the predictions of a model as gold, so that it has an F1 of 100."""
    predicted = Model.load(folder).predictor().predict(examples(SENTENCES))
    lines = [Document.from_sentences([s], id=str(i)).to_dict() for i, s in enumerate(predicted) if keep(s)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def test_int8_needs_documents(tmp_path):
    from cascade_srn.export.run import export_model

    with pytest.raises(ConfigError) as failed:
        export_model("scierc-small", tmp_path / "out", int8=True)
    assert failed.value.option == "dev"


@pytest.mark.slow
class TestExport:
    @pytest.fixture(autouse=True)
    def _needs_export(self):
        for name in ("onnx", "onnxscript", "onnxruntime"):
            pytest.importorskip(name)

    @pytest.fixture
    def export(self):
        from cascade_srn.export.run import export_model

        return partial(export_model, format="jsonl")

    @pytest.mark.parametrize(("fusion", "settings"), [("swift", {}), ("early", {"sequence_encoder": "bisrn"})])
    def test_the_same_documents(self, tmp_path, export, fusion, settings):
        model, output = saved(tmp_path / "model", fusion, **settings), tmp_path / "exported"
        dev = write_own_predictions(model, tmp_path / "dev.jsonl")
        result = export(model, output, dev=dev)
        assert (result.precision, result.parity.n_changed, result.recalibrated) == ("float32", 0, False)
        assert result.parity.after == result.parity.before == {"ner": 100, "re_boundaries": 100, "re_strict": 100}
        assert result.parity.max_score_difference < 1e-4
        extractors = [Extractor.from_pretrained(folder) for folder in (output, model)]
        found, expected = (list(each.stream(TEXTS)) for each in extractors)
        assert [document.sentences for document in found] == [document.sentences for document in expected]
        info = describe_model(output)
        assert (info.exported, info.damaged, info.n_parameters) == ("float32", (), describe_model(model).n_parameters)
        assert json.loads((output / "parity.json").read_text())["parity"]["n_changed"] == 0
        assert "## Export" in (output / "README.md").read_text()
        # It replaces its own output, but no model, and is not a model of torch.
        export(model, output)
        for refused in (model, tmp_path):
            with pytest.raises(ModelError):
                export(model, refused)
        for load in (Model.load, lambda folder: export(folder, tmp_path / "again")):
            with pytest.raises(ModelError):
                load(output)
        run_without_torch(output, TEXTS, expected)
        serve_without_torch(output, TEXTS[0], expected[0])
        for name in ("encoder.onnx", "model.safetensors", "tokenizer.json"):
            check_damage(output, name)

    def test_what_cannot_be_exported(self, tmp_path, export):
        for name, settings in (("bilstm", {"sequence_encoder": "bilstm"}), ("pfn", {"method": "pfn"})):
            folder = saved_plain(tmp_path / name, **settings)
            with pytest.raises(ModelError):
                export(folder, tmp_path / "out")
            assert not (tmp_path / "out").exists()

    def test_the_gate(self, tmp_path, export):
        model, output = saved(tmp_path / "model"), tmp_path / "exported"
        # What int8 decides as float32 does is no loss.
        int8 = Extractor.from_pretrained(export(model, output, int8=True, allow_loss=True).folder).model
        same = set(int8.predictor().predict(examples(SENTENCES)))
        dev = write_own_predictions(model, tmp_path / "dev.jsonl", keep=lambda sentence: sentence in same)
        result = export(model, output, int8=True, dev=dev)
        assert result.precision == "int8"
        assert result.parity.is_accepted
        assert describe_model(output).exported == "int8"
        damaged = saved(tmp_path / "damaged", damage=True)
        dev = write_own_predictions(damaged, tmp_path / "damaged.jsonl")
        before = sorted((path.name, path.stat().st_mtime_ns) for path in output.iterdir())
        with pytest.raises(ModelError) as failed:
            export(damaged, output, int8=True, dev=dev)
        assert failed.value.option == "allow_loss"
        assert sorted((path.name, path.stat().st_mtime_ns) for path in output.iterdir()) == before
        assert export(damaged, output, dev=dev).parity.worst_loss == 0
        allowed = export(damaged, output, int8=True, dev=dev, allow_loss=True)
        assert not allowed.parity.is_accepted
        assert allowed.parity.worst_loss > 0.5


def saved_plain(folder, **settings):
    model = small_model("swift", **settings)
    replace(model).save(folder)
    return folder


def check_damage(folder, name):
    path = folder / name
    before = path.read_bytes()
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    with pytest.raises(ModelError):
        Extractor.from_pretrained(folder)
    assert describe_model(folder).damaged == (name,)
    path.unlink()
    with pytest.raises(ModelError):
        Extractor.from_pretrained(folder)
    path.write_bytes(before)


BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "accelerate", "onnx", "onnxscript"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from cascade_srn.cli import main
main(sys.argv[1:])
"""


def without_torch(*arguments):
    """Run a command in a process in which torch cannot be imported."""
    command = [sys.executable, "-c", BLOCKED, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300, env=os.environ, check=False)


def run_without_torch(folder, texts, expected):
    given = [part for text in texts for part in ("--text", text)]
    done = without_torch("extract", "--model", folder, "--format", "jsonl", *given)
    assert done.returncode == 0, done.stderr
    for line, document in zip(done.stdout.splitlines(), expected, strict=True):
        found = json.loads(line)
        entities = [(entity["start"], entity["end"], entity["label"]) for entity in found["entities"]]
        assert entities == [(entity.start, entity.end, entity.label) for entity in document.entities]
        assert len(found["relations"]) == len(document.relations)
    assert without_torch("info", folder).returncode == 0
    refused = without_torch("extract", "--text", texts[0])
    assert refused.returncode == 2
    assert "torch" in refused.stderr
    assert "Traceback" not in refused.stderr


def serve_without_torch(folder, text, expected):
    """Start the service, send a text, and stop the service."""
    pytest.importorskip("fastapi")
    command = [sys.executable, "-c", BLOCKED, "serve", "--model", str(folder), "--port", "0", "--quiet"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8") as service:
        try:
            ready = next(line for line in service.stderr if line.startswith("Serving"))
            address = next(word for word in ready.split() if word.startswith("http"))
            body = json.dumps({"text": text}).encode()
            request = urllib.request.Request(
                f"{address.rstrip('/')}/extract", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=120) as answer:
                (found,) = json.load(answer)["documents"]
        finally:
            service.terminate()
    assert [entity["text"] for entity in found["entities"]] == [entity.text for entity in expected.entities]
