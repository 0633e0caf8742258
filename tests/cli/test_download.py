import hashlib

import pytest
from tests.cli.conftest import failure, run
from tests.formats.test_corpora import CORPUS, GOOD, TRAIN, _archive
from tests.formats.web import Site, serving

from cascade_srn.formats import corpora as published


@pytest.fixture(autouse=True)
def _toy(monkeypatch):
    monkeypatch.setattr(published, "CORPORA", {"toy": CORPUS})


def test_into_the_folder_that_recipes_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with serving(Site({"/a.tar.gz": _archive(GOOD)})) as site:
        assert run("download", "toy", "--url", f"{site.url}/a.tar.gz") == 0
        printed = capsys.readouterr()
        assert printed.out == "The files of toy are in data/toy: train.json, test.json\n"
        assert "100 % of" in printed.err
        assert (tmp_path / "data" / "toy" / "train.json").read_bytes() == TRAIN
        assert run("download", "toy", "--url", f"{site.url}/a.tar.gz") == 0
    assert capsys.readouterr() == ("The files of toy were already in data/toy: train.json, test.json\n", "")


def test_the_checksum_of_the_archive(tmp_path, capsys):
    (tmp_path / "a.tar.gz").write_bytes(content := _archive(GOOD))
    arguments = ("download", "toy", "--archive", tmp_path / "a.tar.gz", "--output", tmp_path / "x", "--sha256")
    assert "1" * 64 in failure(capsys, *arguments, "1" * 64)
    assert not (tmp_path / "x").exists()
    assert run(*arguments, hashlib.sha256(content).hexdigest()) == 0


@pytest.mark.parametrize(
    ("arguments", "data"),
    [
        (["ace05"], "'ace05'"),
        (["toy", "--url", "http://a/b", "--archive", "c"], "--archive"),
        (["toy", "--archive", "nowhere.tar.gz"], "'nowhere.tar.gz'"),
        (["toy", "--url", "http://127.0.0.1:9/a.tar.gz"], "http://127.0.0.1:9/a.tar.gz"),
    ],
)
def test_errors(arguments, data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert data in failure(capsys, "download", *arguments)
    assert not list(tmp_path.glob("*/*"))
