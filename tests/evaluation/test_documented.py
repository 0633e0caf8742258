"""The examples of docs/evaluation.md and docs/scores.md run, and error kinds, groups and options are documented."""

import re
from pathlib import Path

from cascade_srn.cli.evaluate import evaluate
from cascade_srn.evaluation.breakdown import ENTITY_TEXTS, NESTINGS
from cascade_srn.evaluation.errors import ENTITY_KINDS, RELATION_KINDS

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "evaluation.md").read_text(encoding="utf-8")


def test_the_worked_example():
    blocks = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert sum(block.count("assert ") for block in blocks) >= 10
    exec(compile("\n".join(blocks), "docs/evaluation.md", "exec"), {})


def test_the_example_of_the_scores(capsys):
    code, output = re.search(
        r"^```python\n(.*?)^```\n\n```\n(.*?)^```", (DOCS / "scores.md").read_text("utf-8"), re.M | re.S
    ).groups()
    exec(compile(code, "docs/scores.md", "exec"), {})
    assert capsys.readouterr().out == output


def test_every_kind_and_group_is_explained():
    for name in (*(kind.kind for kind in (*RELATION_KINDS, *ENTITY_KINDS)), *NESTINGS, *ENTITY_TEXTS):
        assert f"`{name}`" in TEXT


def test_the_table_has_exactly_the_options():
    options = {f"--{name.replace('_', '-')}" for name in evaluate.__annotations__} - {"--paths", "--return"}
    table = "\n".join(line for line in TEXT.splitlines() if line.startswith("| `--"))
    assert set(re.findall(r"--[a-z-]+", table)) == options
