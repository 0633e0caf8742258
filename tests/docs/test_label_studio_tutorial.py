"""The tutorial for Label Studio: its commands run, and print lines like those pasted."""

import json
import re
import shlex
import signal
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from tests.apps.web.live_app import PATIENCE
from tests.cli.conftest import run, start

from cascade_srn import read_documents

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial-label-studio.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


INIT, TRAIN, EVALUATE, EXTRACT, SERVE, SUGGEST, CONVERT = [
    shlex.split(line)[1:] for line in re.findall(r"^cascade-srn .*$", PAGE, re.MULTILINE)
]
TEXTS = blocks("text")


# Lines that depend on the machine or on the number of epochs.
VARYING = ("…", "epoch", "# Expected time", "Of ten")


def without_results(line):
    """Return a line without figures, the chosen treatment of overlaps, and a list of losses."""
    return re.sub(r"\s+", " ", re.sub(r"[\d.,]+|(?<=overlaps) \w+|;.*does not hold.*", " ", line)).strip()


def assert_same_lines(printed, pasted):
    """Compare the lines without what depends on the number of epochs."""
    found = {without_results(line) for line in printed.splitlines()}
    for line in pasted.splitlines():
        assert line.startswith(VARYING) or without_results(line) in found, line


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_labelling_interface_has_the_labels_of_the_tasks():
    (interface,) = blocks("xml")
    found = {label for d in read_documents(ROOT / "examples/kitchen/train.json") for label in labels_of(d)}
    assert set(re.findall(r'<(?:Label|Relation) value="([^"]+)"/>', interface)) == found


def labels_of(document):
    return [item.label for item in (*document.entities, *document.relations)]


@pytest.mark.slow
def test_from_tasks_to_a_service(workplace, capsys):
    pytest.importorskip("fastapi")
    assert run(*INIT) == 0
    assert_same_lines(capsys.readouterr().out, TEXTS[0])
    assert_same_lines((workplace / "kitchen.yaml").read_text(encoding="utf-8"), blocks("yaml")[0])
    assert run(*TRAIN, "training.epochs=2") == 0
    assert_same_lines(capsys.readouterr().out, TEXTS[1])
    assert run(*EVALUATE) == 0
    assert_same_lines(capsys.readouterr().out, TEXTS[2])
    assert run(*EXTRACT) == 0
    assert capsys.readouterr().out.startswith("text\n")
    _serve()
    _suggest(workplace, capsys)


def _serve():
    service = start(*SERVE, "--port", 0, "--quiet", stderr=-1, text=True)
    try:
        line = service.stderr.readline()
        (curl,) = re.findall(r"^curl .*$", PAGE, re.MULTILINE)
        words = shlex.split(curl)
        address = re.search(r"http://[\d.:]+", line)[0]
        body = words[words.index("-d") + 1].encode()
        request = Request(f"{address}/extract", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=PATIENCE) as answer:
            (found,) = json.load(answer)["documents"]
        (pasted,) = json.loads(blocks("json")[0])["documents"]
        assert found.keys() == pasted.keys()
        assert found["text"] == pasted["text"]
        assert found["sentences"] == pasted["sentences"]
    finally:
        service.send_signal(signal.SIGTERM)
        assert service.wait(PATIENCE) == 0
        service.stderr.close()


def _suggest(workplace, capsys):
    (workplace / "notes.jsonl").write_text(blocks("json")[1], encoding="utf-8")
    assert run(*SUGGEST) == 0
    assert run(*CONVERT) == 0
    assert_same_lines(capsys.readouterr().err, TEXTS[-1])
    tasks = json.loads((workplace / "suggestions.json").read_text(encoding="utf-8"))
    assert [task["data"]["id"] for task in tasks] == ["n1", "n2"]
