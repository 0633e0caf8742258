"""README.md: run its examples, and compare its labels, figures, extras and links with the repository."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from tests.small_models import small_model
from tests.twelve_sentences import DOCUMENTS

from cascade_srn import Extractor
from cascade_srn.cli import main
from cascade_srn.formats.registry import write_documents
from cascade_srn.schema import Schema
from cascade_srn.storage.bundled import find_model

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
PASTED = re.findall(r"```text\n(.*?)```", README, flags=re.DOTALL)
MODEL_PAGE = (ROOT / "docs" / "bundled-model.md").read_text(encoding="utf-8")
CARD = (find_model() / "README.md").read_text(encoding="utf-8")
RESULTS = ROOT / "benchmarks" / "results" / "scierc"


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def schema():
    config = json.loads((find_model() / "config.json").read_text(encoding="utf-8"))
    return Schema.from_dict(config["schema"])


def _section(title, text=README):
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _rows(text):
    """Return the cells of each table row below a heading row, the rule left out."""
    lines = [line.strip("| \n") for line in text.splitlines() if line.startswith("|")]
    return [re.split(r"\s*\|\s*", line) for line in lines if not set(line) <= set("|- ")]


def _assert_same_output(printed, pasted, separator):
    """Compare cell by cell; scores may differ by rounding on another processor."""
    printed, pasted = printed.strip().splitlines(), pasted.strip().splitlines()
    assert len(printed) == len(pasted)
    for got, shown in zip(printed, pasted, strict=True):
        *got, got_last = re.split(separator, got)
        *shown, shown_last = re.split(separator, shown)
        assert got == shown
        if re.fullmatch(r"0\.\d\d", shown_last):
            assert float(got_last) == pytest.approx(float(shown_last), abs=0.02)
        else:
            assert got_last == shown_last


def test_first_example_prints_what_is_pasted(capsys):
    exec(BLOCKS[0], {})
    _assert_same_output(capsys.readouterr().out, PASTED[0], r" \| ")


def test_command_prints_what_is_pasted(capsys):
    (line,) = re.findall(r"^(cascade-srn extract --text .*)$", README, flags=re.MULTILINE)
    # Standard output is no terminal here, so the table has to be asked for.
    with pytest.raises(SystemExit) as stopped:
        main([*shlex.split(line)[1:], "--format", "table"])
    assert not stopped.value.code
    _assert_same_output(capsys.readouterr().out, PASTED[1], r"\s{2,}")


def test_streaming_as_shown():
    names = {"Extractor": Extractor}
    exec(BLOCKS[1], names)
    assert names["record"]["text"] == "It beats a CRF."


def test_training_as_shown(workplace, monkeypatch):
    shown = BLOCKS[2]
    assert '"scierc-small"' in shown
    # A small model with other labels stands in, and training is short.
    small_model().save("start")
    monkeypatch.setattr("cascade_srn.training.defaults._MOST_EPOCHS", 1)
    monkeypatch.setattr("cascade_srn.training.defaults.FEWEST_STEPS", 1)
    for name in ("train", "dev"):
        path = Path("examples", "news", f"{name}.jsonl")
        assert (ROOT / path).is_file()
        assert path.as_posix() in shown
        path.parent.mkdir(parents=True, exist_ok=True)
        write_documents(DOCUMENTS, path)
    exec(shown.replace("scierc-small", "start"), {})
    assert (workplace / "my-model" / "model.safetensors").is_file()


def test_every_label_of_the_bundled_model_is_defined(schema):
    rows = _rows(_section("Labels", MODEL_PAGE))
    labels = [(row[0].strip("`"), row[1]) for row in rows if row[0].startswith("`")]
    assert [label for label, _ in labels] == [*schema.entity_types, *schema.relation_types]
    assert {label for label, definition in labels if definition.endswith("symmetric")} == set(schema.symmetric)


@pytest.mark.parametrize(
    ("text", "row", "results"),
    [
        (README, "models like the bundled one, five seeds", "natural"),
        (CARD, "models like this one, five seeds", "natural"),
        (CARD, "the same network trained on SciERC alone, five seeds", "small"),
    ],
)
def test_figures_of_five_seeds(text, row, results):
    scores = json.loads((RESULTS / results / "seeds.json").read_text(encoding="utf-8"))
    assert scores["seeds"] == [0, 1, 2, 3, 4]
    f1 = [scores["test"][task]["f1"] for task in ("ner", "re_boundaries", "re_strict")]
    ((_, *shown),) = [cells for cells in _rows(text) if cells[0] == row]
    assert shown == [f"{100 * spread['mean']:.1f} ± {100 * spread['sd']:.1f}" for spread in f1]


def test_share_of_relations_that_are_correct_and_found():
    test = json.loads((RESULTS / "natural" / "seeds.json").read_text(encoding="utf-8"))["test"]["re_strict"]
    expected = [f"{100 * test[figure]['mean']:.0f}" for figure in ("precision", "recall")]
    assert re.findall(r"(\d+) %", _section("Limits", MODEL_PAGE)) == expected
    shown = re.search(r"report, (\d+) % are .* find (\d+) %", _section("Accuracy"), flags=re.DOTALL)
    assert list(shown.groups()) == expected


def test_figures_of_the_bundled_model_are_those_of_its_card():
    card = {cells[0]: cells[1] for cells in _rows(_section("Scores", CARD))}
    shown = re.search(r"It has ([\d.]+) / ([\d.]+) / ([\d.]+), printed by", _section("Accuracy")).groups()
    assert list(shown) == [card[f"{task}, micro"] for task in ("NER", "RE boundaries", "RE strict")]


@pytest.mark.parametrize("text", [_section("Accuracy"), _section("Scores", CARD)], ids=["README", "card"])
def test_choice_of_thresholds_is_disclosed(text):
    text = " ".join(text.split())
    assert "thresholds of each model were chosen on dev alone" in text
    assert "chosen by cross-validation on train and dev, without test" in text


def test_every_extra_is_in_the_install_table():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    shown = [re.findall(r"\[([\w-]+)\]", cells[0]) for cells in _rows(_section("Install"))]
    assert {extra for names in shown for extra in names} == extras - {"dev", "test"}


@pytest.mark.parametrize(("command", "extras"), [("train", {"train", "report"}), ("serve", {"serve"})])
def test_commands_follow_the_install_of_their_extras(command, extras):
    (block,) = re.findall(rf"```\n([^`]*^cascade-srn {command}\b[^`]*)```", README, flags=re.MULTILINE)
    (installed,) = re.findall(r"^pip install '\.\[([\w,]+)\]'$", block, flags=re.MULTILINE)
    assert set(installed.split(",")) == extras


def test_links_lead_somewhere():
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", README):
        if "://" in target:
            continue
        path = ROOT / target if target else ROOT / "README.md"
        assert path.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}, anchor
