import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cascade_srn.cli import app
from cascade_srn.formats.corpora import SCIERC
from cascade_srn.formats.registry import read_documents
from cascade_srn.training.recipe import load_recipe

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")


def test_the_counts_are_those_that_are_checked():
    for name, file in SCIERC.files.items():
        counts = (file.documents, file.sentences, file.entities, file.relations)
        assert f"| {name.removesuffix('.json')} | {' | '.join(f'{n:,}' for n in counts)} |" in TEXT
    assert f"<{SCIERC.url}>" in TEXT


def test_every_option_has_a_row():
    command = CliRunner().invoke(app, ["download", "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    known = set(re.findall(r"--[a-z]+", command.output)) - {"--help"}
    assert set(re.findall(r"^\| `(--[a-z]+)", TEXT, flags=re.MULTILINE)) == known


def test_the_command_for_ace05_can_be_read():
    (command,) = re.findall(r"cascade-srn train recipes/scierc\.yaml (.*?)\n\s*```", TEXT, flags=re.DOTALL)
    recipe = load_recipe(ROOT / "recipes" / "scierc.yaml", command.replace("\\\n", " ").split())
    assert recipe.data.symmetric == ("PER-SOC",)
    assert recipe.data.splits["test"] == "ace05/test.json"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])  # the second as Excel saves it
def test_the_table_becomes_documents_by_the_program_as_printed(tmp_path, encoding):
    (table,) = re.findall(r"```csv\n(.*?)```", TEXT, flags=re.DOTALL)
    (program,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    (tmp_path / "table.csv").write_text(table, encoding=encoding)
    subprocess.run([sys.executable, "-W", "error::SyntaxWarning", "-c", program], cwd=tmp_path, check=True)
    first, second = (document.sentences[0] for document in read_documents(tmp_path / "table.jsonl"))
    assert first.words == ("Ada", "Berg", "leads", "Norlux", ".")
    assert [(e.start, e.end, e.label) for e in first.entities] == [(0, 2, "Person"), (3, 4, "Company")]
    assert [(r.head.label, r.label, r.tail.label) for r in first.triples] == [("Person", "leads", "Company")]
    assert [(e.start, e.end, e.label) for e in second.entities] == [(3, 4, "Place")]
    assert not second.triples
