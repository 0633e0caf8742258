import errno
import json
import shutil
from collections import namedtuple

import pytest
from safetensors import SafetensorError
from tests.data.other_processes import held_elsewhere
from tests.training.runs import small_recipe

from cascade_srn.errors import CascadeError, ConfigError, DataError
from cascade_srn.runs.folder import differences
from cascade_srn.storage.lock import LOCK
from cascade_srn.training.run_folder import RunFolder


@pytest.fixture
def recipe(tmp_path):
    return small_recipe(tmp_path)


@pytest.fixture
def folder(recipe):
    return RunFolder(recipe.output)


def _begun(folder, recipe):
    folder.check(recipe)
    folder.begin(recipe)
    return folder


class TestCheck:
    def test_a_new_folder_and_an_empty_one(self, folder, recipe):
        folder.check(recipe)
        assert not folder.path.exists()
        folder.path.mkdir()
        folder.check(recipe)
        assert list(folder.path.iterdir()) == []
        assert not folder.is_begun

    def test_a_run_is_not_written_over(self, folder, recipe):
        _begun(folder, recipe)
        with pytest.raises(
            ConfigError, match="there is a run in .*run' already; go on with it by --resume, replace it by --overwrite"
        ):
            folder.check(recipe)
        folder.check(recipe, resume=True)
        folder.check(recipe, overwrite=True)

    def test_something_else_is_never_touched(self, folder, recipe):
        folder.path.mkdir()
        (folder.path / "thesis.tex").write_text("", encoding="utf-8")
        for options in ({}, {"resume": True}, {"overwrite": True}):
            with pytest.raises(ConfigError, match=r"holds something else than a run \('thesis.tex', for one\)"):
                folder.check(recipe, **options)

    @pytest.mark.parametrize("member", ["labels.json", ".labels.tmp", LOCK, None])
    def test_labels_in_it_are_no_part_of_the_run(self, folder, recipe, member):
        (folder.path / "labels").mkdir(parents=True)
        if member is not None:
            (folder.path / "labels" / member).write_text("{}", encoding="utf-8")
        _begun(folder, recipe)
        folder.begin(recipe, overwrite=True)
        assert (folder.path / "labels").is_dir()
        assert member is None or (folder.path / "labels" / member).is_file()

    def test_a_folder_of_that_name_with_something_else(self, folder, recipe):
        (folder.path / "labels").mkdir(parents=True)
        (folder.path / "labels" / "thesis.tex").write_text("", encoding="utf-8")
        with pytest.raises(ConfigError, match=r"holds something else than a run \('labels', for one\)"):
            folder.check(recipe)

    def test_a_file(self, folder, recipe):
        folder.path.write_text("", encoding="utf-8")
        with pytest.raises(ConfigError, match="which is a file; give the name of a folder"):
            folder.check(recipe)

    def test_below_a_file_nothing_can_be_written(self, recipe, tmp_path):
        (tmp_path / "file").write_text("", encoding="utf-8")
        with pytest.raises(CascadeError, match=r"the run folder .* cannot be written \(Not a directory\); mend that"):
            RunFolder(tmp_path / "file" / "run").check(recipe)

    def test_both_options(self, folder, recipe):
        with pytest.raises(ConfigError, match="--resume and --overwrite were both given"):
            folder.check(recipe, resume=True, overwrite=True)

    @pytest.mark.parametrize(
        ("change", "key"),
        [
            ({"training": {"epochs": 11}}, "training.epochs=10, and is to be resumed with training.epochs=11"),
            ({"model": {"encoder": {"name": "fresh", "pooling": "max"}}}, "model.encoder.pooling='mean'"),
            ({"fresh": {"width": 16}}, "fresh.width=32"),
        ],
    )
    def test_another_recipe_cannot_be_resumed(self, folder, recipe, tmp_path, change, key):
        _begun(folder, recipe)
        other = small_recipe(tmp_path, **change)
        with pytest.raises(ConfigError) as caught:
            folder.check(other, resume=True)
        assert f"was started with {key}" in str(caught.value)

    def test_only_the_output_may_be_spelled_otherwise(self, folder, recipe, tmp_path, monkeypatch):
        _begun(folder, recipe)
        monkeypatch.chdir(tmp_path)
        RunFolder("run").check(small_recipe(tmp_path, output="run"), resume=True)


class TestBegin:
    def test_overwriting_starts_from_nothing(self, folder, recipe):
        _begun(folder, recipe)
        folder.log({"step": 1})
        folder.best.mkdir()
        folder.begin(recipe, overwrite=True)
        assert [path.name for path in folder.path.iterdir()] == ["recipe.yaml"]

    def test_overwriting_that_is_broken_off_leaves_a_run(self, folder, recipe, monkeypatch):
        """The recipe, by which it is known, goes last: what is left can be overwritten once more."""
        _begun(folder, recipe)
        folder.log({"step": 1})
        folder.last.mkdir()

        def refuse(path):
            raise OSError(errno.EBUSY, "Device or resource busy")

        with monkeypatch.context() as patched:
            patched.setattr(shutil, "rmtree", refuse)
            with pytest.raises(CascadeError, match=r"cannot be written \(Device or resource busy\)"):
                folder.begin(recipe, overwrite=True)
        folder.check(recipe, overwrite=True)
        folder.begin(recipe, overwrite=True)
        assert [path.name for path in folder.path.iterdir()] == ["recipe.yaml"]

    def test_nor_does_it_say_that_it_is_finished(self, folder, recipe, monkeypatch):
        _begun(folder, recipe)
        folder.best.mkdir()
        folder.write_json("summary.json", {})

        def refuse(path):
            raise OSError(errno.EBUSY, "Device or resource busy")

        with monkeypatch.context() as patched:
            patched.setattr(shutil, "rmtree", refuse)
            with pytest.raises(CascadeError, match=r"cannot be written \(Device or resource busy\)"):
                folder.begin(recipe, overwrite=True)
        assert folder.is_begun
        assert folder.best.is_dir()
        assert not folder.is_finished

    def test_what_was_half_written_is_cleared_away(self, folder, recipe):
        _begun(folder, recipe)
        folder.log({"step": 1})
        for name in (".best-abc", ".best-old-xyz", ".fresh-encoder.tmp"):
            (folder.path / name).mkdir()
        folder.last.mkdir()
        for name in (".0123.tmp", "last/.state-3.safetensors.tmp"):
            (folder.path / name).write_text("", encoding="utf-8")
        folder.begin(recipe)
        assert sorted(path.name for path in folder.path.iterdir()) == ["last", "log.jsonl", "recipe.yaml"]
        assert list(folder.last.iterdir()) == []

    def test_a_model_that_was_being_replaced_is_put_back(self, folder, recipe):
        _begun(folder, recipe)
        (folder.path / ".best-old-empty").mkdir()
        old = folder.path / ".best-old-full"
        old.mkdir()
        (old / "config.json").write_text("{}", encoding="utf-8")
        folder.begin(recipe)
        assert [path.name for path in folder.best.iterdir()] == ["config.json"]
        assert not list(folder.path.glob(".best*"))

    def test_but_not_in_place_of_its_successor(self, folder, recipe):
        _begun(folder, recipe)
        for name, text in ((".best-old-full", "old"), ("best", "new")):
            (folder.path / name).mkdir()
            (folder.path / name / "config.json").write_text(text, encoding="utf-8")
        folder.begin(recipe)
        assert (folder.best / "config.json").read_text(encoding="utf-8") == "new"


class TestLock:
    def test_others_are_kept_out_before_they_are_told_of_the_run(self, folder, recipe):
        _begun(folder, recipe)
        with held_elsewhere(folder.path) as other:
            before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
            with pytest.raises(
                ConfigError, match=rf"another process \(pid {other.pid} on .* is writing into '.*run'; wai"
            ):
                folder.lock()
            assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before

    def test_something_else_is_not_even_locked(self, folder):
        folder.path.mkdir()
        (folder.path / "thesis.tex").write_text("", encoding="utf-8")
        with pytest.raises(ConfigError, match="holds something else than a run"):
            folder.lock()
        folder.path.joinpath("thesis.tex").unlink()
        folder.path.rmdir()
        folder.path.write_text("", encoding="utf-8")
        with pytest.raises(ConfigError, match="which is a file; give the name of a folder"):
            folder.lock()

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").write_text("", encoding="utf-8")
        with pytest.raises(CascadeError, match=r"the run folder .* cannot be written \(Not a directory\); mend that"):
            RunFolder(tmp_path / "file" / "run").lock()

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_it_is_no_part_of_the_run(self, folder, recipe, overwrite):
        """One that a process left that was killed, and one that is held."""
        folder.path.mkdir()
        (folder.path / LOCK).write_text("", encoding="utf-8")
        assert not folder.is_begun
        with folder.lock():
            folder.check(recipe)
            folder.begin(recipe, overwrite=overwrite)
            assert folder.is_begun
            assert (folder.path / LOCK).is_file()
            folder.check(recipe, overwrite=True)
            folder.begin(recipe, overwrite=True)
            assert (folder.path / LOCK).is_file()
        assert [path.name for path in folder.path.iterdir()] == ["recipe.yaml"]


class TestSpace:
    def _free(self, monkeypatch, n_bytes):
        usage = namedtuple("usage", "total used free")
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, n_bytes))

    def test_too_little(self, folder, recipe, monkeypatch):
        _begun(folder, recipe)
        self._free(monkeypatch, 1 << 30)
        with pytest.raises(CascadeError) as caught:
            folder.check_space(n_model_bytes=1 << 29, n_state_bytes=3 << 29)
        assert "the run needs up to 4.1 GiB in " in str(caught.value)
        assert "where 1.0 GiB are free; make room" in str(caught.value)

    def test_enough(self, folder, recipe, monkeypatch):
        _begun(folder, recipe)
        self._free(monkeypatch, 5 << 30)
        folder.check_space(n_model_bytes=1 << 29, n_state_bytes=3 << 29)

    def test_what_is_there_already_is_not_needed_again(self, folder, recipe, monkeypatch):
        _begun(folder, recipe)
        folder.last.mkdir()
        (folder.last / "state-1.safetensors").write_bytes(bytes(3 << 20))
        self._free(monkeypatch, 64 << 20)
        with pytest.raises(CascadeError, match="needs up to 65 MiB .* where 64 MiB are free"):
            folder.check_space(n_model_bytes=1 << 20, n_state_bytes=1 << 20)
        self._free(monkeypatch, 65 << 20)
        folder.check_space(n_model_bytes=1 << 20, n_state_bytes=1 << 20)


class TestFiles:
    def test_the_log_grows_and_can_be_cut(self, folder, recipe):
        _begun(folder, recipe)
        assert folder.read_log() == []
        sizes = [folder.log({"step": step}) for step in (1, 2, 3)]
        assert [line["step"] for line in folder.read_log()] == [1, 2, 3]
        with (folder.path / "log.jsonl").open("ab") as handle:
            handle.write(b'{"step": 4')  # killed here
        folder.restore_log({"log_bytes": sizes[1]})
        assert [line["step"] for line in folder.read_log()] == [1, 2]
        with pytest.raises(DataError, match=f"{sizes[1]} bytes"):
            folder.restore_log({"log_bytes": 10_000})
        folder.restore_log(None)
        assert folder.read_log() == []

    def test_json(self, folder, recipe):
        _begun(folder, recipe)
        assert folder.read_json("data.json") is None
        folder.write_json("data.json", {"ä": 1})
        assert folder.read_json("data.json") == {"ä": 1}
        assert json.loads((folder.path / "data.json").read_text(encoding="utf-8")) == {"ä": 1}

    @pytest.mark.parametrize(
        "error", [OSError(28, "No space left on device"), SafetensorError("Error while serializing: No space left")]
    )
    def test_a_disk_that_is_full_after_all(self, folder, recipe, error):
        _begun(folder, recipe)
        with (
            pytest.raises(CascadeError, match=r"cannot be written \(.*No space left.*\); mend that and go on with --r"),
            folder.writing(),
        ):
            raise error


def test_differences_name_the_whole_key():
    old, new = {"a": {"b": 1, "c": 2}, "d": None}, {"a": {"b": 1, "c": 3}, "d": {"e": 1}}
    assert list(differences(old, new)) == [("a.c", 2, 3), ("d", None, {"e": 1})]


def test_a_folder_with_a_recipe_and_other_things_is_no_run(tmp_path):
    """The recipe and the annotations of somebody's project, with ``output`` where they are."""
    recipe = small_recipe(tmp_path, output=str(tmp_path))
    before = sorted(tmp_path.iterdir())
    for overwrite in (False, True):
        with pytest.raises(ConfigError, match=r"holds something else than a run \('dev.jsonl', for one\)"):
            RunFolder(tmp_path).check(recipe, overwrite=overwrite)
    assert sorted(tmp_path.iterdir()) == before


def test_what_others_put_into_a_run_folder_stays(tmp_path):
    recipe = small_recipe(tmp_path)
    folder = RunFolder(recipe.output)
    folder.begin(recipe)
    for name in ("log.jsonl", "summary.json", "test-abc.jsonl", "teacher.json", "notes.txt", "report/report.html"):
        (folder.path / name).parent.mkdir(exist_ok=True)
        (folder.path / name).write_text("x", encoding="utf-8")
    folder.check(recipe, overwrite=True)
    folder.begin(recipe, overwrite=True)
    assert sorted(member.name for member in folder.path.iterdir()) == ["notes.txt", "recipe.yaml", "report"]
    assert (folder.path / "report" / "report.html").is_file()
    # It is still known as a run, were it only by what follows.
    folder.write_json("data.json", {})
    assert folder.is_begun
