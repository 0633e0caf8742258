"""Corpora from their archives: checked, whole, and nothing else written."""

import hashlib
import io
import json
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests.data.web import Site, serving

from cascade_srn.data.published import (
    CORPORA,
    SCIERC,
    PublishedCorpus,
    PublishedFile,
    check,
    download,
    find_corpus,
    unpack,
)
from cascade_srn.errors import ConfigError, DataError

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data" / "scierc"
FOUND = BESIDE if BESIDE.is_dir() else Path(os.environ.get("CASCADE_SRN_SCIERC", "nowhere"))


def _document(key):
    return {
        "sentences": [["a", "parser", "reads"], ["it", "works"]],
        "ner": [[[1, 1, "Thing"], [0, 1, "Thing"]], []],
        "relations": [[[0, 1, 1, 1, "has"]], []],
        "doc_key": key,
    }


TRAIN = "\n".join(json.dumps(_document(key)) for key in ("a", "b")).encode()
TEST = json.dumps(_document("c")).encode()


def _file(member, content, n):
    return PublishedFile(member, hashlib.sha256(content).hexdigest(), n, 2 * n, 2 * n, n)


CORPUS = PublishedCorpus(
    "toy",
    "http://nowhere.invalid/toy.tar.gz",
    "dygie",
    {"train.json": _file("in/json/train.json", TRAIN, 2), "test.json": _file("in/json/test.json", TEST, 1)},
)


def _archive(members):
    """A tar.gz of these members: bytes, or a TarInfo."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


GOOD = {"in/elmo/train.hdf5": b"x" * 99, "in/json/train.json": TRAIN, "./in/json/test.json": TEST}


@pytest.fixture
def site():
    with serving(Site({"/toy.tar.gz": _archive(GOOD)})) as found:
        yield found


def _toy(site):
    return replace(CORPUS, url=f"{site.url}/toy.tar.gz")


def _names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_the_wanted_files_and_no_others(site, tmp_path):
    found = download(_toy(site), tmp_path / "data" / "toy")
    assert found.fetched
    assert [path.name for path in found.files] == ["train.json", "test.json"]
    assert (tmp_path / "data" / "toy" / "train.json").read_bytes() == TRAIN
    assert _names(tmp_path / "data" / "toy") == ["test.json", "train.json"]


def test_what_is_there_is_not_fetched_again(site, tmp_path):
    download(_toy(site), tmp_path)
    again = download(_toy(site), tmp_path)
    assert not again.fetched
    assert len(site.asked) == 1


def test_what_is_missing_is_fetched_and_neighbours_stay(site, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "train.json").write_bytes(TRAIN)
    assert download(_toy(site), tmp_path).fetched
    assert _names(tmp_path) == ["notes.txt", "test.json", "train.json"]


def test_files_of_something_else_are_replaced_only_when_asked(site, tmp_path):
    (tmp_path / "test.json").write_text("mine")
    with pytest.raises(
        DataError, match=r"test\.json is there already and is not that of the corpus 'toy'; give another"
    ):
        download(_toy(site), tmp_path)
    assert (tmp_path / "test.json").read_text() == "mine"
    assert site.asked == []
    download(_toy(site), tmp_path, overwrite=True)
    assert (tmp_path / "test.json").read_bytes() == TEST


def test_a_download_that_broke_off_is_gone_on_with(site, tmp_path):
    site.breaks_after = 100
    with pytest.raises(DataError, match="broke off after 100 of"):
        download(_toy(site), tmp_path)
    assert _names(tmp_path) == [".toy.tar.gz.part"]
    site.breaks_after = None
    download(_toy(site), tmp_path)
    assert site.asked == [None, "bytes=100-"]
    assert _names(tmp_path) == ["test.json", "train.json"]


def test_an_archive_from_elsewhere_and_another_address(site, tmp_path):
    (tmp_path / "mine.tar.gz").write_bytes(_archive(GOOD))
    download(CORPUS, tmp_path / "a", archive=tmp_path / "mine.tar.gz")
    assert (tmp_path / "mine.tar.gz").is_file()
    download(CORPUS, tmp_path / "b", url=f"{site.url}/toy.tar.gz?now=1")
    assert _names(tmp_path / "a") == _names(tmp_path / "b") == ["test.json", "train.json"]


class TestWrongArchives:
    def _refused(self, tmp_path, content, message):
        (tmp_path / "toy.tar.gz").write_bytes(content)
        with pytest.raises(DataError, match=message):
            download(CORPUS, tmp_path / "data", archive=tmp_path / "toy.tar.gz")
        assert _names(tmp_path / "data") == []

    def test_no_archive(self, tmp_path):
        self._refused(tmp_path, b"<html>moved</html>", r"toy\.tar\.gz cannot be unpacked .*; it is damaged or no tar")

    def test_half_an_archive(self, tmp_path):
        content = _archive({"in/json/train.json": os.urandom(5000), **GOOD})
        self._refused(tmp_path, content[: len(content) // 2], "cannot be unpacked")

    def test_another_archive(self, tmp_path):
        message = r"holds no file in/json/train\.json; it is not the published archive"
        self._refused(tmp_path, _archive({"in/json/test.json": TEST}), message)

    def test_other_documents(self, tmp_path):
        message = r"in/json/train\.json holds 1 documents, and 2 were published; the archive is damaged or of another"
        self._refused(tmp_path, _archive({**GOOD, "in/json/train.json": TEST}), message)

    def test_a_link_in_place_of_a_file(self, tmp_path):
        (tmp_path / "secret").write_bytes(TRAIN)
        link = tarfile.TarInfo("in/json/train.json")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
        self._refused(tmp_path, _archive({**GOOD, "in/json/train.json": link}), r"holds no file in/json/train\.json")

    def test_an_archive_of_the_web_that_is_wrong_is_not_kept(self, site, tmp_path):
        site.files["/toy.tar.gz"] = b"nothing"
        with pytest.raises(DataError, match="cannot be unpacked"):
            download(_toy(site), tmp_path)
        assert _names(tmp_path) == []
        site.files["/toy.tar.gz"] = _archive(GOOD)
        assert download(_toy(site), tmp_path).fetched


def test_names_that_lead_elsewhere_lead_nowhere(tmp_path):
    evil = {
        "../escaped.json": b"1",
        "/tmp/cascade-srn-escaped.json": b"2",
        "in/json/../../../escaped.json": b"3",
        "../in/json/train.json": b"4",
    }
    (tmp_path / "evil.tar.gz").write_bytes(_archive({**evil, **GOOD}))
    inside = tmp_path / "some" / "where"
    download(CORPUS, inside, archive=tmp_path / "evil.tar.gz")
    assert (inside / "train.json").read_bytes() == TRAIN
    assert _names(tmp_path) == ["evil.tar.gz", "some", "some/where", "some/where/test.json", "some/where/train.json"]
    assert not Path("/tmp/cascade-srn-escaped.json").exists()


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(_archive(GOOD))
    with pytest.raises(DataError, match=r"in/json/train\.json in .* has \d+ bytes, more than any file of a corpus"):
        unpack(tmp_path / "a.tar.gz", {"in/json/train.json": tmp_path / "train.json"}, largest=20)
    assert not (tmp_path / "train.json").exists()


def test_the_same_content_in_other_bytes_is_taken_with_a_warning(tmp_path):
    spaced = TRAIN.replace(b"}\n{", b"}\n\n{")
    (tmp_path / "toy.tar.gz").write_bytes(_archive({**GOOD, "in/json/train.json": spaced}))
    with pytest.warns(UserWarning, match=r"train\.json is not byte for byte the file .* but holds as many documents"):
        download(CORPUS, tmp_path / "data", archive=tmp_path / "toy.tar.gz")
    assert (tmp_path / "data" / "train.json").read_bytes() == spaced


def test_corpora_by_name():
    assert find_corpus("scierc") is SCIERC is CORPORA["scierc"]
    with pytest.raises(ConfigError, match=r"no corpus 'sciERCC' to download\. Did you mean 'scierc'\?"):
        find_corpus("sciERCC")


@pytest.mark.skipif(not FOUND.is_dir(), reason="SciERC is not here; set CASCADE_SRN_SCIERC to its folder")
def test_scierc_as_it_stands_is_known(tmp_path, recwarn):
    members = {file.member: (FOUND / "dygie" / name).read_bytes() for name, file in SCIERC.files.items()}
    (tmp_path / "a.tar.gz").write_bytes(_archive(members))
    found = download(SCIERC, tmp_path / "data", archive=tmp_path / "a.tar.gz")
    assert [path.name for path in found.files] == ["train.json", "dev.json", "test.json"]
    assert not recwarn.list
    # The counts are those that a reader finds.
    for name, file in SCIERC.files.items():
        other = replace(file, sha256="")
        with pytest.warns(UserWarning, match="not byte for byte"):
            check(tmp_path / "data" / name, other, "dygie")
