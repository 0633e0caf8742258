import os
import stat

import pytest

from cascade_srn.errors import ModelError
from cascade_srn.storage.folders import replacing_folder, try_writing

MARKER = "config.json"


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / MARKER).write_text("old")
    (folder / "leftover").write_text("old")
    return folder


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def fill(target, text="new"):
    (target / MARKER).write_text(text)


def test_files_can_be_read_by_whom_the_umask_lets(tmp_path):
    before = os.umask(0o022)
    try:
        with replacing_folder(tmp_path / "model", marker=MARKER) as fresh:
            fill(fresh)
            (fresh / MARKER).chmod(0o600)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "model" / MARKER).stat().st_mode) == 0o644


def test_a_new_folder_appears_with_its_parents(tmp_path):
    folder = tmp_path / "a" / "b" / "model"
    with replacing_folder(folder, marker=MARKER) as fresh:
        fill(fresh)
        assert not folder.exists()
    assert contents(folder) == {MARKER: "new"}
    assert os.listdir(folder.parent) == ["model"]


def test_a_model_is_replaced_whole(model):
    with replacing_folder(str(model), marker=MARKER) as fresh:
        fill(fresh)
        assert contents(model) == {MARKER: "old", "leftover": "old"}  # until all is written
    assert contents(model) == {MARKER: "new"}
    assert os.listdir(model.parent) == ["model"]


def test_an_empty_folder_is_filled(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    with replacing_folder(folder, marker=MARKER) as fresh:
        fill(fresh)
    assert contents(folder) == {MARKER: "new"}
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_leaves_what_was_there(model, error):
    def write_half():
        with replacing_folder(model, marker=MARKER) as fresh:
            fill(fresh)
            raise error("full disk")

    with pytest.raises(error, match="full disk"):
        write_half()
    assert contents(model) == {MARKER: "old", "leftover": "old"}
    assert os.listdir(model.parent) == ["model"]


@pytest.fixture
def failing(monkeypatch):
    """Let renaming fail, once for each error that is given, after it went well ``after`` times."""
    replace = os.replace

    def fail(*errors, after=0):
        outcomes = [*[None] * after, *errors]

        def failing(source, target):
            error = outcomes.pop(0) if outcomes else None
            if error is not None:
                raise error
            replace(source, target)

        monkeypatch.setattr(os, "replace", failing)

    return fail


def save(folder):
    with replacing_folder(folder, marker=MARKER) as fresh:
        fill(fresh)


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt("Input/output error")])
def test_the_old_folder_is_restored_if_it_cannot_be_replaced(model, failing, after, error):
    failing(error, after=after)
    with pytest.raises(type(error), match="Input/output error"):
        save(model)
    assert contents(model) == {MARKER: "old", "leftover": "old"}
    assert os.listdir(model.parent) == ["model"]


def test_the_error_names_the_old_folder_if_it_cannot_be_restored(model, failing):
    failing(OSError(5, "Input/output error"), OSError(13, "Permission denied"), after=1)
    with pytest.raises(
        ModelError,
        match=r"model' .*\(Input/output error\).*'.*\.model-old-.*'.*'model'",
    ) as failure:
        save(model)
    (old,) = model.parent.iterdir()
    assert repr(str(old)) in str(failure.value)
    assert contents(old) == {MARKER: "old", "leftover": "old"}


def test_an_error_leaves_nothing_where_nothing_was(tmp_path):
    def write_half():
        with replacing_folder(tmp_path / "model", marker=MARKER) as fresh:
            fill(fresh)
            raise RuntimeError("full disk")

    with pytest.raises(RuntimeError, match="full disk"):
        write_half()
    assert os.listdir(tmp_path) == []


def test_a_folder_of_something_else_is_refused(tmp_path):
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter").write_text("years of work")
    with (
        pytest.raises(ModelError, match="thesis'"),
        replacing_folder(folder, marker=MARKER),
    ):
        pytest.fail("the block must not run")
    assert contents(folder) == {"chapter": "years of work"}
    assert os.listdir(tmp_path) == ["thesis"]


def test_a_folder_whose_marker_is_itself_a_folder_is_refused(tmp_path):
    (tmp_path / "thesis" / MARKER).mkdir(parents=True)
    with pytest.raises(ModelError, match="thesis'"), replacing_folder(tmp_path / "thesis", marker=MARKER):
        pytest.fail("the block must not run")


def test_a_file_is_refused(tmp_path):
    path = tmp_path / "model"
    path.write_text("a file")
    with (
        pytest.raises(ModelError, match="model'"),
        replacing_folder(path, marker=MARKER),
    ):
        pytest.fail("the block must not run")
    assert path.read_text() == "a file"


def test_a_file_in_place_of_a_parent_is_refused(tmp_path):
    (tmp_path / "file").write_text("a file")
    with (
        pytest.raises(ModelError, match=r"model' .*\(.+\)"),
        replacing_folder(tmp_path / "file" / "model", marker=MARKER),
    ):
        pytest.fail("the block must not run")


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
def test_a_parent_that_cannot_be_written_to_is_refused(tmp_path):
    tmp_path.chmod(0o555)
    try:
        with (
            pytest.raises(ModelError, match=r"model' .*\(Permission denied\)"),
            replacing_folder(tmp_path / "model", marker=MARKER),
        ):
            pytest.fail("the block must not run")
    finally:
        tmp_path.chmod(0o755)


def test_a_link_to_a_model_still_leads_to_it(model, tmp_path):
    link = tmp_path / "best"
    link.symlink_to(model, target_is_directory=True)
    with replacing_folder(link, marker=MARKER) as fresh:
        fill(fresh)
    assert contents(link) == {MARKER: "new"}
    assert contents(model) == {MARKER: "new"}
    assert sorted(os.listdir(tmp_path)) == ["best", "model"]


@pytest.mark.skipif(os.name != "posix", reason="permission bits are a matter of POSIX")
def test_the_folder_is_as_open_as_any_new_one(tmp_path):
    (tmp_path / "plain").mkdir()
    with replacing_folder(tmp_path / "model", marker=MARKER) as fresh:
        fill(fresh)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "model")]
    assert modes[0] == modes[1]


def test_a_trial_of_writing_leaves_nothing_behind(tmp_path):
    try_writing(tmp_path / "new" / "below")
    assert not (tmp_path / "new").exists()
    (tmp_path / "there").mkdir()
    try_writing(tmp_path / "there")
    assert list((tmp_path / "there").iterdir()) == []


def test_a_trial_below_a_file_raises_and_leaves_nothing_behind(tmp_path):
    (tmp_path / "file").write_text("kept", encoding="utf-8")
    with pytest.raises(OSError, match="file"):
        try_writing(tmp_path / "file" / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text(encoding="utf-8") == "kept"


@pytest.mark.parametrize("content", ["{}", "[]", "no json", '{"model_type": "bert"}'])
def test_a_marker_without_the_key_is_refused(tmp_path, content):
    """Encoders, and much else, have a file called config.json."""
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "config.json").write_text(content, encoding="utf-8")
    (folder / "precious.txt").write_text("p", encoding="utf-8")
    with (
        pytest.raises(ModelError, match="app'"),
        replacing_folder(folder, marker="config.json", key="cascade_srn_version"),
    ):
        pass
    assert (folder / "precious.txt").read_text(encoding="utf-8") == "p"
    (folder / "config.json").write_text('{"cascade_srn_version": "1"}', encoding="utf-8")
    with replacing_folder(folder, marker="config.json", key="cascade_srn_version") as fresh:
        (fresh / "new").touch()
    assert [member.name for member in folder.iterdir()] == ["new"]
