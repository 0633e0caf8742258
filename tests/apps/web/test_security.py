"""API key, Host header, CORS and security headers."""

import socket

import pytest
from fastapi.testclient import TestClient
from tests.apps.service.live import TEXT, live
from tests.apps.web.test_refusals import refusal

from cascade_srn.apps.service.app import create_app
from cascade_srn.apps.web.settings import ServeSettings, find_api_key
from cascade_srn.errors import ConfigError

KEY = "letters-and-digits-123"


@pytest.fixture(scope="module")
def locked(extractor):
    settings = ServeSettings(
        api_key=KEY, allowed_hosts=("127.0.0.1", "Model.Example"), cors_origins=("https://a.example",)
    )
    with live(extractor, settings) as running:
        yield running


@pytest.mark.parametrize(
    "headers", [{"Authorization": f"Bearer {KEY}"}, {"authorization": f"bearer  {KEY}"}, {"X-API-Key": KEY}]
)
def test_requests_with_the_key(locked, headers):
    assert locked.post("/extract", {"text": TEXT}, headers=headers).status_code == 200
    assert locked.client.get("/schema", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({}, "missing"),
        ({"Authorization": f"Basic {KEY}"}, "missing"),
        ({"Authorization": "Bearer"}, "missing"),
        ({"X-API-Key": KEY[:-1]}, "wrong"),
        ({"X-API-Key": KEY + "4"}, "wrong"),
        ({"X-API-Key": b"\xff\xfe"}, "wrong"),
        ({"Authorization": "Bearer wrong", "X-API-Key": KEY}, "wrong"),
    ],
)
def test_requests_without_the_key(locked, headers, problem):
    answer = locked.post("/extract", {"text": TEXT}, headers=headers)
    message = refusal(answer, 401, "unauthorized")
    assert problem in message
    assert "X-API-Key" in message
    assert answer.headers["www-authenticate"] == "Bearer"


def test_paths_that_need_the_key(locked):
    described = locked.client.get("/openapi.json").json()["paths"]
    for path, operations in described.items():
        for method in operations:
            answer = locked.client.request(method.upper(), path)
            assert (answer.status_code == 401) == (path not in ("/health", "/ready")), path
    for path in ("/stylesheet.css", "/docs"):
        assert locked.client.get(path).status_code == 200


@pytest.mark.parametrize("prefix", ["", "/", "/e", "/model", "/model/", "/schema", "/health", "/docs"])
def test_no_prefix_bypasses_the_key(extractor, prefix):
    """The prefix of a proxy, whether or not it ends at a path separator."""
    app = create_app(extractor, ServeSettings(api_key=KEY))
    with TestClient(app, base_url="http://localhost", root_path=prefix) as client:
        for path in ("/extract", "/draw", "/convert", "/schema", "/metrics"):
            for method in ("GET", "POST"):
                for asked in (path, prefix + path, prefix.rstrip("/") + path):
                    # Refused because of the key, or another path.
                    answer = client.request(method, asked)
                    assert answer.status_code in (401, 404, 405) or answer.json() == {"status": "alive"}, asked
        assert client.get(prefix.rstrip("/") + "/health").status_code == 200 or prefix == "/model/"


def test_unknown_paths_need_the_key(locked):
    assert locked.client.get("/nothing").status_code == 401
    assert locked.client.get("/nothing", headers={"X-API-Key": KEY}).status_code == 404


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:80", "model.example", "MODEL.EXAMPLE:8000"])
def test_accepted_hosts(locked, host):
    assert locked.client.get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""])
def test_other_hosts(locked, host):
    answer = locked.client.get("/health", headers={"Host": host})
    message = refusal(answer, 421, "unknown_host")
    assert "Host" in message
    assert "--" not in message


@pytest.mark.parametrize(
    ("host", "allowed", "accepted", "rejected"),
    [
        ("127.0.0.1", (), ["127.0.0.1", "LocalHost:80", "localhost.", "[::1]:8000", "[0:0::1]"], ["10.0.0.1", "[::1"]),
        ("localhost", (), ["127.0.0.1", "localhost"], ["10.0.0.1", "other"]),
        ("10.0.0.1", (), ["10.0.0.1", "localhost"], ["10.0.0.2"]),
        ("model.example", ("b.example:80",), ["model.example", "b.example", "b.example:9"], ["c.model.example"]),
        ("0.0.0.0", (), ["10.0.0.1:80", "[fe80::1]", "localhost", socket.gethostname()], ["10.0.0.1.evil.example"]),
        ("::", (), ["10.0.0.1:80", "[fe80::1]", "localhost", socket.gethostname()], ["localhost:x", "[::1", "a b"]),
        ("127.0.0.1", ("*",), ["evil.example", ""], []),
    ],
)
def test_accepted_hosts_by_address(extractor, host, allowed, accepted, rejected):
    """By default a foreign page cannot use DNS rebinding."""
    app = create_app(extractor, ServeSettings(host=host, allowed_hosts=allowed))
    client = TestClient(app)
    for name in accepted:
        assert client.get("/health", headers={"Host": name}).status_code == 200, name
    for name in [*rejected, *(["evil.example", "localhost.evil.example", ""] if "*" not in allowed else [])]:
        assert client.get("/health", headers={"Host": name}).status_code == 421, name


@pytest.mark.parametrize("name", ["", " ", "http://a.example", "a.example/path", "me@a.example", "a b"])
def test_allowed_hosts_that_are_no_names(name):
    with pytest.raises(ConfigError) as caught:
        ServeSettings(allowed_hosts=(name,))
    assert caught.value.option == "allowed_hosts"
    assert repr(name) in caught.value.problem


def test_several_host_headers_are_refused(service):
    with service.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_requests_of_a_known_origin(locked):
    asking = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    asking["Access-Control-Request-Headers"] = "authorization,content-type"
    answer = locked.client.options("/extract", headers=asking)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://a.example"
    answer = locked.post("/extract", {"text": TEXT}, headers={"Origin": "https://a.example", "X-API-Key": KEY})
    assert answer.headers["access-control-allow-origin"] == "https://a.example"
    other = locked.client.get("/health", headers={"Origin": "https://b.example"})
    assert "access-control-allow-origin" not in other.headers


def test_requests_of_other_origins(service):
    asking = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    answer = service.client.options("/extract", headers=asking)
    assert answer.status_code == 405
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", ["/health", "/docs", "/stylesheet.css", "/nothing", "/extract"])
def test_headers_for_browsers(service, path):
    headers = service.client.get(path).headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["base-uri"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers


def test_the_key_is_not_in_the_repr():
    assert KEY not in repr(ServeSettings(api_key=KEY))


def test_sources_of_the_key(tmp_path, monkeypatch):
    monkeypatch.delenv("CASCADE_SRN_API_KEY", raising=False)
    assert find_api_key() is None
    monkeypatch.setenv("CASCADE_SRN_API_KEY", KEY)
    assert find_api_key() == KEY
    path = tmp_path / "key"
    path.write_text("another\n", encoding="utf-8")
    assert find_api_key(path) == "another"
    path.write_text(" \n", encoding="utf-8")
    with pytest.raises(ConfigError, match="key"):
        find_api_key(path)
    path.write_bytes(b"\x7fELF\xff\x00")
    with pytest.raises(ConfigError, match="key"):
        find_api_key(path)


@pytest.mark.parametrize("value", ["", " ", "\n"])
def test_an_empty_variable_is_an_error(monkeypatch, value):
    monkeypatch.setenv("CASCADE_SRN_API_KEY", value)
    with pytest.raises(ConfigError, match="CASCADE_SRN_API_KEY"):
        find_api_key()


@pytest.mark.parametrize("key", ["", " ", " a", "schlüssel", "two\nlines"])
def test_keys_that_no_header_can_carry(key):
    with pytest.raises(ConfigError, match="API key"):
        ServeSettings(api_key=key)


@pytest.mark.parametrize(
    "origin",
    [
        "*",
        "null",
        "https://example.org",
        "http://localhost:3000",
        "https://[::1]:8443",
        "http://127.0.0.1",
        "https://xn--bcher-kva.example",
        "chrome-extension://abcdefghijklmnop",
    ],
)
def test_origins_in_normal_form(origin):
    assert ServeSettings(cors_origins=(origin,)).cors_origins == (origin,)


@pytest.mark.parametrize(
    ("origin", "right"),
    [
        ("foo", "https://example.org"),
        ("example.org", "https://example.org"),
        ("localhost:3000", "https://example.org"),
        ("https://", "https://example.org"),
        ("https://a:b", "https://example.org"),
        ("https://a b", "https://example.org"),
        ("", "https://example.org"),
        ("https://Example.org", "https://example.org"),
        ("https://a.example/", "https://a.example"),
        ("https://a.example/page?x#y", "https://a.example"),
        ("https://a.example:443", "https://a.example"),
        ("http://a.example:80", "http://a.example"),
        ("http://me@a.example:81", "http://a.example:81"),
        (" https://a.example", "https://a.example"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
    ],
)
def test_origins_that_no_browser_sends(origin, right):
    with pytest.raises(ConfigError) as caught:
        ServeSettings(cors_origins=("https://a.example", origin))
    assert caught.value.option == "cors_origins"
    assert repr(origin) in caught.value.problem
    assert f"{right}, " in caught.value.hint
