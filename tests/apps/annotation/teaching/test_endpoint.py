import gzip
import time
from email.utils import formatdate

import pytest
from tests.apps.annotation.teaching.scripted_server import completion, drip, serving

from cascade_srn.apps.annotation.teaching.endpoint import Endpoint, EndpointError, EndpointSettings, QuestionFailed
from cascade_srn.apps.annotation.teaching.prompts import Question
from cascade_srn.errors import ConfigError

QUESTION = Question("d", 0, "own-v1", "What?", 0.0)
KEY = "secret-key"


def ask(server, told=None, **options):
    """Ask once. Return the reply, and how many requests were reserved and released."""
    settings = EndpointSettings(server.url, "m", KEY, **{"backoff": 0.01, "timeout": 5.0} | options)
    calls = []
    endpoint = Endpoint(settings, {"type": "object"}, tell=(told if told is not None else []).append)
    try:
        reply = endpoint.ask(QUESTION, lambda: calls.append("asked"), lambda: calls.append("unpaid"))
    except QuestionFailed as error:
        reply = error
    return reply, calls.count("asked"), calls.count("unpaid")


def test_a_question_is_sent_as_it_should_be():
    with serving(lambda number, body: "{}") as server:
        assert ask(server) == (ask(server)[0], 1, 0)
    request = server.requests[0]
    assert request["path"] == "/v1/chat/completions"
    assert request["messages"] == [{"role": "user", "content": "What?"}]
    assert request["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ((429, {"Retry-After": "0"}, {"error": {"message": "slow\ndown"}}), "429 (slow down)"),
        ((429, {"Retry-After": formatdate(time.time() - 5)}, {}), "429"),
        ((500, {}, b"<html>"), "500"),
        ((503, {}, {"error": f"wrong {KEY}"}), "503 (wrong …)"),
    ],
)
def test_passing_failures_are_retried_and_cost_nothing(bad, problem):
    told = []
    with serving(lambda number, body: bad if number < 3 else "fine") as server:
        reply, n_asked, n_unpaid = ask(server, told)
    assert (reply.content, n_asked, n_unpaid) == ("fine", 3, 2)
    assert len(told) == 2
    assert told[0].startswith(f"d, answer 1: {problem}; asking again in")


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ((200, {}, b"no json"), "not a chat completion"),
        ((200, {}, {"choices": []}), "not a chat completion"),
        ((200, {}, b"[" * 100_000), "not a chat completion"),
        (drip(b" " * 10_000, 0), "more than 256 KiB"),
        (drip(b" ", 0.05), "not complete after 0.4 s"),
        (lambda handler: handler.connection.shutdown(2), "the connection was cut"),
        (lambda handler: time.sleep(0.8), "does not answer in time"),
    ],
)
def test_failures_that_may_be_charged_are_retried_once_and_stay_reserved(bad, problem):
    with serving(lambda number, body: bad) as server:
        reply, n_asked, n_unpaid = ask(server, timeout=0.4 if "0.4" in problem or "in time" in problem else 20.0)
    assert problem in str(reply)
    assert (n_asked, n_unpaid) == (2, 0)


def test_refusals_empty_and_cut_answers_are_answers():
    replies = {
        "the model refuses to answer": completion(None, message={"refusal": "I won't"}),
        "the answer is empty": completion(" "),
        "the answer was cut off at the limit of tokens": completion("{", finish_reason="length"),
        "": completion("{}", tokens=None),
    }
    for problem, body in replies.items():
        with serving(lambda number, _, body=body: (200, {}, body)) as server:
            reply, n_asked, _ = ask(server)
        assert (reply.problem, n_asked) == (problem, 1)
    assert reply.tokens is None


def test_compressed_answers_and_halves_of_characters():
    body = gzip.compress(b'{"choices": [{"message": {"content": "a\\ud83d"}}]}')
    with serving(lambda number, _: (200, {"Content-Encoding": "gzip"}, body)) as server:
        assert ask(server)[0].content == "a?"


def test_a_server_without_json_schemas_is_asked_in_another_form():
    def script(number, body):
        wrong = "response_format" in body or "max_tokens" not in body
        return (400, {}, {"error": {"message": "unknown field"}}) if wrong else "fine"

    told = []
    with serving(script) as server:
        reply, n_asked, n_unpaid = ask(server, told)
    assert (reply.content, n_asked, n_unpaid) == ("fine", 3, 2)
    assert "response_format" not in server.requests[-1]
    assert "temperature" not in server.requests[1]  # with the newer name of the limit


def test_a_refused_question_is_no_reason_to_change_a_form_that_works():
    with serving(lambda number, body: "fine" if number == 1 else (400, {}, {"error": "too long"})) as server:
        endpoint = Endpoint(EndpointSettings(server.url, "m"), {})
        endpoint.ask(QUESTION, list, list)
        with pytest.raises(QuestionFailed, match=r"400 \(too long\)"):
            endpoint.ask(QUESTION, list, list)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "hint"),
    [(401, "CASCADE_SRN_TEACHER_KEY"), (403, "rights"), (404, "/v1"), (400, "name of the model"), (402, "account")],
)
def test_what_cannot_pass_stops_the_run(status, hint):
    refusal = status, {}, {"error": {"message": f"bad {KEY}"}}
    with serving(lambda number, body: refusal) as server, pytest.raises(EndpointError) as stopped:
        ask(server)
    assert hint in stopped.value.hint
    assert KEY not in str(stopped.value)


def test_redirects_get_neither_text_nor_key():
    with (
        serving() as other,
        serving(lambda number, body: (307, {"Location": f"{other.url}/x"}, b"")) as server,
        pytest.raises(EndpointError, match="redirects to"),
    ):
        ask(server)
    assert other.requests == []


def test_no_server():
    calls = []
    endpoint = Endpoint(EndpointSettings("http://127.0.0.1:9/v1", "m", retries=1, backoff=0.01), {})
    with pytest.raises(QuestionFailed, match="cannot be reached; given up after 2 attempts"):
        endpoint.ask(QUESTION, lambda: calls.append(1), lambda: calls.append(-1))
    assert sum(calls) == 0


def test_passwords_of_netrc_are_not_sent(tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with serving(lambda number, body: "{}") as server:
        Endpoint(EndpointSettings(server.url, "m"), {}).ask(QUESTION, list, list)
    assert "authorization" not in server.headers[0]


@pytest.mark.parametrize(
    ("url", "key"),
    [("localhost:8000", ""), ("file:///etc/passwd", ""), ("http://me:pw@host/v1", ""), ("http://host/v1", "a\nb")],
)
def test_invalid_settings(url, key):
    with pytest.raises(ConfigError):
        EndpointSettings(url, "m", key)


def test_addresses():
    for given, expected in {
        "http://host/v1/": "http://host/v1/chat/completions",
        "https://host/x/chat/completions?version=1": "https://host/x/chat/completions?version=1",
    }.items():
        assert EndpointSettings(given, "m").address == expected
    assert EndpointSettings("http://host/v1", "m", "k").sends_key_in_clear
    assert not EndpointSettings("http://localhost/v1", "m", "k").sends_key_in_clear
