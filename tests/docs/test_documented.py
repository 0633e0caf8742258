"""The pages of the documentation site: structure, generated parts, and snippets."""

import contextlib
import io
import re
import shlex
import signal
import sys
from pathlib import Path

import pytest
from tests.apps.web.live_app import PATIENCE
from tests.cli.conftest import run, start
from tests.evaluation.saved_models import DOCUMENTS, saved_model

from cascade_srn import Extractor, write_documents
from cascade_srn.training.recipe import Recipe

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

import generate  # noqa: E402


def _text(name):
    return (DOCS / name).read_text(encoding="utf-8")


def _blocks(name, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", _text(name), flags=re.DOTALL | re.MULTILINE)


def _printed(code, names=None):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "docs", "exec"), {} if names is None else names)
    return printed.getvalue()


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder that looks like the root of the repository."""
    (tmp_path / "examples").symlink_to(DOCS.parent / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_page_is_in_the_table_of_contents():
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    listed = {line for block in _blocks("index.md", r"\{toctree\}") for line in block.splitlines() if line}
    adrs = {page for page in pages if re.match(r"adr/\d{4}-", page)}
    assert pages - adrs - {"index"} == {line for line in listed if not line.startswith(":")}


def test_links_lead_somewhere():
    for path in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_links_to_files_outside_the_site_become_text():
    assert (
        generate.prepare("see [recipes](../recipes) and [formats](formats.md)")
        == "see recipes and [formats](formats.md)"
    )


def test_the_command_line_reference_is_complete():
    text = generate.prepare(_text("reference/command-line.md"))
    for part in ("## cascade-srn extract", "## cascade-srn benchmark growth", "`--threshold X\\|TURN=X\\|LABEL=X`"):
        assert part in text
    assert "`--batch-words` | `4096` |" in text


def test_the_settings_reference_is_complete():
    text = generate.prepare(_text("reference/configuration.md"))
    assert all(f"### {name}\n" in text for name in ("model", "data", "training", "distillation"))
    for key in ("model.encoder.name", "model.thresholds.related", "training.epochs", "limits.body_bytes", "masked"):
        assert f"| `{key}` |" in text
    assert "| `training.epochs` | `int` | `30` |" in text
    assert Recipe.__dataclass_fields__.keys() >= {"model", "data", "training", "output"}


def test_the_http_reference_is_complete():
    pytest.importorskip("fastapi")
    text = generate.prepare(_text("reference/http.md"))
    for operation in ("POST /extract", "POST /draw", "POST /convert", "GET /schema", "GET /ready", "GET /metrics"):
        assert f"| `{operation}` |" in text
    assert "### ExtractRequest" in text


def test_the_first_example_is_that_of_the_readme():
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    lines = [line for language in ("python", "text") for line in _blocks("index.md", language)[0].splitlines()]
    assert all(line in readme for line in lines)


def test_extraction_prints_what_is_pasted():
    printed = _printed("\n".join(_blocks("quickstart.md", "python")))
    pasted = _blocks("quickstart.md", "text")[-1]
    assert re.sub(r"\d\.\d\d", "", printed) == re.sub(r"\d\.\d\d", "", pasted)
    scores = [float(score) for score in re.findall(r"\d\.\d\d", printed)]
    assert scores == pytest.approx([float(score) for score in re.findall(r"\d\.\d\d", pasted)], abs=0.02)


def test_fusion_settings():
    names = {}
    _printed("\n".join(_blocks("fusion.md", "python")), names)
    assert (names["swift"].fusion.entities, names["swift"].fusion.subject) == ("tags", "span")
    assert (names["other"].fusion.entities, names["other"].fusion.subject) == ("markers", "tag")


def test_conversion(workplace):
    write_documents(DOCUMENTS, "annotations", format="brat")
    (code,) = _blocks("convert.md", "python")
    assert _printed(code).startswith(f"read {len(DOCUMENTS)} documents")
    assert (workplace / "corpus.jsonl").is_file()


def test_selection():
    (code,) = _blocks("select.md", "python")
    assert [_printed(code)] == _blocks("select.md", "text")


def test_teaching(workplace, capsys):
    (labels,) = _blocks("teach.md", "yaml")
    (workplace / "labels.yaml").write_text(labels, encoding="utf-8")
    (command,) = re.findall(r"^cascade-srn teach .*?--dry-run$", _text("teach.md"), re.DOTALL | re.MULTILINE)
    assert run(*shlex.split(command.replace("\\\n", ""))[1:]) == 0
    assert capsys.readouterr().out == _blocks("teach.md", "text")[0]
    (code,) = _blocks("teach.md", "python")
    assert _printed(code) == _blocks("teach.md", "text")[-1]


def test_calibration(workplace):
    write_documents(DOCUMENTS, "my-dev.jsonl")
    (code,) = _blocks("calibrate.md", "python")
    assert "Thresholds(" in _printed(code.replace('"my-model"', repr(str(saved_model()))))
    assert (workplace / "my-calibrated-model" / "config.json").is_file()


PYTHON = _blocks("tutorial.md", "python")
OUTPUT = _blocks("tutorial.md", "text")
COMMANDS = [shlex.split(line)[1:] for line in re.findall(r"^cascade-srn .*$", _text("tutorial.md"), re.MULTILINE)]


class TestTutorial:
    """The tutorial, with fewer epochs."""

    def _annotate_and_convert(self, workplace, capsys):
        (workplace / "annotations").mkdir()
        for name, content in zip(("berg.txt", "berg.ann"), OUTPUT[:2], strict=True):
            (workplace / "annotations" / name).write_text(content, encoding="utf-8")
        assert run(*COMMANDS[0]) == 0
        return capsys.readouterr().err

    def test_annotation_and_conversion(self, workplace, capsys):
        printed = self._annotate_and_convert(workplace, capsys)
        assert re.findall(r"\d+", printed) == re.findall(r"\d+", OUTPUT[2])
        assert _printed(PYTHON[0]) == OUTPUT[3]

    @pytest.mark.slow
    def test_from_training_to_service(self, workplace, capsys):
        train, evaluate, extract, serve = COMMANDS[1:]
        (recipe,) = _blocks("tutorial.md", "yaml")
        (workplace / "tutorial.yaml").write_text(recipe, encoding="utf-8")
        assert run(*train, "training.epochs=2", "training.evaluate_every=2") == 0
        self._assert_same_rows(capsys.readouterr().out, OUTPUT[4])
        assert run(*evaluate) == 0
        self._assert_same_rows(capsys.readouterr().out, OUTPUT[5])
        assert (workplace / "report" / "report.html").is_file()
        assert run(*extract) == 0
        assert capsys.readouterr().out.startswith("text\n")
        assert Extractor.from_pretrained("runs/tutorial/best").schema.entity_types
        self._serve(serve)

    def _serve(self, arguments):
        service = start(*arguments, "--port", 0, "--quiet", stderr=-1, text=True)
        try:
            url = re.search(r"http://[\d.:]+", service.stderr.readline())[0]
            assert _printed(PYTHON[1].replace("http://127.0.0.1:8000", url)) == OUTPUT[7]
        finally:
            service.send_signal(signal.SIGTERM)
            assert service.wait(PATIENCE) == 0
            service.stderr.close()

    def _assert_same_rows(self, printed, pasted):
        """Compare the lines without their figures, which depend on the number of epochs."""
        rows = {self._without_figures(line) for line in printed.splitlines()}
        for line in pasted.splitlines():
            assert line == "…" or self._without_figures(line) in rows, line

    def _without_figures(self, line):
        return re.sub(r"\s+", " ", re.sub(r"[\d.,]+|done|\(best so far\)", " ", line))
