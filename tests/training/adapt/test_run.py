"""A whole adaptation, from text to an encoder folder."""

import errno
import json
import os
from pathlib import Path

import pytest
import torch
from tests.formats.other_processes import can_hold, held_elsewhere
from tests.tiny_encoders import FAMILIES, tiny_encoder
from tests.training.adapt.fields import documents, small_settings, write_text
from transformers import AutoModel

from cascade_srn.encoder.pretrained import load_encoder, load_tokenizer, quiet_transformers
from cascade_srn.errors import CascadeError, ConfigError, DataError, ModelError
from cascade_srn.formats.registry import write_documents
from cascade_srn.text.segment import segment
from cascade_srn.training.adapt.run import Adaptation, check_finished
from cascade_srn.types import Document


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny_encoder("bert", tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp("text"))


def _summary(folder):
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


# test_network.py and test_loop.py have all families in the default tier.
@pytest.mark.parametrize(
    "family",
    [
        family if family in ("bert", "deberta-v2") else pytest.param(family, marks=pytest.mark.slow)
        for family in FAMILIES
    ],
)
def test_the_folder_is_an_encoder(family, tmp_path, text):
    name = tiny_encoder(family, tmp_path / "before")
    adaptation = Adaptation([text], small_settings(name, learning_rate=1e-2), tmp_path / "out", device="cpu")
    list(adaptation)
    trained = adaptation.loop.network.model.base_model.state_dict()
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


def test_the_summary_tells_all(encoder, text, tmp_path):
    settings = small_settings(encoder, evaluate_steps=2, save_steps=3, steps=5, head_steps=1)
    adaptation = Adaptation([text], settings, tmp_path / "out", device="cpu", command="cascade-srn adapt …")
    told = list(adaptation)
    summary = _summary(tmp_path / "out")
    measured = [progress.perplexity for progress in told if progress.perplexity is not None]
    # The first one of all is that of a random head.
    assert summary["perplexity"]["before"] == measured[1]
    assert [each["perplexity"] for each in summary["perplexity"]["during"]] == measured[2:-1]
    assert [each["step"] for each in summary["perplexity"]["during"]] == [2, 4]
    assert summary["perplexity"]["after"] == measured[-1]
    assert summary["command"] == "cascade-srn adapt …"
    assert summary["settings"] == {**settings.to_dict(), "encoder": f"…/{encoder.rpartition('/')[2]}"}
    assert summary["documents"] == 120
    assert 0 < summary["held_out_documents"] < 20
    assert summary["removed_sentences"] == 0
    assert summary["steps"] == 6
    assert summary["new_head"] is True
    assert summary["head_steps"] == 1
    assert summary["seconds"] >= 0
    assert summary["environment"]["device"] == "cpu"
    assert str(tmp_path) not in json.dumps(summary)


def test_sentences_to_measure_on_are_not_learned(encoder, text, tmp_path):
    sentence = segment(documents(1)[0])
    words = [[documents(1)[0][start:end] for start, end in offsets] for offsets in sentence]
    write_documents([Document.from_words(words)], tmp_path / "test.jsonl")
    holdout = tmp_path / "test.jsonl"
    adaptation = Adaptation([text], small_settings(encoder), tmp_path / "out", device="cpu", holdout=[holdout])
    assert adaptation.counts["removed_sentences"] == len(words) == 3
    assert adaptation.counts["documents"] == 119
    list(adaptation)
    assert _summary(tmp_path / "out")["removed_sentences"] == 3
    assert _summary(tmp_path / "out")["holdout"] == ["…/test.jsonl"]


def test_adapting_goes_on_from_an_adapted_encoder(encoder, text, tmp_path):
    first = list(Adaptation([text], small_settings(encoder, learning_rate=1e-2), tmp_path / "one", device="cpu"))
    again = Adaptation([text], small_settings(str(tmp_path / "one")), tmp_path / "two", device="cpu")
    assert not again.new_head
    assert next(iter(again)).perplexity == pytest.approx(first[-1].perplexity, rel=1e-6)


def test_what_is_already_there(encoder, text, tmp_path):
    settings, out = small_settings(encoder), tmp_path / "out"
    list(Adaptation([text], settings, out, device="cpu"))
    with pytest.raises(ConfigError, match="out'"):
        Adaptation([text], settings, out, device="cpu")
    with pytest.raises(ConfigError, match="steps=6 .*steps=7"):
        Adaptation([text], small_settings(encoder, steps=7), out, device="cpu", resume=True)
    with pytest.raises(ConfigError, match="resume and overwrite"):
        Adaptation([text], settings, out, device="cpu", resume=True, overwrite=True)
    other = write_text(tmp_path, seed=4)
    with pytest.raises(DataError, match="text .*out'"):
        Adaptation([other], settings, out, device="cpu", resume=True)
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    (out / "model.safetensors").write_bytes(b"old")
    list(Adaptation([other], small_settings(encoder, steps=2), out, device="cpu", overwrite=True))
    assert _summary(out)["steps"] == 2
    # What was written before is replaced, and what somebody else put there stays.
    assert (out / "model.safetensors").stat().st_size > 100
    assert (out / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_an_encoder_that_is_half_in_its_place_is_none_yet(encoder, text, tmp_path, monkeypatch):
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
            list(Adaptation([text], small_settings(encoder), out, device="cpu"))
    assert (out / moved[0]).is_file()
    assert not (out / "config.json").exists()
    list(Adaptation([text], small_settings(encoder), out, device="cpu", resume=True))
    load_encoder(str(out))


def test_folders_that_must_not_be_written_to(encoder, text, tmp_path):
    settings = small_settings(encoder)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    for overwrite in (False, True):
        with pytest.raises(ConfigError, match="'thesis.tex'"):
            Adaptation([text], settings, tmp_path / "mine", device="cpu", overwrite=overwrite)
    with pytest.raises(ConfigError, match="is a file"):
        Adaptation([text], settings, text, device="cpu")
    with pytest.raises(ConfigError, match="output and encoder"):
        Adaptation([text], settings, encoder, device="cpu")
    with pytest.raises(ConfigError, match="read as text"):
        Adaptation([text.parent], settings, text.parent / "out", device="cpu")
    with pytest.raises(CascadeError, match="cannot be written"):
        Adaptation([text], settings, text / "below-a-file", device="cpu")


def test_what_is_refused_before_the_first_step(encoder, text, tmp_path):
    with pytest.raises(ConfigError, match="sequence_pieces is 65, .* 64 pieces"):
        Adaptation([text], small_settings(encoder, sequence_pieces=65), tmp_path / "a", device="cpu")
    with pytest.raises(ModelError, match="'./nowhere'"):
        Adaptation([text], small_settings("./nowhere"), tmp_path / "b", device="cpu")
    with pytest.raises(DataError, match="too short"):
        Adaptation([write_text(tmp_path, count=3)], small_settings(encoder), tmp_path / "c", device="cpu")
    with pytest.raises(ConfigError, match="'gpu9'"):
        Adaptation([text], small_settings(encoder), tmp_path / "d", device="gpu9")
    # Nothing was begun, so that the folder can be used for the next attempt.
    list(Adaptation([text], small_settings(encoder), tmp_path / "a", device="cpu"))


@pytest.mark.slow
def test_one_process_at_a_time(encoder, text, tmp_path):
    settings, out = small_settings(encoder), tmp_path / "out"
    adaptation = Adaptation([text], settings, out, device="cpu")
    assert not can_hold(out)
    list(adaptation)
    with held_elsewhere(out) as other:
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        for options in ({}, {"resume": True}, {"overwrite": True}):
            with pytest.raises(ConfigError, match=rf"pid {other.pid} .*out'"):
                Adaptation([text], settings, out, device="cpu", **options)
        with pytest.raises(ConfigError, match="process .*out'"):
            check_finished([text], settings, out)
        assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        other.kill()
        other.wait()
        list(Adaptation([text], settings, out, device="cpu", overwrite=True))
    assert not list(out.glob(".*"))


def test_after_a_kill_at_the_very_beginning_the_folder_is_as_good_as_empty(encoder, text, tmp_path):
    with held_elsewhere(tmp_path / "out") as other:
        other.kill()
        other.wait()
        assert list(Adaptation([text], small_settings(encoder, steps=2), tmp_path / "out", device="cpu"))[-1].finished


@pytest.fixture(scope="module")
def finished(encoder, text, tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "out"
    list(Adaptation([text], small_settings(encoder), out, device="cpu"))
    return out


class TestFinished:
    def test_the_same_again(self, encoder, text, finished):
        (finished / "last").mkdir()
        check_finished([text], small_settings(encoder), finished)
        assert not (finished / "last").exists()
        assert can_hold(finished)

    def test_other_text_or_another_part_of_it(self, encoder, text, finished, tmp_path):
        other = "text .*out'"
        with pytest.raises(DataError, match=other):
            check_finished([write_text(tmp_path, seed=4)], small_settings(encoder), finished)
        words = [[said[start:end] for start, end in part] for said in documents(1) for part in segment(said)]
        write_documents([Document.from_words(words)], tmp_path / "test.jsonl")
        with pytest.raises(DataError, match=other):
            check_finished([text], small_settings(encoder), finished, holdout=[tmp_path / "test.jsonl"])

    def test_other_settings(self, encoder, text, finished):
        with pytest.raises(ConfigError, match="steps=6 .*steps=7"):
            check_finished([text], small_settings(encoder, steps=7), finished)
        with pytest.raises(ConfigError, match="resume and overwrite"):
            check_finished([text], small_settings(encoder), finished, overwrite=True)
