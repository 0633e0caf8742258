"""The tool that attacks a local service: requests, outcomes, and a service that dies."""

import asyncio
import json
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from tests.apps.service.live import live, random_extractor
from tools.attack_service import ATTACKS, Attacker, Load, Pressure, Service, http_request, parse, select_attacks

from cascade_srn.apps.service.messages import ExtractRequest
from cascade_srn.apps.web.settings import ServeSettings
from tools import attack_service

pytestmark = pytest.mark.slow

SHORT = ("--requests", "3", "--clients", "2", "--lead", "0.2", "--connections", "1", "--rate", "20")
PRESSURE = Pressure(connections=2, rate=None, drip_seconds=0.01, timeout=60, descriptors=64)

# Answers every request with an empty object, and writes its address as the service does.
STUB = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
server.serve_forever()
"""


@contextmanager
def stub_service(options=None, limit_bytes=1 << 40):
    process = subprocess.Popen([sys.executable, "-c", STUB], stdout=subprocess.PIPE)
    url = process.stdout.readline().decode().strip()
    service = Service(url, None, process, process.pid, limit_bytes)
    service.process = process
    try:
        yield service
    finally:
        service.close()
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def stub_server(answer: bytes, *, close: bool):
    """A server that reads once, answers once, and then closes or keeps the connection."""
    yield lambda run: asyncio.run(_serve(answer, close, run))


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


def run_attack(attack, answer, *, close, enough):
    """Attack a server until there are enough outcomes, and return them."""

    async def run(address):
        attacker, stop = Attacker(attack, address, "secret", PRESSURE), asyncio.Event()
        running = asyncio.create_task(attacker.run(stop))
        end = time.monotonic() + 60
        while not enough(attacker.outcomes):
            assert time.monotonic() < end, attacker.outcomes
            await asyncio.sleep(0.005)
        stop.set()
        await running
        return attacker.outcomes

    with stub_server(answer, close=close) as serve:
        return serve(run)


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


def test_what_is_lost_is_counted():
    load = Load(1, [0.1, 0.3])
    load.outcomes.update({"200": 2, "503": 3, "no answer in time": 1})
    assert load.lost == 4
    assert load.percentile(50) == pytest.approx(0.2)
    found = load.to_dict()
    assert (found["sent"], found["lost"]) == (6, 4)
    assert Load(1).to_dict()["p50_s"] is None


def test_an_attacker_sends_again_as_soon_as_it_is_answered():
    answer = b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\n{}"
    outcomes = run_attack(ATTACKS["keywords-short"], answer, close=True, enough=lambda got: got["503"] >= 5)
    assert set(outcomes) == {"503", "unanswered at the end"}


def test_a_slow_client_holds_its_connection_after_an_answer():
    attack = attack_service.Attack("a", "b", "c", connections=3, opening=b"POST ", drip=b"x")
    answer = b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"
    outcomes = run_attack(attack, answer, close=False, enough=lambda got: got["401"] == 3)
    assert outcomes == {"connected": 3, "401": 3, "open at the end": 3}


def test_a_slow_client_that_is_closed_comes_back():
    attack = attack_service.Attack("a", "b", "c", connections=1, opening=b"POST ", drip=b"x")
    outcomes = run_attack(attack, b"", close=True, enough=lambda got: got["closed"] >= 2)
    assert outcomes["connected"] >= 2
    assert outcomes["closed"] >= 2


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
def test_a_service_that_dies_is_reported(monkeypatch, tmp_path, capsys):
    services = []

    @contextmanager
    def stub(options):
        with stub_service() as service:
            services.append(service)
            yield service

    @contextmanager
    def killing(*_):
        services[-1].process.kill()
        services[-1].process.wait()
        yield {}

    monkeypatch.setattr(attack_service, "start_service", stub)
    monkeypatch.setattr(attack_service, "attacking", killing)
    monkeypatch.setattr(attack_service.signal, "signal", lambda *_: None)
    path = tmp_path / "found.json"
    with pytest.raises(SystemExit) as stopped:
        attack_service.main(["--attacks", "keywords-short,keywords-long", *SHORT, "--output", str(path)])
    assert stopped.value.code == 1
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [row["attack"] for row in rows] == ["keywords-short", "keywords-long"]
    for row in rows:
        assert row["service"] == "died (exit code -9)"
        assert row["recovery_s"] is None
        assert [load["attacked"]["lost"] for load in row["loads"]] == [3, 3]
    assert "died (exit code -9)" in capsys.readouterr().out


@pytest.mark.slow
def test_a_service_past_the_memory_limit_is_killed():
    with stub_service(limit_bytes=1 << 20) as service:
        service.process.wait(60)
        assert service.state == "killed past 1 MiB"
        assert service.peak > 1 << 20


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
