import re
import socket

import pytest
from tests.formats.web import Site, serving

from cascade_srn.errors import DataError
from cascade_srn.storage import download
from cascade_srn.storage.download import _check_redirect, fetch

CONTENT = bytes(range(256)) * 1000


@pytest.fixture
def site():
    with serving(Site({"/a.bin": CONTENT, "/empty": b""})) as found:
        yield found


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    """An interrupted download loses the chunk that was being read."""
    monkeypatch.setattr(download, "_CHUNK", 1000)


def _names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("states_length", [True, False])
def test_a_whole_file(site, tmp_path, states_length):
    site.states_length = states_length
    reported = []
    fetch(f"{site.url}/a.bin", tmp_path / "a", progress=lambda done, total: reported.append((done, total)))
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert _names(tmp_path) == ["a"]
    assert reported[-1] == (len(CONTENT), len(CONTENT) if states_length else None)
    assert site.asked == [None]


def test_an_interrupted_download_is_resumed(site, tmp_path):
    site.breaks_after = 100_000
    for attempt in range(2):
        with pytest.raises(DataError, match=rf"/a\.bin .*{100_000 * (attempt + 1)} of 256000 bytes"):
            fetch(f"{site.url}/a.bin", tmp_path / "a")
        assert _names(tmp_path) == ["a.part"]
    fetch(f"{site.url}/a.bin", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert _names(tmp_path) == ["a"]
    assert site.asked == [None, "bytes=100000-", "bytes=200000-"]


def test_a_server_that_ignores_the_range_starts_the_download_again(site, tmp_path):
    (tmp_path / "a.part").write_bytes(b"something else")
    site.ranges = False
    fetch(f"{site.url}/a.bin", tmp_path / "a")
    assert site.asked == ["bytes=14-"]
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_a_part_that_is_longer_than_the_file_is_discarded(site, tmp_path):
    (tmp_path / "a.part").write_bytes(CONTENT + b"more")
    fetch(f"{site.url}/a.bin", tmp_path / "a")
    assert site.asked == [f"bytes={len(CONTENT) + 4}-", None]
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_other_bytes_than_were_asked_for(site, tmp_path):
    (tmp_path / "a.part").write_bytes(CONTENT[:10])
    site.wrong_start = 7
    with pytest.raises(DataError, match=r"'bytes 7-.*'.* 10 .*a\.part"):
        fetch(f"{site.url}/a.bin", tmp_path / "a")
    assert (tmp_path / "a.part").read_bytes() == CONTENT[:10]


def test_what_was_there_stays_until_all_has_arrived(site, tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    site.breaks_after = 5000
    with pytest.raises(DataError, match="5000 of 256000"):
        fetch(f"{site.url}/a.bin", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"old"


def test_no_such_file(site, tmp_path):
    with pytest.raises(DataError, match=r"/b .*404 \(Not Found\)"):
        fetch(f"{site.url}/b", tmp_path / "a")
    assert _names(tmp_path) == []


def test_no_network(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/a"
    with pytest.raises(DataError, match=rf"{re.escape(url)} .*refused") as caught:
        fetch(url, tmp_path / "a")
    assert caught.value.option == "archive"


def test_a_server_that_never_answers(tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/a"
        with pytest.raises(DataError, match="timed out"):
            fetch(url, tmp_path / "a", timeout=0.2)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/hostname", "ftp://a/b", "a.tar.gz", "http://", "http:///a", "http://[", "http://a:b/c",
        "http://a:0/",
        f"http://{'a' * 70}.org/x",
        "http://a b/",
        "http://127.0.0.1:9/\u00e9",
    ],
)  # fmt: skip
def test_only_addresses_of_the_web(url, tmp_path):
    with pytest.raises(DataError) as caught:
        fetch(url, tmp_path / "a")
    assert caught.value.option in ("url", "archive")
    assert _names(tmp_path) == []


def test_a_redirect_is_followed(site, tmp_path):
    site.redirects["/old"] = f"{site.url}/a.bin"
    fetch(f"{site.url}/old", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_a_redirect_to_another_protocol_is_refused(site, tmp_path):
    site.redirects["/old"] = "ftp://127.0.0.1/a.bin"
    with pytest.raises(DataError, match=r"ftp://127.0.0.1/a.bin"):
        fetch(f"{site.url}/old", tmp_path / "a")


def test_a_redirect_from_https_to_http_is_refused():
    with pytest.raises(DataError, match=r"https://example.org/a .*http://example.org/b"):
        _check_redirect("https://example.org/a", "http://example.org/b")
    _check_redirect("https://example.org/a", "https://example.org/b")
    _check_redirect("http://example.org/a", "https://example.org/b")


@pytest.mark.parametrize("states_length", [True, False])
def test_a_file_that_is_too_large_is_not_kept(site, tmp_path, states_length):
    site.states_length = states_length
    with pytest.raises(DataError, match="100000"):
        fetch(f"{site.url}/a.bin", tmp_path / "a", max_bytes=100_000)
    assert _names(tmp_path) == []


@pytest.mark.parametrize("kind", ["link", "dangling link"])
def test_a_part_that_is_a_link_is_not_written_to(site, tmp_path, kind):
    part, precious = tmp_path / "a.part", tmp_path / "precious"
    precious.write_bytes(b"years of work")
    part.symlink_to(precious if kind == "link" else tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"a\.part"):
        fetch(f"{site.url}/a.bin", tmp_path / "a")
    assert precious.read_bytes() == b"years of work"
    assert _names(tmp_path) == ["a.part", "precious"]
