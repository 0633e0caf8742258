"""The tool that attacks a local service: requests, outcomes, and a service that dies."""

import asyncio
import json
import subprocess
import sys

import pytest
from tests.apps.service.live import live, random_extractor
from tools.attack_service import ATTACKS, http_request, parse, select_attacks

from cascade_srn.apps.service.messages import ExtractRequest
from cascade_srn.apps.web.settings import ServeSettings
from tools import attack_service

pytestmark = pytest.mark.slow

SHORT = ("--requests", "3", "--clients", "2", "--lead", "0.2", "--connections", "1", "--rate", "20")


async def _serve(answer, close, run):
    async def handle(reader, writer):
        await reader.read(65_536)
        writer.write(answer)
        if close:
            await writer.drain()
            writer.close()
        else:
            await reader.read()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        return await run(server.sockets[0].getsockname()[:2])
    finally:
        server.close()


def test_attacks_are_chosen_by_name_and_by_group(capsys):
    assert [attack.name for attack in select_attacks("keywords, silent")] == [
        "keywords-short",
        "keywords-long",
        "keywords-many",
        "silent",
    ]
    assert select_attacks("") == list(ATTACKS.values())
    with pytest.raises(SystemExit) as stopped:
        select_attacks("keyword")
    assert stopped.value.code == 2
    assert "'keyword'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--url", "http://example.org:8000"], "--url is 'http://example.org:8000'"),
        (["--url", "https://127.0.0.1"], "--url is 'https://127.0.0.1'"),
        (["--requests", "0"], "--requests is 0"),
        (["--drip-seconds", "0"], "--drip-seconds is 0.0"),
        (["--rate", "-1"], "--rate is -1.0"),
    ],
)
def test_invalid_arguments(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        parse(arguments)
    assert stopped.value.code == 2
    written = capsys.readouterr().err
    assert message in written
    assert written.count("\n") == 1


@pytest.mark.parametrize("name", [name for name, attack in ATTACKS.items() if attack.content is not None])
def test_bodies_are_within_the_limits_of_the_service(name):
    # A refused body would not show whether the work itself is bounded.
    limits, content = ServeSettings().limits, ATTACKS[name].content()
    assert len(content) <= limits.body_bytes
    body = ExtractRequest.model_validate_json(content)
    texts = [body.text] if body.text is not None else body.texts
    assert len(texts) <= limits.texts
    assert max(map(len, texts)) <= limits.characters


def test_chunks_of_one_byte():
    head, _, body = http_request(b'{"a":1}', None, chunked=True).partition(b"\r\n\r\n")
    assert b"Transfer-Encoding: chunked" in head
    assert b"Authorization" not in head
    pieces = body.split(b"\r\n")
    assert b"".join(pieces[1:-3:2]) == b'{"a":1}'
    assert set(pieces[0:-3:2]) == {b"1"}
    assert body.endswith(b"\r\n0\r\n\r\n")


@pytest.mark.slow
def test_a_running_service_is_measured_without_and_with_an_attack():
    with live(random_extractor()) as service:
        options = parse(["--url", service.url, *SHORT])
        row = attack_service.measure(ATTACKS["over-queue"], options)
    assert row["service"] == "alive"
    assert row["recovery_s"] is not None
    assert set(row["attacker"]) <= {"413", "unanswered at the end"}
    assert [load["clients"] for load in row["loads"]] == [1, 2]
    for load in row["loads"]:
        assert load["quiet"]["outcomes"] == load["attacked"]["outcomes"] == {"200": 3}
        assert load["ratio_p50"] > 0
    assert attack_service.is_harmless(row)
    assert len(attack_service.format_table([row]).splitlines()) == 3


@pytest.mark.slow
def test_a_run_as_users_start_it(tmp_path):
    random_extractor().save_pretrained(tmp_path / "model")
    path = tmp_path / "found.json"
    command = [
        sys.executable,
        attack_service.__file__,
        "--model",
        str(tmp_path / "model"),
        "--attacks",
        "slow-bodies-401",
    ]
    command += [*SHORT, "--descriptors", "512", "--output", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "slow-bodies-401" in done.stdout
    (row,) = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert row["attacker"]["connected"] > 0
    assert row["peak_bytes"] > 0
    assert str(tmp_path) not in path.read_text(encoding="utf-8")
