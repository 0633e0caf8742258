import errno
import json
import math
import os
import re
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from tests.formats.other_processes import can_hold
from tests.tiny_encoders import FAMILIES, tiny_encoder
from tests.training.adapt.fields import documents, small_settings, write_text
from transformers import AutoModel

from cascade_srn.encoder.pretrained import load_encoder, load_tokenizer, quiet_transformers
from cascade_srn.errors import CascadeError, ConfigError, DataError, ModelError
from cascade_srn.formats.registry import write_documents
from cascade_srn.text.segment import segment
from cascade_srn.training.adapt import AdaptSettings
from cascade_srn.training.adapt.run import Adaptation
from cascade_srn.types import Document

PAGE = (Path(__file__).parents[3] / "docs" / "adapt.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    # No dropout: then nothing but the division of a batch is different.
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.05}
    return tiny_encoder("bert", tmp_path_factory.mktemp("encoder"), **rates)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp("text"))


@pytest.fixture
def make(encoder, text, tmp_path):
    """Return a function that makes an adaptation in ``out`` with changed settings."""

    def adaptation(**changes):
        options = {name: changes.pop(name) for name in ("resume", "overwrite", "holdout") if name in changes}
        out = tmp_path / changes.pop("out", "out")
        return Adaptation([text], small_settings(encoder, **changes), out, device="cpu", command="adapt …", **options)

    return adaptation


def run(adaptation):
    """Return the progress reports."""
    reports = []
    adaptation.run(reports.append)
    return reports


def _summary(folder):
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


def _log(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    "family",
    [
        family if family in ("bert", "deberta-v2") else pytest.param(family, marks=pytest.mark.slow)
        for family in FAMILIES
    ],
)
def test_the_folder_is_an_encoder_that_learned(family, tmp_path, text):
    name = tiny_encoder(family, tmp_path / "before", initializer_range=0.05)
    settings = small_settings(name, learning_rate=5e-3, steps=25, log_steps=25)
    adaptation = Adaptation([text], settings, tmp_path / "out", device="cpu")
    first, _, last = run(adaptation)
    assert last.perplexity < 0.8 * first.perplexity
    trained = adaptation.model.base_model.state_dict()
    with quiet_transformers():
        loaded = [load_encoder(str(tmp_path / "out")).model, AutoModel.from_pretrained(tmp_path / "out")]
    before = load_encoder(name).model.state_dict()
    for model in loaded:
        own = model.state_dict()
        assert all(torch.equal(own[key], value) for key, value in trained.items())
        assert any(not torch.equal(own[key], before[key]) for key in trained)
    sentence = "We train a tagger for text."
    assert load_tokenizer(str(tmp_path / "out")).tokenize(sentence) == load_tokenizer(name).tokenize(sentence)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "summary.json", "log.jsonl", "adapt.json"} <= names
    assert not [found for found in names if found.startswith(".") or found == "last"]


def test_reports_log_and_summary(make, encoder, tmp_path):
    changes = {"evaluate_steps": 3, "log_steps": 4, "save_steps": 5, "steps": 8, "head_steps": 1}
    reports = run(make(**changes))
    assert [report.step for report in reports if report.loss is not None] == [1, 3, 4, 5, 6, 8, 9]
    measured = [report for report in reports if report.perplexity is not None]
    assert [report.step for report in measured] == [0, 1, 3, 6, 9]
    rows = [report.row() for report in reports]
    assert rows[0].line == f"step 0/9  held-out perplexity {measured[0].perplexity:,.2f}"
    assert re.fullmatch(r"step 1/9  loss \d\.\d{3}  [\d,]+ pieces/s  \d+ s left", rows[1].line)
    assert (rows[0].to_terminal, rows[1].to_terminal, rows[1].completed, rows[1].total) == (True, False, 1, 9)
    log = _log(tmp_path / "out")
    assert [line.get("loss") for line in log] == [report.loss for report in reports]
    assert [line.get("perplexity") for line in log] == [report.perplexity for report in reports]
    summary = _summary(tmp_path / "out")
    # The first measurement is of a random head.
    assert summary["perplexity"]["before"] == measured[1].perplexity
    assert [each["perplexity"] for each in summary["perplexity"]["during"]] == [m.perplexity for m in measured[2:-1]]
    assert summary["perplexity"]["after"] == measured[-1].perplexity
    assert summary["command"] == "adapt …"
    settings = small_settings(encoder, **changes).to_dict()
    assert summary["settings"] == {**settings, "encoder": f"…/{encoder.rpartition('/')[2]}"}
    assert (summary["documents"], summary["held_out_sequences"], summary["removed_sentences"]) == (120, 16, 0)
    assert (summary["steps"], summary["new_head"], summary["head_steps"]) == (9, True, 1)
    assert summary["environment"]["device"] == "cpu"
    assert str(tmp_path) not in json.dumps(summary)


@pytest.mark.slow
def test_rates_and_epochs(make):
    adaptation = make(steps=10, head_steps=2, log_steps=1, warmup=0.2, learning_rate=1e-3)
    rates = [report.learning_rate for report in run(adaptation) if report.loss is not None]
    assert rates == pytest.approx([1e-2, 1e-2, 5e-4, 1e-3, *(1e-3 * left / 8 for left in range(8, 0, -1))])
    by_epochs = make(steps=None, epochs=2, batch_size=100, out="epochs")
    assert by_epochs.n_steps == 2 * by_epochs.counts["sequences"] // 100
    assert make(steps=None, epochs=2, batch_size=100_000, out="large").n_steps == 1


@pytest.mark.slow
def test_a_new_head_learns_alone_at_first(make, tmp_path):
    first = make(steps=2, head_steps=3)
    before = deepcopy(first.model.state_dict())
    encoder = {f"{first.model.base_model_prefix}.{name}" for name in first.model.base_model.state_dict()}
    changed = {}

    def compare(step):
        after = first.model.state_dict()
        changed[step] = {name for name, value in after.items() if not torch.equal(value, before[name])}

    first.run(on_step=compare)
    assert changed[3]
    assert not changed[3] & encoder
    assert changed[5] & encoder
    # A checkpoint with a head needs no such steps, and continues where the first adaptation ended.
    text = write_text(tmp_path)
    again = Adaptation([text], small_settings(str(tmp_path / "out"), head_steps=3), tmp_path / "two", device="cpu")
    assert (again.new_head, again.n_head_steps, again.n_steps) == (False, 0, 6)
    assert run(again)[0].perplexity == pytest.approx(_log(tmp_path / "out")[-1]["perplexity"], rel=1e-6)


def test_the_loss_is_the_mean_over_masked_pieces_of_the_whole_batch(make):
    """A batch in parts has the same loss and gradients as a whole batch."""
    losses = {}
    for parts in (1, 4):
        adaptation = make(steps=2, log_steps=1, accumulation=parts, learning_rate=1e-4, out=f"parts-{parts}")
        network, rows = deepcopy(adaptation.model), [adaptation.train[i] for i in range(8)]
        losses[parts] = [report.loss for report in run(adaptation) if report.loss is not None]
    ids, labels = (torch.stack([row[name] for row in rows]) for name in ("input_ids", "labels"))
    with torch.no_grad():
        logits = network.eval()(input_ids=ids).logits
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    assert losses[1][0] == pytest.approx(float(expected), rel=1e-5)
    # The second loss depends on the gradients of the first step.
    assert losses[4] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.slow
def test_perplexity(make, encoder):
    adaptation, other = make(steps=1), make(steps=1, seed=9, out="other")
    # The same text with the same masks for every seed.
    ours, theirs = adaptation.held_out[3], other.held_out[3]
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    with torch.no_grad():
        for parameter in adaptation.model.parameters():
            parameter.zero_()
    # Guessing at random.
    assert run(adaptation)[0].perplexity == pytest.approx(len(load_tokenizer(encoder)), rel=1e-5)


@pytest.mark.slow
def test_a_loss_that_is_no_number(make):
    adaptation = make(log_steps=1)

    def spoil(step):
        with torch.no_grad():
            next(adaptation.model.parameters()).fill_(math.nan)

    with pytest.raises(CascadeError, match="loss .*step 2"):
        adaptation.run(on_step=spoil)


def _held_out(folder):
    words = [[said[start:end] for start, end in part] for said in documents(1) for part in segment(said)]
    write_documents([Document.from_words(words)], folder / "test.jsonl")
    return [folder / "test.jsonl"]


@pytest.mark.slow
def test_sentences_to_measure_on_are_not_learned(make, tmp_path):
    adaptation = make(steps=1, holdout=_held_out(tmp_path))
    assert (adaptation.counts["removed_sentences"], adaptation.counts["documents"]) == (3, 119)
    adaptation.run()
    assert _summary(tmp_path / "out")["removed_sentences"] == 3
    assert _summary(tmp_path / "out")["holdout"] == ["…/test.jsonl"]


@pytest.mark.slow
def test_what_is_already_there(make, encoder, tmp_path):
    make().run()
    out = tmp_path / "out"
    with pytest.raises(ConfigError, match="out'"):
        make()
    with pytest.raises(ConfigError, match="resume and overwrite"):
        make(resume=True, overwrite=True)
    # A finished adaptation is resumed with the same settings and text only.
    with pytest.raises(ConfigError, match="steps=6 .*steps=7"):
        make(steps=7, resume=True)
    with pytest.raises(ConfigError, match="text.sha256"):
        make(resume=True, holdout=_held_out(tmp_path))
    (out / "last").mkdir()
    assert make(resume=True).is_finished
    assert not (out / "last").exists()
    assert can_hold(out)
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    (out / "model.safetensors").write_bytes(b"old")
    other = write_text(tmp_path, seed=4)
    Adaptation([other], small_settings(encoder, steps=2), out, device="cpu", overwrite=True).run()
    assert _summary(out)["steps"] == 2
    # What was written before is replaced, and what somebody else put there stays.
    assert (out / "model.safetensors").stat().st_size > 100
    assert (out / "notes.txt").read_text(encoding="utf-8") == "mine"


@pytest.mark.slow
def test_an_encoder_that_is_half_in_its_place_is_none_yet(make, tmp_path, monkeypatch):
    """``config.json`` identifies the encoder and is written last. Resuming writes all files again."""
    out, moved, replace = tmp_path / "out", [], os.replace

    def refuse_the_second(source, target):
        if Path(target).parent == out and Path(source).parent != out:
            if moved:
                raise OSError(errno.ENOSPC, "No space left on device")
            moved.append(Path(target).name)
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", refuse_the_second)
        with pytest.raises(CascadeError, match="No space left on device"):
            make().run()
    assert (out / moved[0]).is_file()
    assert not (out / "config.json").exists()
    make(resume=True).run()
    load_encoder(str(out))


@pytest.mark.slow
@pytest.mark.parametrize("last", ["tokenizer.json", "log.jsonl", "model.safetensors"])
def test_overwriting_that_is_broken_off_leaves_nothing_finished(make, tmp_path, last, monkeypatch):
    make(steps=1).run()
    unlink, out = Path.unlink, tmp_path / "out"

    def refuse(path, missing_ok=False):
        if path.name == last:
            raise OSError(errno.EBUSY, "Device or resource busy")
        unlink(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        with pytest.raises(CascadeError, match="Device or resource busy"):
            make(steps=1, overwrite=True)
    # Neither a finished adaptation, nor, by its config.json, an encoder; but an adaptation that was begun.
    assert not {"summary.json", "config.json"} & {path.name for path in out.iterdir()}
    make(steps=1, overwrite=True)
    assert {path.name for path in out.iterdir() if not path.name.startswith(".")} == {"adapt.json"}


def test_folders_that_must_not_be_written_to(encoder, text, tmp_path):
    settings = small_settings(encoder)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    for overwrite in (False, True):
        with pytest.raises(ConfigError, match="'thesis.tex'"):
            Adaptation([text], settings, tmp_path / "mine", device="cpu", overwrite=overwrite)
    with pytest.raises(ConfigError, match="is a file"):
        Adaptation([text], settings, text, device="cpu")
    with pytest.raises(ConfigError, match="which is read"):
        Adaptation([text], settings, encoder, device="cpu")
    with pytest.raises(ConfigError, match="which is read"):
        Adaptation([text.parent], settings, text.parent / "out", device="cpu")
    with pytest.raises(CascadeError, match="cannot be written"):
        Adaptation([text], settings, text / "below-a-file", device="cpu")


def test_what_is_refused_before_the_first_step(make, encoder, text, tmp_path):
    with pytest.raises(ConfigError, match="sequence_pieces is 65, .* 64 pieces"):
        make(sequence_pieces=65)
    with pytest.raises(ConfigError, match="8 sequences .* 3 equal parts"):
        make(accumulation=3)
    with pytest.raises(ModelError, match="'./nowhere'"):
        Adaptation([text], small_settings("./nowhere"), tmp_path / "b", device="cpu")
    with pytest.raises(DataError, match="too short"):
        Adaptation([write_text(tmp_path, count=3)], small_settings(encoder), tmp_path / "c", device="cpu")
    with pytest.raises(ConfigError, match="'gpu9'"):
        Adaptation([text], small_settings(encoder), tmp_path / "d", device="gpu9")
    # Nothing was begun, so that the folder can be used for the next attempt.
    make(steps=1).run()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"sequence_pieces": 4}, "sequence_pieces is 4"),
        ({"steps": 0}, "steps is 0"),
        ({"held_out": 0.0}, "held_out is 0.0"),
        ({"masked": 1.0}, "masked is 1.0"),
        ({"precision": "fp16"}, "precision is 'fp16'"),
        ({"max_gradient_norm": 0.0}, "max_gradient_norm is 0.0"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0"),
        ({"sequence_piece": 8}, "'sequence_piece'.*'sequence_pieces'"),
    ],
)
def test_refused_settings(changes, match):
    with pytest.raises(ConfigError, match=match):
        AdaptSettings.from_dict({"encoder": "x", **changes})


@pytest.mark.slow
def test_the_documented_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path)
    tiny_encoder("bert", tmp_path / "encoders" / "before")
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names = {}
    exec(compile(block, "docs/adapt.md", "exec"), names)
    assert names["reports"][-1].perplexity > 1
    assert load_encoder("encoders/mine").width == 32
