import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.small_models import link_bundled_model

from cascade_srn import Extractor
from cascade_srn.errors import ConfigError, ModelError
from cascade_srn.evaluation.scores import score_documents
from cascade_srn.formats.registry import read_documents
from cascade_srn.model.folder import (
    ENCODER_FILE,
    LIGHT_FILE,
    WEIGHTS_FILE,
    find_changed,
    model_checksum,
    read_light,
    runs_light,
)
from cascade_srn.model.info import describe_model
from cascade_srn.model.model import Model
from cascade_srn.runtime.model import LightModel, count_threads
from cascade_srn.storage.bundled import DEFAULT, bundled_models, find_model

FOLDER = find_model()
CARD = (FOLDER / "README.md").read_text(encoding="utf-8")
TEST = Path(__file__).parents[3] / "shared" / "data" / "scierc" / "dygie" / "test.json"
ABSTRACTS = Path(__file__).parents[2] / "examples" / "abstracts"


@pytest.fixture(scope="module")
def extractor():
    return Extractor.from_pretrained()


@pytest.fixture(scope="module")
def in_torch():
    return Extractor.from_pretrained(device="cpu", runtime="torch")


@pytest.fixture
def no_torch(monkeypatch):
    """Load models as in an installation without torch."""
    for module in ("model.folder", "extractor"):
        monkeypatch.setattr(f"cascade_srn.{module}.missing_for_torch", lambda: ["torch"])


def abstracts():
    return [path.read_text(encoding="utf-8") for path in sorted(ABSTRACTS.glob("*.txt"))]


def test_it_is_the_only_one_and_smaller_than_50_mb():
    assert bundled_models() == [DEFAULT] == ["scierc-small"]
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= 50_000_000
    assert all(weights.dtype == torch.float16 for weights in load_file(FOLDER / "model.safetensors").values())


def test_it_computes_in_float32(in_torch):
    assert {weights.dtype for weights in in_torch.model.cascade.parameters()} == {torch.float32}


def test_labels_on_the_card(extractor):
    rows = dict(re.findall(r"^\| (entity types|relation types) \| (.*) \|$", CARD, flags=re.MULTILINE))
    assert rows["entity types"].split(", ") == list(extractor.schema.entity_types)
    relations = [label.removesuffix(" (symmetric)") for label in rows["relation types"].split(", ")]
    assert relations == list(extractor.schema.relation_types)
    assert set(re.findall(r"(\S+) \(symmetric\)", rows["relation types"])) == set(extractor.schema.symmetric)


def test_example_abstracts(extractor):
    documents = list(extractor.stream(abstracts(), on_error="raise"))
    assert len(documents) == 3
    for document in documents:
        assert len(document.entities) >= 8
        assert len(document.relations) >= 4
        assert document.coverage.complete
        assert all(document.text[entity.start : entity.end] == entity.text for entity in document.entities)


def test_both_runtimes_find_the_same(in_torch):
    light = Extractor.from_pretrained(device="cpu")
    assert isinstance(light.model, LightModel)
    assert isinstance(in_torch.model, Model)
    found, expected = (list(each.stream(abstracts(), on_error="raise")) for each in (light, in_torch))
    assert [document.sentences for document in found] == [document.sentences for document in expected]
    for one, other in zip(found, expected, strict=True):
        scores = [[relation.score for relation in each.relations] for each in (one, other)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-4)


def test_the_graph_has_no_weights():
    assert find_changed(FOLDER, read_light(FOLDER)) is None
    assert (FOLDER / ENCODER_FILE).stat().st_size < 50_000
    for name in (ENCODER_FILE, LIGHT_FILE):
        assert f"`{name}`" in CARD


def test_the_graph_of_other_weights_is_refused(tmp_path, no_torch):
    folder = link_bundled_model(tmp_path / "model", WEIGHTS_FILE)
    (folder / WEIGHTS_FILE).write_bytes(b"other")
    with pytest.raises(ModelError) as failed:
        Extractor.from_pretrained(folder)
    assert WEIGHTS_FILE in failed.value.problem
    assert "pip install" in failed.value.hint
    for content in ("{}", "[", '{"version": 1}'):
        (folder / LIGHT_FILE).unlink()
        (folder / LIGHT_FILE).write_text(content)
        with pytest.raises(ModelError):
            Extractor.from_pretrained(folder)


@pytest.mark.slow
def test_torch_ignores_the_graph_of_other_weights(tmp_path):
    folder = link_bundled_model(tmp_path / "model", ENCODER_FILE)
    (folder / ENCODER_FILE).write_bytes(b"other")
    with pytest.warns(UserWarning, match="PyTorch is used instead, because .* encoder.onnx is not the file") as caught:
        assert isinstance(Extractor.from_pretrained(folder, device="cpu").model, Model)
    assert len(caught) == 1
    (folder / WEIGHTS_FILE).unlink()
    (folder / WEIGHTS_FILE).write_bytes(b"other")
    with pytest.raises(ModelError) as failed:
        Extractor.from_pretrained(folder, device="cpu")
    assert WEIGHTS_FILE in failed.value.problem


@pytest.mark.parametrize("missing", [LIGHT_FILE, ENCODER_FILE])
def test_a_missing_part_of_the_export(tmp_path, missing, monkeypatch):
    """PyTorch is used with a warning, ``info`` says so, and without torch there is one sentence."""
    folder = link_bundled_model(tmp_path / "model", missing)
    with pytest.warns(UserWarning, match=f"PyTorch is used instead, because .* {missing} is missing"):
        assert isinstance(Extractor.from_pretrained(folder, device="cpu").model, Model)
    found = describe_model(folder)
    assert found.runtime == f"torch, because {missing} is missing"
    assert found.damaged == (missing,)
    assert not found.light
    for module in ("model.folder", "model.info", "extractor"):
        monkeypatch.setattr(f"cascade_srn.{module}.missing_for_torch", lambda: ["torch"])
    with pytest.raises(ModelError) as failed:
        Extractor.from_pretrained(folder)
    assert f"{missing} is missing" in failed.value.problem
    assert "pip install" in failed.value.hint
    assert describe_model(folder).runtime == f"none, because {missing} is missing and torch cannot be imported"
    assert describe_model(FOLDER).runtime == "ONNX Runtime; torch cannot be imported"


@pytest.mark.slow
def test_links_of_the_hub_cache(tmp_path):
    """A snapshot has links to files of the same repository in the cache. Both runtimes read them."""
    repository = tmp_path / "models--owner--name"
    blobs = link_bundled_model(repository / "blobs")
    snapshot = repository / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    for path in blobs.iterdir():
        (snapshot / path.name).symlink_to(Path("..", "..", "blobs", path.name))
    assert isinstance(Extractor.from_pretrained(snapshot, device="cpu").model, LightModel)
    assert isinstance(Extractor.from_pretrained(snapshot, device="cpu", runtime="torch").model, Model)
    assert describe_model(snapshot).damaged == ()


@pytest.mark.parametrize(
    ("options", "has_driver", "expected"),
    [
        ({}, False, True),
        ({"device": "cpu", "precision": "float32"}, True, True),
        ({}, True, False),
        ({"device": "cuda:1"}, False, False),
        ({"precision": "bf16"}, False, False),
        ({"runtime": "torch"}, False, False),
    ],
)
def test_choice_of_the_runtime(options, has_driver, expected, monkeypatch):
    monkeypatch.setattr("cascade_srn.model.folder.may_have_gpu", lambda: has_driver)
    assert runs_light(FOLDER, **options) == expected
    monkeypatch.setenv("CASCADE_SRN_RUNTIME", "torch")
    assert runs_light(FOLDER, **{"runtime": "auto", **options}) == expected
    assert not runs_light(FOLDER, **options)
    monkeypatch.setattr("cascade_srn.model.folder.missing_for_torch", lambda: ["torch"])
    assert runs_light(FOLDER, **options)


def test_unknown_runtimes_are_refused(monkeypatch):
    with pytest.raises(ConfigError):
        Extractor.from_pretrained(runtime="tensorflow")
    monkeypatch.setenv("CASCADE_SRN_RUNTIME", "light")
    with pytest.raises(ConfigError, match="CASCADE_SRN_RUNTIME"):
        Extractor.from_pretrained()


def test_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert count_threads() == 3
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 5)
    assert count_threads() == 5


FORKED = """
import os, sys
from cascade_srn import Extractor

extractor = Extractor.from_pretrained(device="cpu")
texts = ["We train a CRF for named entity recognition."] * 20
expected = extractor.extract(texts[0]).entities if sys.argv[1] == "used" else None
if (child := os.fork()) == 0:
    if sys.argv[1] != "idle":
        found = [document.entities for document in extractor(texts)]
        assert len(found[0]) == 2 and found.count(found[0]) == 20 and expected in (None, found[0])
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(extractor.extract(texts[0]).entities))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("before", ["used", "unused", "idle"])
def test_a_forked_process_starts_its_own_session_and_ends(before):
    """Servers load a model once and fork their workers, whose end would wait for threads of the session."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "CASCADE_SRN_RUNTIME": "auto"}
    command = [sys.executable, "-c", FORKED, before]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "7 2\n", done.stderr


@pytest.mark.slow
def test_saving_needs_torch(in_torch, tmp_path):
    with pytest.raises(ModelError, match="ONNX Runtime") as failed:
        Extractor.from_pretrained(device="cpu").save_pretrained(tmp_path / "copy")
    assert "runtime='torch'" in failed.value.hint
    in_torch.save_pretrained(tmp_path / "copy")
    assert (tmp_path / "copy" / WEIGHTS_FILE).is_file()


def test_the_graph_does_not_change_the_checksum(tmp_path):
    assert model_checksum(link_bundled_model(tmp_path / "model", ENCODER_FILE, LIGHT_FILE)) == model_checksum(FOLDER)


@pytest.mark.slow
@pytest.mark.skipif(not TEST.is_file(), reason="SciERC is missing")
def test_the_scores_on_the_card(extractor):
    gold = list(read_documents(TEST))
    # The annotations of the documents are replaced by those of the model.
    found = list(extractor.stream(gold, on_error="raise"))
    for column, symmetric in enumerate(("directed", "canonical", "doubled")):
        scores = score_documents(gold, found, schema=extractor.schema, symmetric=symmetric)
        for row, task, macro in (
            ("NER, micro", scores.ner, False),
            ("RE boundaries, micro", scores.re_boundaries, False),
            ("RE strict, micro", scores.re_strict, False),
            ("NER, macro", scores.ner, True),
            ("RE strict, macro", scores.re_strict, True),
        ):
            (line,) = re.findall(rf"^\| {row} \| (.*) \|$", CARD, flags=re.MULTILINE)
            reached = 100 * (task.macro_f1 if macro else task.counts.f1)
            # Rounding on another processor may change a few spans.
            assert reached == pytest.approx(float(line.split(" | ")[column]), abs=0.2), (row, symmetric)
