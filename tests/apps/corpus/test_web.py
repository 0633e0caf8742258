"""Inputs on a web server that sends whole files only, as many do."""

import gzip
import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cascade_srn.apps.corpus.inputs import InputSettings, RowReader, find_input_files
from cascade_srn.apps.corpus.shards import plan_shards
from cascade_srn.errors import DataError

pytest.importorskip("aiohttp")
pytestmark = pytest.mark.slow


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """The address of a server of the files in ``tmp_path``."""
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl?download=1"])
def test_shards_are_read_in_any_order(server, tmp_path, name):
    content = b"".join(json.dumps({"text": f"{n} " * 300}).encode() + b"\n" for n in range(3000))
    (tmp_path / "a.jsonl").write_bytes(content)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content, 1))
    settings = InputSettings()
    files = find_input_files(f"{server}/{name}", settings)
    assert files[0].name == name.split("?")[0]
    shards = plan_shards(files, settings)
    assert len(shards) > 1
    with RowReader(files, settings) as reader:
        for shard in (*shards[::-1], *shards):
            _, first, stop = shard.parts[0]
            assert [row.text for row in reader.read(shard)] == [f"{n} " * 300 for n in range(first, stop)]


def test_a_missing_file(server):
    with pytest.raises(DataError) as missing:
        find_input_files(f"{server}/a.jsonl")
    assert "a.jsonl does not exist" in missing.value.problem
