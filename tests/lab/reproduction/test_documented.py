import re
from pathlib import Path

import typer

from cascade_srn.cli.reproduce import reproduce
from cascade_srn.lab.reproduction.options import DEFAULTS, QUICK, VARIANTS
from cascade_srn.lab.reproduction.tables import TABLES

TEXT = (Path(__file__).parents[3] / "docs" / "reproduce.md").read_text(encoding="utf-8")


def _first_cells():
    return re.findall(r"^\| `([^`]+)` \|", TEXT, flags=re.MULTILINE)


def test_every_table_and_variant_has_a_row():
    for table in TABLES.values():
        assert f"| `{table.name}` | `{table.label}` |" in TEXT
    assert set(VARIANTS) <= set(_first_cells())


def test_every_option_is_named():
    command = typer.Typer(add_completion=False)
    command.command()(reproduce)
    names = {option for parameter in typer.main.get_command(command).params for option in parameter.opts}
    named = set(re.findall(r"--[a-z-]+", TEXT))
    assert {name for name in names if name.startswith("--")} - named == set()


def test_defaults():
    for text in (f"`--seeds N` | {DEFAULTS['n_seeds']} |", f"`--output DIR` | `{DEFAULTS['output']}` |"):
        assert text in TEXT
    assert f"`--recipe R` | `{DEFAULTS['recipe']}` |" in TEXT
    assert f"`documents`, {DEFAULTS['n_resamples']} |" in TEXT
    assert QUICK["n_seeds"] == 2
    assert "2 seeds" in TEXT
