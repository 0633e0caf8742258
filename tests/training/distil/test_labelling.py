import json
import shutil

import numpy as np
import pytest
from tests.small_models import small_model
from tests.training.distil.teachers import saved_teacher, teacher, write_text

from cascade_srn.errors import ConfigError, DataError, ModelError
from cascade_srn.inputs.texts import read_texts
from cascade_srn.schema import Schema
from cascade_srn.training.distil import LabelSettings
from cascade_srn.training.distil.ensemble import Ensemble
from cascade_srn.training.distil.labelling import Labelling, label_batches
from cascade_srn.training.distil.sampling import sample_sentences
from cascade_srn.training.labelled import LabelledText
from cascade_srn.types import Document, Sentence

pytestmark = pytest.mark.slow

SMALL = LabelSettings(shard_sentences=7, batch_words=60, floor=0.05)


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labelling")
    teachers = [saved_teacher(folder / f"teacher-{i}", i, fusion) for i, fusion in enumerate(("swift", "early"))]
    return teachers, [write_text(folder)]


@pytest.fixture(scope="module")
def labels(given, tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels") / "labels"
    list(Labelling(*given, folder, SMALL, device="cpu", command="cascade-srn distil"))
    return folder


@pytest.fixture
def copied(labels, tmp_path):
    shutil.copytree(labels, tmp_path / "labels")
    return tmp_path / "labels"


def record(folder):
    return json.loads((folder / "labels.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_what_was_said_is_what_is_read(given, labels):
    selection = sample_sentences(read_texts(given[1]), [], SMALL)
    examples = [example for document in selection.documents for example in document.examples(0)]
    read = LabelledText(labels)
    assert len(read) == len(examples) == 24
    assert read.n_words.tolist() == [len(example.sentence) for example in examples]
    ensemble = Ensemble([teacher(0), teacher(1, "early")], floor=SMALL.floor, batch_words=60)
    n_entities = n_kept = 0
    for members, found in label_batches(ensemble, examples):
        first_query = np.cumsum(found.n_queries) - found.n_queries
        for row, number in enumerate(members):
            assert read.sentence(number) == Sentence.from_words(
                examples[number].sentence.words, found.sentences[row].entities, found.sentences[row].triples
            )
            assert read.certainty[number].tolist() == pytest.approx(found.certainty[row].tolist(), abs=2e-3)
            n_entities += len(found.sentences[row].entities)
            soft = read.soft(number)
            assert soft.n_queries == found.n_queries[row]
            for name, entries in found.tables.items():
                own = [(soft.number, row)]
                if name.startswith("object"):
                    own = [(soft.first_query + i, first_query[row] + i) for i in range(soft.n_queries)]
                for ours, theirs in own:
                    kept = soft.tables[name].rows(np.array([ours]))
                    there = entries.row == theirs
                    assert kept.position.tolist() == entries.position[there].tolist()
                    assert kept.probability.tolist() == pytest.approx(entries.probability[there].tolist(), abs=1e-3)
                    n_kept += len(kept.position)
    assert n_entities > 5
    assert n_kept > 100


def test_its_files(labels):
    found = record(labels)
    names = {path.name for path in labels.iterdir()}
    # Documents have three sentences each, so that files hold nine.
    assert names == {"labels.json", *(f"shard-0000{i}.{end}" for i in range(3) for end in ("jsonl", "safetensors"))}
    assert found["finished"]
    assert found["teachers"] == ["…/teacher-0", "…/teacher-1"]
    assert found["counts"]["labelled"] == 24
    assert len(found["made_with"]["teachers"]) == 2
    assert Schema.from_dict(found["schema"]) == small_model().schema
    lines = [json.loads(line) for line in (labels / "shard-00001.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["document"] for line in lines] == [3, 3, 3, 4, 4, 4, 5, 5, 5]
    with_entities = next(line for line in lines if line["entities"])
    start, end, label, score = with_entities["entities"][0]
    assert 0 <= start < end <= len(with_entities["text"].split(" "))
    assert label in ("Metric", "Task", "Thing")
    assert 0 < score < 1


def test_finished_labels_are_used_as_they_are(given, labels):
    before = {path: path.stat().st_mtime_ns for path in labels.iterdir()}
    for options in ({}, {"resume": True}, {"overwrite": True}):
        again = Labelling(*given, labels, SMALL, device="cpu", **options)
        assert again.is_there
        assert list(again) == []
    # How much is read at once does not decide what is found.
    assert Labelling(
        *given, labels, LabelSettings(shard_sentences=7, batch_words=99, floor=0.05), device="cpu"
    ).is_there
    assert {path: path.stat().st_mtime_ns for path in labels.iterdir()} == before


@pytest.mark.slow
def test_other_labels_are_refused_or_replaced(given, copied, tmp_path):
    teachers, texts = given
    (tmp_path / "other.txt").write_text("We train a tagger for parsing .\n", encoding="utf-8")
    for arguments, options, what in (
        ((teachers[:1], texts, copied, SMALL), {}, "teachers"),
        ((teachers, [tmp_path / "other.txt"], copied, SMALL), {}, "text"),
        ((teachers, texts, copied, LabelSettings()), {}, "settings"),
        ((teachers, texts, copied, SMALL), {"holdout": [Document.from_words([["a"]])]}, "held-out data"),
    ):
        with pytest.raises(ConfigError, match=f"other {what}"):
            Labelling(*arguments, device="cpu", **options)
    list(Labelling(teachers[:1], texts, copied, LabelSettings(), device="cpu", overwrite=True))
    assert record(copied)["finished"]
    assert len(list(copied.glob("shard-*"))) == 2


@pytest.mark.slow
def test_a_beginning_is_gone_on_with_when_asked_to(given, labels, copied):
    values = record(copied)
    # Until all are finished, the checksums of each shard are in a file beside it.
    for number, known in enumerate(values.pop("shards")):
        sums = f"{known['sentences']}  shard-{number:05d}.jsonl\n{known['arrays']}  shard-{number:05d}.safetensors\n"
        (copied / f"shard-{number:05d}.sha256").write_text(sums, encoding="utf-8")
    (copied / "labels.json").write_text(json.dumps({**values, "finished": False}), encoding="utf-8")
    # Without its sentences, which are written last, a shard is not whole.
    (copied / "shard-00001.jsonl").unlink()
    (copied / "shard-00001.safetensors").write_bytes(b"half")
    (copied / ".half.tmp").write_bytes(b"half")
    with pytest.raises(DataError, match="finished"):
        LabelledText(copied)
    with pytest.raises(ConfigError, match="labels' is not finished"):
        Labelling(*given, copied, SMALL, device="cpu")
    kept = (copied / "shard-00000.safetensors").stat().st_mtime_ns
    progress = list(Labelling(*given, copied, SMALL, device="cpu", resume=True))
    # Of 24 sentences, nine were there; the last shard's six are not labelled again either.
    assert [each.total for each in progress] == [24] * len(progress)
    assert progress[0].done > 9
    assert progress[-1].done == 18
    assert (copied / "shard-00000.safetensors").stat().st_mtime_ns == kept
    assert {path.name: path.read_bytes() for path in copied.glob("shard-*")} == {
        path.name: path.read_bytes() for path in labels.glob("shard-*")
    }
    assert record(copied)["shards"] == record(labels)["shards"]
    assert not (copied / ".half.tmp").exists()


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "lost", "record", "version"])
def test_damaged_labels_are_made_anew_by_overwriting(given, labels, copied, damage):
    path = copied / ("labels.json" if damage in ("record", "version") else "shard-00001.safetensors")
    if damage == "lost":
        path.unlink()
    else:
        path.write_text('{"format_version": 7}' if damage == "version" else "[", encoding="utf-8")
    again = Labelling(*given, copied, SMALL, device="cpu", overwrite=True)
    assert not again.is_there
    list(again)
    assert record(copied)["shards"] == record(labels)["shards"]
    assert len(LabelledText(copied)) == 24


class TestRefusals:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (None, "labels.json"),
            ("[", "labels.json"),
            ('{"format_version": 7}', "version 7"),
            ('{"format_version": 1, "finished": true}', "'schema'"),
        ],
    )
    def test_a_wrong_record(self, copied, text, message):
        (copied / "labels.json").unlink()
        if text is not None:
            (copied / "labels.json").write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=message):
            LabelledText(copied)

    @pytest.mark.parametrize("name", ["shard-00001.jsonl", "shard-00002.safetensors"])
    def test_files_that_were_cut_or_lost(self, copied, name):
        path = copied / name
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(DataError, match=f"{name}'"):
            LabelledText(copied)
        path.unlink()
        with pytest.raises(DataError, match=f"{name}'"):
            LabelledText(copied)

    def test_a_folder_of_something_else(self, given, tmp_path):
        (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
        with pytest.raises(ConfigError, match="'thesis.txt'"):
            Labelling(*given, tmp_path, SMALL, device="cpu")
        with pytest.raises(ConfigError, match="is a file"):
            Labelling(*given, tmp_path / "thesis.txt", SMALL, device="cpu")

    def test_contradicting_wishes_and_no_teacher(self, given, tmp_path):
        with pytest.raises(ConfigError, match="resume and overwrite"):
            Labelling(*given, tmp_path / "new", SMALL, device="cpu", resume=True, overwrite=True)
        with pytest.raises(ConfigError, match="teacher"):
            Labelling([], given[1], tmp_path / "new", SMALL, device="cpu")


def test_context_of_the_same_document_alone(given, labels):
    read = LabelledText(labels)
    texts = [
        sentence.split(" ")
        for d in sample_sentences(read_texts(given[1]), [], SMALL).documents
        for sentence in d.sentences
    ]
    for number in range(len(read)):
        first = number // 3 * 3
        before = [word for sentence in texts[first:number] for word in sentence]
        after = [word for sentence in texts[number + 1 : first + 3] for word in sentence]
        for n in (0, 4, 100):
            example = read.example(number, context_words=n)
            assert list(example.left) == (before[-n:] if n else [])
            assert list(example.right) == after[:n]


def test_softer_probabilities(labels):
    read, softer = LabelledText(labels), LabelledText(labels)
    softer.soften(2.0)
    for name, table in read.tables.items():
        p = np.clip(table.probability.astype(np.float64), 1e-6, 1 - 1e-6)
        odds = np.sqrt(p / (1 - p))
        np.testing.assert_allclose(softer.tables[name].probability, odds / (1 + odds), atol=2e-3)
        assert np.array_equal(softer.tables[name].position, table.position)
    unchanged = read.tables["entity.start"]
    read.soften(1.0)
    assert read.tables["entity.start"] is unchanged


def test_sentences_that_are_context_only(given, tmp_path):
    folder = tmp_path / "labels"
    list(Labelling(*given, folder, LabelSettings(max_sentences=5), device="cpu"))
    read = LabelledText(folder)
    assert len(read) == 5
    lines = [json.loads(line) for line in (folder / "shard-00000.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sum("entities" in line for line in lines) == 5
    assert len(lines) == 15
    labelled = [line["text"].split(" ") for line in lines if "entities" in line]
    assert [list(read.sentence(i).words) for i in range(5)] == labelled


def test_odd_characters_come_back(given, tmp_path):
    text = tmp_path / "odd.jsonl"
    text.write_text(json.dumps({"text": "Der Größe\u2028 “x” \x85naïve taggers parse ."}) + "\n", encoding="utf-8")
    list(Labelling(given[0], [text], tmp_path / "labels", LabelSettings(min_words=1), device="cpu"))
    read = LabelledText(tmp_path / "labels")
    words = [word for i in range(len(read)) for word in read.sentence(i).words]
    assert words == ["Der", "Größe", "“", "x", "”", "naïve", "taggers", "parse", "."]


def test_a_baseline_does_not_teach(given, tmp_path):
    small_model(method="pfn").save(tmp_path / "baseline")
    with pytest.raises(ModelError, match="'pfn'"):
        Labelling([tmp_path / "baseline"], given[1], tmp_path / "labels", SMALL, device="cpu")
