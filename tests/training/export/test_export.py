"""Export of tiny models: the folder, what cannot be exported, and the gate for lost accuracy in both directions."""

import json
import math
import os
import shutil
import subprocess
import sys
import urllib.request
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.small_models import SENTENCES, examples, small_model, spread_probabilities

from cascade_srn.cli import main
from cascade_srn.config import Thresholds
from cascade_srn.errors import ConfigError, ModelError
from cascade_srn.extractor import Extractor
from cascade_srn.model.folder import ENCODER_FILE, LIGHT_FILE, WEIGHTS_FILE
from cascade_srn.model.info import describe_model
from cascade_srn.model.model import Model
from cascade_srn.runtime.model import LightModel
from cascade_srn.storage.bundled import find_model
from cascade_srn.training.export import run as export_run
from cascade_srn.training.export.encoder import reuse_graph
from cascade_srn.types import Document

MANY = Thresholds(0.3, 0.1, 0.1)
ABSTRACTS = [path.read_text() for path in sorted((Path(__file__).parents[3] / "examples" / "abstracts").glob("*.txt"))]
TEXTS = ["A tagger helps parsing , translation and search engines .", "We train tagging models. Accuracy counts."]


def saved(folder, fusion="swift", damage=False, **settings):
    model = spread_probabilities(small_model(fusion, thresholds=MANY, **settings))
    if damage:
        make_int8_useless(model)
    model.save(folder)
    return folder


def make_int8_useless(model):
    """Let two large inputs of queries, keys and values cancel each other, which leaves int8 no steps for the others.

    In float32 they change nothing.
    """
    encoder = model.network.encoder.model
    attention = encoder.encoder.layer[0].attention
    with torch.no_grad():
        encoder.embeddings.LayerNorm.weight[:2] = 0
        encoder.embeddings.LayerNorm.bias[:2] = 64
        attention.output.dense.bias[:2] = -64
        for layer in (attention.self.query, attention.self.key, attention.self.value):
            # Otherwise the rest of the layer hides what attention computes.
            layer.weight *= 20
            layer.weight[:, 0], layer.weight[:, 1] = 512, -512


def write_own_predictions(folder, path, *, keep=lambda sentence: True):
    """Write the predictions of a model as gold, so that it has an F1 of 100."""
    predicted = Model.load(folder).predictor().predict(examples(SENTENCES))
    lines = [Document.from_sentences([s], id=str(i)).to_dict() for i, s in enumerate(predicted) if keep(s)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def test_int8_needs_documents(tmp_path):
    from cascade_srn.training.export.run import export_model

    with pytest.raises(ConfigError) as failed:
        export_model("scierc-small", tmp_path / "out", int8=True)
    assert failed.value.option == "dev"


@pytest.mark.parametrize(
    "options", [(), ("--in-place", "--output", "x"), ("--in-place", "--int8"), ("--in-place", "--dev", "dev.json")]
)
def test_options_that_do_not_fit(capsys, options):
    with pytest.raises(SystemExit) as stopped:
        main(["export", "scierc-small", *options])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("Error: ")


@pytest.mark.slow
class TestExport:
    @pytest.fixture(autouse=True)
    def _needs_export(self):
        for name in ("onnx", "onnxscript", "onnxruntime"):
            pytest.importorskip(name)

    @pytest.fixture
    def export(self):
        from cascade_srn.training.export.run import export_model

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

    def test_the_gate(self, tmp_path, export, monkeypatch):
        """A model that loses its decisions if all layers are in int8, and keeps them if the right one is not."""
        model, output = saved(tmp_path / "model", damage=True), tmp_path / "exported"
        dev = write_own_predictions(model, tmp_path / "dev.jsonl")
        with monkeypatch.context() as patch:
            patch.setattr("cascade_srn.training.export.run.MAX_FLOAT32", 0)
            with pytest.raises(ModelError) as failed:
                export(model, output, int8=True, dev=dev)
            assert failed.value.option == "allow_loss"
            assert not output.exists()
            result = export(model, output, int8=True, dev=dev, allow_loss=True)
            assert (result.n_float32, result.parity.is_accepted) == (0, False)
        assert describe_model(output).exported == "int8"
        result = export(model, output, int8=True, dev=dev, allow_loss=True)
        assert result.n_float32 > 0
        assert result.parity.worst_loss < 5
        together = Extractor.from_pretrained(output)
        for text, document in zip(TEXTS, together.stream(TEXTS), strict=True):
            assert together.extract(text) == document


@pytest.mark.slow
class TestInPlace:
    @pytest.fixture(autouse=True)
    def _needs_export(self):
        for name in ("onnx", "onnxscript"):
            pytest.importorskip(name)

    @pytest.fixture
    def add_files(self):
        from cascade_srn.training.export.run import add_light_files

        return add_light_files

    def test_a_folder(self, tmp_path, add_files):
        """One test, because an export takes seconds: the files, the documents, and files of other weights."""
        folder = store_as(saved(tmp_path / "model", "early", sequence_encoder="bisrn"), torch.float16)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        result = add_files(folder)
        assert (result.precision, result.parity) == ("float32", None)
        assert {path.name for path in folder.iterdir()} == {*before, ENCODER_FILE, LIGHT_FILE}
        assert {name: (folder / name).read_bytes() for name in before} == before
        check_no_weights(folder)
        # Torch still runs it where it is installed, on request.
        assert isinstance(Extractor.from_pretrained(folder, runtime="torch").model, Model)
        assert isinstance(Extractor.from_pretrained(folder, device="cpu").model, LightModel)
        models = [LightModel.load(folder), Model.load(folder)]
        found, expected = (list(Extractor(model).stream([*TEXTS, *ABSTRACTS])) for model in models)
        assert any(document.relations for document in expected)
        assert [document.sentences for document in found] == [document.sentences for document in expected]
        info = describe_model(folder)
        assert (info.light, info.exported, info.damaged) == (True, None, ())
        assert {ENCODER_FILE, LIGHT_FILE} <= set(info.files)
        # A model with the same weights in another type.
        models[1].save(tmp_path / "other")
        assert not {ENCODER_FILE, LIGHT_FILE} & {path.name for path in (tmp_path / "other").iterdir()}
        store_as(tmp_path / "other", torch.float32)
        for name in ("config.json", "model.safetensors"):
            shutil.copy(tmp_path / "other" / name, folder / name)
        assert Model.load(folder)
        assert describe_model(folder).damaged == (LIGHT_FILE,)
        with pytest.raises(ModelError):
            LightModel.load(folder)
        models[1].save(folder)
        assert not {ENCODER_FILE, LIGHT_FILE} & {path.name for path in folder.iterdir()}

    @pytest.fixture
    def trained(self, tmp_path):
        """The bundled model with other weights, which are stored in 32 bits."""
        model = Model.load(find_model())
        with torch.no_grad():
            for parameter in model.network.encoder.parameters():
                parameter.mul_(1.01)
        model.save(tmp_path / "trained")
        return tmp_path / "trained"

    def test_the_graph_of_the_start_is_used_again(self, trained, add_files, monkeypatch):
        monkeypatch.setattr(export_run, "export_encoder", None)
        add_files(trained, start="scierc-small")
        check_no_weights(trained)
        found, expected = (list(Extractor(model.load(trained)).stream(ABSTRACTS)) for model in (LightModel, Model))
        assert any(document.relations for document in expected)
        assert [document.sentences for document in found] == [document.sentences for document in expected]
        add_files(trained, start=trained)
        assert describe_model(trained).light

    @pytest.mark.parametrize("fault", ["other shapes", "other layers", "damaged", "gone"])
    def test_a_graph_that_does_not_fit_is_not_used(self, tmp_path, trained, add_files, monkeypatch, fault):
        import onnx

        def export(*args, **options):
            raise ModelError("a new export")

        start = tmp_path / "start"
        shutil.copytree(saved(tmp_path / "small") if fault == "other shapes" else find_model(), start)
        if fault == "other shapes":
            add_files(start)
            assert not reuse_graph(start, trained / WEIGHTS_FILE, tmp_path / ENCODER_FILE)
        elif fault == "other layers":
            graph = onnx.load(str(start / ENCODER_FILE), load_external_data=False)
            for node in graph.graph.node:
                node.op_type = node.op_type.replace("Gelu", "Tanh")
            (start / ENCODER_FILE).write_bytes(graph.SerializeToString())
        elif fault == "damaged":
            (start / ENCODER_FILE).write_bytes(b"damaged")
        else:
            shutil.rmtree(start)
        monkeypatch.setattr(export_run, "export_encoder", export)
        with pytest.raises(ModelError, match="a new export"):
            add_files(trained, start=start)
        assert not (trained / ENCODER_FILE).exists()

    def test_what_is_refused(self, tmp_path, add_files):
        for name in ("scierc-small", "owner/name"):
            with pytest.raises(ModelError) as failed:
                add_files(name)
            assert failed.value.option == "in_place"
        folder = saved_plain(tmp_path / "bilstm", sequence_encoder="bilstm")
        before = sorted(path.name for path in folder.iterdir())
        with pytest.raises(ModelError):
            add_files(folder)
        assert sorted(path.name for path in folder.iterdir()) == before

    def test_commands_without_torch(self, tmp_path):
        text = "We train a CRF for named entity recognition."
        expected = Extractor.from_pretrained().extract(text)
        run_without_torch("scierc-small", [text], [expected])
        serve_without_torch("scierc-small", text, expected, "--workers", 2)
        data = tmp_path / "data.jsonl"
        data.write_text(json.dumps(expected.to_dict()) + "\n", encoding="utf-8")
        refused = (
            ("extract", "--text", text, "--model", saved(tmp_path / "plain")),
            ("extract", "--text", text, "--device", "cuda"),
            ("extract", "--text", text, "--precision", "bf16"),
            ("serve", "--device", "cuda"),
            ("evaluate", "scierc-small", data),
            ("calibrate", "scierc-small", data, "--output", tmp_path / "calibrated"),
            ("train", Path(__file__).parents[3] / "recipes" / "news.yaml"),
            ("export", "scierc-small", "--output", tmp_path / "exported"),
            ("benchmark", "srn"),
        )
        done = without_torch(json.dumps(refused, default=str))
        assert done.stdout.split() == ["2"] * len(refused), done.stderr
        lines = done.stderr.splitlines()
        assert len(lines) == len(refused)
        for line, arguments in zip(lines, refused, strict=True):
            assert "cascade-srn[train]" in line, (arguments, line)


def store_as(folder, dtype):
    """Store the weights of a saved model in another type, as a model without checksums."""
    path = folder / "model.safetensors"
    save_file({name: value.to(dtype) for name, value in load_file(path).items()}, path, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config.pop("sha256", None)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def check_no_weights(folder):
    import onnx

    graph = onnx.load(str(folder / ENCODER_FILE), load_external_data=False).graph
    external = [weight for weight in graph.initializer if weight.data_location == onnx.TensorProto.EXTERNAL]
    assert {item.value for weight in external for item in weight.external_data if item.key == "location"} == {
        "model.safetensors"
    }
    stored = {n: value for n, value in load_file(folder / "model.safetensors").items() if n.startswith("encoder.")}
    # Some weights of the encoder, such as those of the pooler, are not used.
    assert sum(math.prod(weight.dims) for weight in external) > 0.8 * sum(value.numel() for value in stored.values())
    assert sum(len(weight.raw_data) for weight in graph.initializer) < 10_000
    assert (folder / ENCODER_FILE).stat().st_size < 50_000


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
if sys.argv[1].startswith("["):
    # Several commands in one process. Print their exit codes.
    import json
    for arguments in json.loads(sys.argv[1]):
        try:
            main(arguments)
        except SystemExit as stopped:
            print(stopped.code)
else:
    main(sys.argv[1:])
"""


def without_torch(*arguments):
    """Run a command, or a JSON list of commands, in a process in which torch cannot be imported."""
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


def serve_without_torch(folder, text, expected, *options):
    """Start the service, send a text, and stop the service."""
    pytest.importorskip("fastapi")
    command = [sys.executable, "-c", BLOCKED, "serve", "--model", str(folder), "--port", "0", "--quiet"]
    command += map(str, options)
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
