import errno
import shutil

import pytest
from safetensors import SafetensorError
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
        with pytest.raises(ConfigError, match="run'") as caught:
            folder.check(recipe)
        assert caught.value.option == "resume"
        folder.check(recipe, resume=True)
        folder.check(recipe, overwrite=True)

    def test_foreign_content_is_refused(self, folder, recipe):
        folder.path.mkdir()
        (folder.path / "thesis.tex").write_text("", encoding="utf-8")
        for options in ({}, {"resume": True}, {"overwrite": True}):
            with pytest.raises(ConfigError, match="'thesis.tex'"):
                folder.check(recipe, **options)

    @pytest.mark.parametrize("member", ["labels.json", ".labels.tmp", LOCK, None])
    def test_labels_are_not_part_of_the_run(self, folder, recipe, member):
        (folder.path / "labels").mkdir(parents=True)
        if member is not None:
            (folder.path / "labels" / member).write_text("{}", encoding="utf-8")
        _begun(folder, recipe)
        folder.begin(recipe, overwrite=True)
        assert (folder.path / "labels").is_dir()
        assert member is None or (folder.path / "labels" / member).is_file()

    def test_a_folder_named_labels_with_foreign_content(self, folder, recipe):
        (folder.path / "labels").mkdir(parents=True)
        (folder.path / "labels" / "thesis.tex").write_text("", encoding="utf-8")
        with pytest.raises(ConfigError, match="'labels'"):
            folder.check(recipe)

    def test_a_file(self, folder, recipe):
        folder.path.write_text("", encoding="utf-8")
        with pytest.raises(ConfigError, match="file"):
            folder.check(recipe)

    def test_below_a_file_nothing_can_be_written(self, recipe, tmp_path):
        (tmp_path / "file").write_text("", encoding="utf-8")
        with pytest.raises(CascadeError, match="Not a directory"):
            RunFolder(tmp_path / "file" / "run").check(recipe)

    def test_both_options(self, folder, recipe):
        with pytest.raises(ConfigError, match="resume and overwrite"):
            folder.check(recipe, resume=True, overwrite=True)

    @pytest.mark.parametrize(
        ("change", "key"),
        [
            ({"training": {"epochs": 11}}, "training.epochs=10"),
            ({"model": {"encoder": {"name": "fresh", "pooling": "max"}}}, "model.encoder.pooling='mean'"),
            ({"fresh": {"width": 16}}, "fresh.width=32"),
        ],
    )
    def test_another_recipe_cannot_be_resumed(self, folder, recipe, tmp_path, change, key):
        _begun(folder, recipe)
        other = small_recipe(tmp_path, **change)
        with pytest.raises(ConfigError) as caught:
            folder.check(other, resume=True)
        assert key in caught.value.problem

    def test_the_output_may_be_spelled_differently(self, folder, recipe, tmp_path, monkeypatch):
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

    def test_interrupted_overwriting_leaves_an_unfinished_run(self, folder, recipe, monkeypatch):
        """The summary is removed first, and the recipe, which identifies the folder, last."""
        _begun(folder, recipe)
        folder.best.mkdir()
        folder.write_json("summary.json", {})

        def refuse(path):
            raise OSError(errno.EBUSY, "Device or resource busy")

        with monkeypatch.context() as patched:
            patched.setattr(shutil, "rmtree", refuse)
            with pytest.raises(CascadeError, match="Device or resource busy"):
                folder.begin(recipe, overwrite=True)
        assert folder.is_begun
        assert folder.best.is_dir()
        assert not folder.is_finished
        folder.check(recipe, overwrite=True)
        folder.begin(recipe, overwrite=True)
        assert [path.name for path in folder.path.iterdir()] == ["recipe.yaml"]

    def test_temporary_files_are_removed(self, folder, recipe):
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


class TestLock:
    @pytest.mark.parametrize("overwrite", [False, True])
    def test_the_lock_is_not_part_of_the_run(self, folder, recipe, overwrite):
        """Neither the file of a killed process, nor a lock that is held."""
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

    @pytest.mark.parametrize(
        "error", [OSError(28, "No space left on device"), SafetensorError("Error while serializing: No space left")]
    )
    def test_a_full_disk(self, folder, recipe, error):
        _begun(folder, recipe)
        with pytest.raises(CascadeError, match="No space left"), folder.writing():
            raise error


def test_differences_name_the_whole_key():
    old, new = {"a": {"b": 1, "c": 2}, "d": None}, {"a": {"b": 1, "c": 3}, "d": {"e": 1}}
    assert list(differences(old, new)) == [("a.c", 2, 3), ("d", None, {"e": 1})]


def test_a_recipe_among_other_files_is_not_a_run(tmp_path):
    """A project folder with a recipe and annotations, given as ``output`` by mistake."""
    recipe = small_recipe(tmp_path, output=str(tmp_path))
    before = sorted(tmp_path.iterdir())
    for overwrite in (False, True):
        with pytest.raises(ConfigError, match="'dev.jsonl'"):
            RunFolder(tmp_path).check(recipe, overwrite=overwrite)
    assert sorted(tmp_path.iterdir()) == before


def test_foreign_files_in_a_run_folder_stay(tmp_path):
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
    # With the next file of the run, it is recognised again.
    folder.write_json("data.json", {})
    assert folder.is_begun
