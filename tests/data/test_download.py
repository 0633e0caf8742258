"""Downloads from a server on this machine: whole, broken off, gone on with."""

import re
import socket

import pytest
from tests.data.web import Site, serving

from cascade_srn.data.download import fetch
from cascade_srn.errors import DataError

CONTENT = bytes(range(256)) * 1000


@pytest.fixture
def site():
    with serving(Site({"/a.bin": CONTENT, "/empty": b""})) as found:
        yield found


def _names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("states_length", [True, False])
def test_a_whole_file(site, tmp_path, states_length):
    site.states_length = states_length
    told = []
    fetch(f"{site.url}/a.bin", tmp_path / "a", progress=lambda done, total: told.append((done, total)))
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert _names(tmp_path) == ["a"]
    assert told[-1] == (len(CONTENT), len(CONTENT) if states_length else None)
    assert site.asked == [None]


def test_a_file_of_nothing(site, tmp_path):
    fetch(f"{site.url}/empty", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b""


def test_what_broke_off_is_gone_on_with(site, tmp_path):
    site.breaks_after = 100_000
    for attempt in range(2):
        with pytest.raises(
            DataError, match=rf"broke off after {100_000 * (attempt + 1)} of 256000 bytes; run the same"
        ):
            fetch(f"{site.url}/a.bin", tmp_path / "a")
        assert _names(tmp_path) == ["a.part"]
    fetch(f"{site.url}/a.bin", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert _names(tmp_path) == ["a"]
    assert site.asked == [None, "bytes=100000-", "bytes=200000-"]


def test_a_server_that_sends_everything_again_is_taken_at_its_word(site, tmp_path):
    (tmp_path / "a.part").write_bytes(b"something else")
    site.ranges = False
    fetch(f"{site.url}/a.bin", tmp_path / "a")
    assert site.asked == ["bytes=14-"]
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_more_than_there_is_was_of_another_file(site, tmp_path):
    (tmp_path / "a.part").write_bytes(CONTENT + b"more")
    fetch(f"{site.url}/a.bin", tmp_path / "a")
    assert site.asked == [f"bytes={len(CONTENT) + 4}-", None]
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_other_bytes_than_were_asked_for(site, tmp_path):
    (tmp_path / "a.part").write_bytes(CONTENT[:10])
    site.wrong_start = 7
    with pytest.raises(
        DataError, match=r"asked for the bytes from 10 on and sent 'bytes 7-.*'; remove the file that ends"
    ):
        fetch(f"{site.url}/a.bin", tmp_path / "a")
    assert (tmp_path / "a.part").read_bytes() == CONTENT[:10]


def test_what_was_there_stays_until_all_has_arrived(site, tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    site.breaks_after = 5
    with pytest.raises(DataError, match="broke off"):
        fetch(f"{site.url}/a.bin", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"old"


def test_no_such_file(site, tmp_path):
    with pytest.raises(
        DataError,
        match=r"/b could not be had: the server answered 404 \(Not Found\); check the address, give .* by --archive",
    ):
        fetch(f"{site.url}/b", tmp_path / "a")
    assert _names(tmp_path) == []


def test_no_network(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/a"
    message = (
        rf"{re.escape(url)} could not be reached \(.*refused.*\); check the network, or give the file, .*by --archive"
    )
    with pytest.raises(DataError, match=message):
        fetch(url, tmp_path / "a")


def test_a_server_that_never_answers(tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/a"
        with pytest.raises(DataError, match=r"could not be reached \(.*timed out.*\)"):
            fetch(url, tmp_path / "a", timeout=0.2)


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://a/b", "a.tar.gz"])
def test_only_addresses_of_the_web(url, tmp_path):
    with pytest.raises(DataError, match="is not one of the web; give one that begins with http:// or https://"):
        fetch(url, tmp_path / "a")


@pytest.mark.parametrize("name", ["a.part", "b.part"])
def test_a_part_that_is_a_link_is_not_written_through(site, tmp_path, name):
    (tmp_path / "precious").write_bytes(b"years of work")
    (tmp_path / "a.part").symlink_to(tmp_path / "precious")
    (tmp_path / "b.part").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError, match=f"{name} is a symbolic link, which is not written through. Remove the link."):
        fetch(f"{site.url}/a.bin", tmp_path / name.removesuffix(".part"))
    assert (tmp_path / "precious").read_bytes() == b"years of work"
    assert not (tmp_path / "nowhere").exists()
    assert site.asked == []
