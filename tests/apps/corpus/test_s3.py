"""Inputs on a real S3 server."""

import gzip
import io
import json
import os
import pickle
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from cascade_srn.apps.corpus.inputs import InputChangedError, InputSettings, RowReader, find_input_files
from cascade_srn.apps.corpus.shards import plan_shards
from cascade_srn.errors import DataError

pytest.importorskip("moto")
s3fs = pytest.importorskip("s3fs")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.slow

BUCKET = "corpus"
START_SECONDS = 120
WORKER = """
import sys, pickle
from cascade_srn.apps.corpus.inputs import RowReader
files, settings, shards = pickle.load(sys.stdin.buffer)
with RowReader(files, settings) as reader:
    print([row.text for shard in shards for row in reader.read(shard)])
"""


@pytest.fixture(scope="module")
def server():
    """The address of a server in a process of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + START_SECONDS
        while True:
            assert process.poll() is None, "the server stopped"
            assert time.monotonic() < until, "the server did not start"
            try:
                urllib.request.urlopen(f"{address}/moto-api/", timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        yield address
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def s3(server, monkeypatch):
    """File system of the server, with a new bucket. Addresses ``s3://`` lead to it."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    request = urllib.request.Request(f"{server}/moto-api/reset", method="POST")
    urllib.request.urlopen(request, timeout=30).close()
    fs = s3fs.S3FileSystem()
    fs.mkdir(BUCKET)
    yield fs
    s3fs.S3FileSystem.clear_instance_cache()


def lines(*texts):
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


def parquet(texts):
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": texts, "id": range(len(texts))}), sink, row_group_size=10)
    return sink.getvalue()


def fill(fs):
    fs.pipe(f"{BUCKET}/data/a.jsonl", lines("a", "b", "c"))
    fs.pipe(f"{BUCKET}/data/b.jsonl.gz", gzip.compress(lines("d", "e")))
    fs.pipe(f"{BUCKET}/data/sub/c.parquet", parquet([str(n) for n in range(25)]))
    fs.pipe(f"{BUCKET}/data/_SUCCESS", b"")
    return ["a", "b", "c", "d", "e", *(str(n) for n in range(25))]


@pytest.mark.parametrize("address", [f"s3://{BUCKET}/data", f"s3://{BUCKET}/data/**"])
def test_formats(s3, address):
    expected = fill(s3)
    settings = InputSettings(shard_documents=4)
    files = find_input_files(address, settings)
    assert [file.name for file in files] == ["a.jsonl", "b.jsonl.gz", "sub/c.parquet"]
    assert all("ETag" in file.version for file in files)
    shards = plan_shards(files, settings)
    with RowReader(files, settings) as reader:
        assert [row.text for shard in shards for row in reader.read(shard)] == expected
        assert [row.text for row in reader.read(shards[-2])] == expected[-5:-1]


def test_another_process_reads_the_shards(s3):
    expected = fill(s3)
    settings = InputSettings()
    files = find_input_files(f"s3://{BUCKET}/data", settings)
    given = pickle.dumps((files, settings, plan_shards(files, settings)))
    done = subprocess.run(
        [sys.executable, "-c", WORKER], input=given, capture_output=True, timeout=300, check=True, env=os.environ
    )
    assert done.stdout.decode().strip() == str(expected)


@pytest.mark.parametrize(
    "address",
    ["s3://no-such-bucket/a.jsonl", "s3://no-such-bucket/*.jsonl", f"s3://{BUCKET}/missing.jsonl", "s3://nothing"],
)
def test_what_does_not_exist(s3, address):
    with pytest.raises(DataError) as missing:
        find_input_files(address)
    assert address in missing.value.problem
    assert "\n" not in str(missing.value)
    assert missing.value.hint


def test_a_changed_object_is_noticed(s3):
    s3.pipe(f"{BUCKET}/a.jsonl", lines("a", "b"))
    files = find_input_files(f"s3://{BUCKET}/a.jsonl")
    (shard,) = plan_shards(files, InputSettings())
    reader = RowReader(files, InputSettings())
    assert [row.text for row in reader.read(shard)] == ["a", "b"]
    s3.pipe(f"{BUCKET}/a.jsonl", lines("a", "x"))
    with pytest.raises(InputChangedError):
        list(reader.read(shard))


def test_no_server(s3, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    with pytest.raises(DataError) as lost:
        find_input_files("s3://bucket/a.jsonl")
    assert "s3://bucket/a.jsonl" in lost.value.problem
    assert "\n" not in str(lost.value)
