import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests.formats.other_processes import held_elsewhere
from tests.formats.web import Site, serving

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.formats.corpora import CORPORA, SCIERC, PublishedCorpus, PublishedFile, download, find_corpus, unpack
from cascade_srn.formats.registry import read_documents

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


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    """An interrupted download loses the chunk that was being read."""
    monkeypatch.setattr("cascade_srn.storage.download._CHUNK", 10)


def _toy(site):
    return replace(CORPUS, url=f"{site.url}/toy.tar.gz")


def _names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_only_the_files_of_the_corpus_are_written(site, tmp_path):
    found = download(_toy(site), tmp_path / "data" / "toy")
    assert found.fetched
    assert [path.name for path in found.files] == ["train.json", "test.json"]
    assert (tmp_path / "data" / "toy" / "train.json").read_bytes() == TRAIN
    assert _names(tmp_path / "data" / "toy") == ["test.json", "train.json"]


def test_existing_files_are_not_downloaded_again(site, tmp_path):
    download(_toy(site), tmp_path)
    again = download(_toy(site), tmp_path)
    assert not again.fetched
    assert len(site.asked) == 1


def test_missing_files_are_downloaded_and_other_files_kept(site, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "train.json").write_bytes(TRAIN)
    assert download(_toy(site), tmp_path).fetched
    assert _names(tmp_path) == ["notes.txt", "test.json", "train.json"]


def test_files_of_something_else_are_replaced_only_when_asked(site, tmp_path):
    (tmp_path / "test.json").write_text("mine")
    with pytest.raises(DataError, match=r"test\.json .*'toy'") as caught:
        download(_toy(site), tmp_path)
    assert caught.value.option == "overwrite"
    assert (tmp_path / "test.json").read_text() == "mine"
    assert site.asked == []
    download(_toy(site), tmp_path, overwrite=True)
    assert (tmp_path / "test.json").read_bytes() == TEST


def test_an_interrupted_download_is_resumed(site, tmp_path):
    site.breaks_after = 100
    with pytest.raises(DataError, match="100 of "):
        download(_toy(site), tmp_path)
    (kept,) = _names(tmp_path)
    assert kept.startswith(".toy-")
    assert kept.endswith(".part")
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
        self._refused(tmp_path, b"<html>moved</html>", r"toy\.tar\.gz")

    def test_another_archive(self, tmp_path):
        self._refused(tmp_path, _archive({"in/json/test.json": TEST}), r"in/json/train\.json")

    def test_other_documents(self, tmp_path):
        message = r"in/json/train\.json .*[0-9a-f]{64}.*[0-9a-f]{64}"
        self._refused(tmp_path, _archive({**GOOD, "in/json/train.json": TEST}), message)

    def test_a_link_in_place_of_a_file(self, tmp_path):
        (tmp_path / "secret").write_bytes(TRAIN)
        link = tarfile.TarInfo("in/json/train.json")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
        self._refused(tmp_path, _archive({**GOOD, "in/json/train.json": link}), r"in/json/train\.json")

    def test_an_archive_of_the_web_that_is_wrong_is_not_kept(self, site, tmp_path):
        site.files["/toy.tar.gz"] = b"nothing"
        with pytest.raises(DataError):
            download(_toy(site), tmp_path)
        assert _names(tmp_path) == []
        site.files["/toy.tar.gz"] = _archive(GOOD)
        assert download(_toy(site), tmp_path).fetched


def test_members_with_paths_outside_the_folder_are_ignored(tmp_path):
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
    with pytest.raises(DataError, match=rf"in/json/train\.json .* {len(TRAIN)} bytes"):
        unpack(tmp_path / "a.tar.gz", {"in/json/train.json": tmp_path / "train.json"}, largest=20)
    assert not (tmp_path / "train.json").exists()


def _forged():
    """An archive whose counts are the published ones, and whose text is not."""
    return _archive({**GOOD, "in/json/train.json": TRAIN.replace(b"parser", b"forger")})


def test_other_bytes_with_the_published_counts_are_refused(site, tmp_path, recwarn):
    site.files["/toy.tar.gz"] = _forged()
    with pytest.raises(DataError, match=r"train\.json .*SHA-256"):
        download(_toy(site), tmp_path)
    assert _names(tmp_path) == []
    assert not recwarn.list


def test_a_checksum_of_the_archive(site, tmp_path):
    corpus = _toy(site)
    good = hashlib.sha256(site.files["/toy.tar.gz"]).hexdigest()
    with pytest.raises(DataError, match=rf"{good}.*{'0' * 64}"):
        download(corpus, tmp_path, sha256="0" * 64)
    assert _names(tmp_path) == []
    assert download(corpus, tmp_path, sha256=f"SHA256:{good.upper()}").fetched
    assert _names(tmp_path) == ["test.json", "train.json"]


@pytest.mark.parametrize("given", ["", "abc", "g" * 64, "0" * 63])
def test_a_malformed_checksum_is_refused(given, tmp_path):
    with pytest.raises(ConfigError) as caught:
        download(CORPUS, tmp_path, sha256=given)
    assert caught.value.option == "sha256"


@pytest.mark.skipif(os.name != "posix", reason="there are no such locks here")
def test_two_downloads_into_one_folder(site, tmp_path):
    with held_elsewhere(tmp_path) as other, pytest.raises(ConfigError, match=str(other.pid)):
        download(_toy(site), tmp_path)
    assert site.asked == []


@pytest.mark.parametrize("pack", [lzma.compress, bz2.compress, bytes])
def test_archives_in_other_compressions(tmp_path, pack):
    (tmp_path / "toy").write_bytes(pack(gzip.decompress(_archive(GOOD))))
    assert download(CORPUS, tmp_path / "data", archive=tmp_path / "toy").fetched


@pytest.mark.parametrize("pack", [lzma.compress, bz2.compress, gzip.compress])
def test_a_damaged_archive_of_any_compression(tmp_path, pack):
    content = bytearray(pack(gzip.decompress(_archive(GOOD))))
    content[len(content) // 2 :] = b"\xff" * (len(content) - len(content) // 2)
    (tmp_path / "toy").write_bytes(content)
    with pytest.raises(DataError):
        download(CORPUS, tmp_path / "data", archive=tmp_path / "toy")
    assert _names(tmp_path / "data") == []


def test_a_header_that_states_a_huge_size_is_not_read(tmp_path):
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 1 << 40
    (tmp_path / "a.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(DataError, match=r"a\.tar .*\d+ bytes"):
        unpack(tmp_path / "a.tar", {"in/json/train.json": tmp_path / "train.json"})


def test_a_chain_of_long_names_is_one_sentence(tmp_path):
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2
    block = info.tobuf(tarfile.GNU_FORMAT) + b"x".ljust(512, b"\0")
    (tmp_path / "a.tar").write_bytes(block * 5000)
    with pytest.raises(DataError, match=r"a\.tar"):
        unpack(tmp_path / "a.tar", {"in/json/train.json": tmp_path / "train.json"})


def test_corpora_by_name():
    assert find_corpus("scierc") is SCIERC is CORPORA["scierc"]
    with pytest.raises(ConfigError, match=r"'sciERCC'.*'scierc'"):
        find_corpus("sciERCC")


@pytest.mark.skipif(not FOUND.is_dir(), reason="SciERC is not here; set CASCADE_SRN_SCIERC to its folder")
@pytest.mark.slow
def test_the_published_scierc_is_accepted(tmp_path, recwarn):
    members = {file.member: (FOUND / "dygie" / name).read_bytes() for name, file in SCIERC.files.items()}
    (tmp_path / "a.tar.gz").write_bytes(_archive(members))
    found = download(SCIERC, tmp_path / "data", archive=tmp_path / "a.tar.gz")
    assert [path.name for path in found.files] == ["train.json", "dev.json", "test.json"]
    assert not recwarn.list
    # The counts are those that a reader finds.
    for name, file in SCIERC.files.items():
        stream = read_documents(tmp_path / "data" / name, SCIERC.format)
        assert len(list(stream)) == file.documents
        report = stream.report
        assert (report.sentences, report.entities, report.relations) == (file.sentences, file.entities, file.relations)
