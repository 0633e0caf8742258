"""Published figures: equal to the LaTeX source if it is available, and consistent."""

import os
import re
from pathlib import Path

import pytest

from cascade_srn.lab.reproduction.tables import PUBLISHED, TABLES

BESIDE = Path(__file__).resolve().parents[4] / "shared" / "paper" / "cascade-srn.tex"
SOURCE = BESIDE if BESIDE.is_file() else Path(os.environ.get("CASCADE_SRN_PAPER", "nowhere"))
PRINTED = {TABLES[name].label: figures for name, figures in PUBLISHED.items()}
with_source = pytest.mark.skipif(not SOURCE.is_file(), reason="set CASCADE_SRN_PAPER to the LaTeX source of the paper")


def _block(label):
    text = SOURCE.read_text(encoding="utf-8")
    blocks = re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", text, flags=re.DOTALL)
    (found,) = [block for block in blocks if f"\\label{{{label}}}" in block]
    return found[found.index("\\begin{tabular}") : found.index("\\end{tabular}")]


def _cell(text):
    """Return the text of a cell without LaTeX commands."""
    text = re.sub(r"\\multirow\{\d\}\[\d\]\{\*\}\{(.*)\}", r"\1", text, flags=re.DOTALL)
    return re.sub(r"\\cite\{[^}]*\}|~", "", re.sub(r"\\textbf\{([\d.]+)\}", r"\1", text)).strip()


def _rows(label, names):
    """Return the numbers of each named row. A row without a name continues the previous one."""
    block = re.sub(r"\\(hline|midrule|toprule|bottomrule)\s*(\[[^]]*\])?|\\makecell\[c\]\{[^}]*\}", "", _block(label))
    found, name = {}, None
    for line in block.split(r"\\"):
        cells = [_cell(cell) for cell in line.split("&")]
        name = next((cell for cell in cells if cell in names), name)
        numbers = [float(cell) for cell in cells if re.fullmatch(r"\d+\.?\d*", cell)]
        if numbers:
            found.setdefault(name, []).extend(numbers)
    return found


@with_source
@pytest.mark.parametrize("label", PRINTED)
def test_figures_equal_the_source(label):
    figures = PRINTED[label]
    assert _rows(label, figures) == {name: list(row.values()) for name, row in figures.items()}


@with_source
def test_claims_about_errors():
    text = SOURCE.read_text(encoding="utf-8")
    assert "\\label{fig:error}" in text
    assert "Cascade-SRN (early fusion) has fewer RNF and RME errors" in text
    assert "leading to more ESE errors" in text
    claimed = {(claim.column, claim.kind, claim.second) for claim in TABLES["errors"].claims}
    fewer = {(error, "fewer", base) for error in ("RNF", "RME") for base in ("pfn", "late")}
    by_number = fewer | {("ESE", "more", "pfn"), ("ESE", "more", "late")}
    assert claimed == by_number | {(f"{error}_share", kind, base) for error, kind, base in by_number}


def test_f1_matches_precision_and_recall():
    for row in PUBLISHED["entities"].values():
        for group in ("in", "out", "ace05_in", "ace05_out"):
            precision, recall, f1 = (row[f"{group}_{figure}"] for figure in ("precision", "recall", "f1"))
            # All three are rounded.
            assert 2 * precision * recall / (precision + recall) == pytest.approx(f1, abs=0.11)


def test_default_model_has_equal_figures_in_all_tables():
    early = PUBLISHED["main"]["Cascade-SRN (Early fusion)"]
    for row in ("SRN", "Entity+Subject", "golden entity", "Joint"):
        assert PUBLISHED["ablation"][row] == {"ner": early["ner"], "re": early["re"]}
    for column in ("ner", "re"):
        assert PUBLISHED["fusion"]["early fusion"][column] == early[column]
        assert PUBLISHED["fusion"]["late fusion"][column] == PUBLISHED["main"]["Cascade-SRN (Late fusion)"][column]
        assert PUBLISHED["encoder"]["PFN"][column] == PUBLISHED["main"]["PFN"][column]


@pytest.mark.parametrize("name", TABLES)
def test_every_row_of_the_paper_is_in_its_table(name):
    table = TABLES[name]
    shown = [dict(row.paper) for row in table.rows if row.paper]
    assert shown == [dict(row) for row in shown if row in map(dict, PRINTED.get(table.label, {}).values())]
    for row in PRINTED.get(table.label, {}).values():
        assert dict(row) in shown
