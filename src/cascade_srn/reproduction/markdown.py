"""A filled table as a picture; matplotlib is imported here, and only when there is one to draw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cascade_srn.evaluation.items import aligned
from cascade_srn.reproduction.judging import Verdict
from cascade_srn.reproduction.options import VARIANTS
from cascade_srn.reproduction.results import TableResult
from cascade_srn.reproduction.tables import COLUMNS, COUNT, SCORE, SPEED, TABLES, Row, Table, needed_variants
from cascade_srn.storage.atomic import replacing_path


def tables_text() -> str:
    """The tables by name, with what each needs, and the variants."""
    width = max(len(variant.about) for variant in VARIANTS.values())
    variants = aligned([(name, variant.about.ljust(width)) for name, variant in VARIANTS.items()])
    return "\n".join(
        [
            *(_table_text(table) for table in TABLES.values()),
            f"all: all of them, {len(needed_variants(list(TABLES.values())))} variants",
            "",
            "A variant is trained once for each seed, however many tables need it:",
            *(f"  {line}" for line in variants.splitlines()),
        ]
    )


def _table_text(table: Table) -> str:
    claims = list(dict.fromkeys(claim.statement for claim in table.claims))
    return (
        f"{table.name}: {table.title} ({table.label} in the paper)\n"
        f"  trains: {', '.join(table.variants)}\n"
        f"  measures: {', '.join(COLUMNS[column].heading for column in table.our_columns)}\n"
        f"  claims: {'; '.join(claims)}"
    )


NONE = "–"
QUICK_LOOK = (
    "**A quick look**, which shows that everything works: with an encoder that starts at random, few epochs and a "
    "small corpus, it says nothing about the paper's claims."
)


def table_markdown(result: TableResult) -> str:
    """One table with its claims and all that has to be known beside it."""
    table = result.table
    parts = [f"## {table.title}", _about(result)]
    parts += [QUICK_LOOK] if result.about["quick"] else []
    parts.append(_figures(result))
    if result.speed is not None:
        parts.append(_speed(result.speed))
    parts += table.notes
    parts += [_claims(result.verdicts, result.about["n_resamples"]), _bootstrap(result)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(result: TableResult) -> str:
    about, table = result.about, result.table
    seeds = "one seed" if about["n_seeds"] == 1 else f"{about['n_seeds']} seeds, mean ± standard deviation"
    counts = any(COLUMNS[column].kind == COUNT for column in table.columns)
    unit = "Numbers of errors and shares of them in percent" if counts else "Percentages, micro"
    return (
        f"`{table.label}` of the paper (SciBERT on SciERC). Ours: {about['encoder']} on {about['data']} (test: "
        f"{about['n_documents']:,} documents, {about['n_sentences']:,} sentences), {seeds}. {unit}, "
        f"{about['symmetric']}.\n\n"
        f"`{about['command']}`"
    )


def _figures(result: TableResult) -> str:
    """The paper's figures beside ours, and below them what only the paper has."""
    table = result.table
    shared = [column for column in table.columns if COLUMNS[column].ours]
    alone = [column for column in table.columns if not COLUMNS[column].ours]
    headings = [""]
    for column in shared:
        heading = COLUMNS[column].heading
        headings += [f"{heading}, paper", "ours"] if column in table.paper_columns else [f"{heading}, ours"]
    rows = []
    for row in table.rows:
        cells = []
        for column in shared:
            cells += [_paper(row, column)] if column in table.paper_columns else []
            cells.append(str(result.measured(row, column) or NONE))
        if any(cell != NONE for cell in cells):
            rows.append([row.name, *cells])
    grids = [_grid(headings, rows)]
    if alone:
        rows = [[row.name, *(_paper(row, column) for column in alone)] for row in table.rows if alone[0] in row.paper]
        grids.append(_grid(["the paper alone", *(COLUMNS[column].heading for column in alone)], rows))
    return "\n\n".join(grids)


def _paper(row: Row, column: str) -> str:
    if column not in row.paper:
        return NONE
    return f"{row.paper[column]:.{2 if COLUMNS[column].kind == SPEED else 1}f}"


def _claims(verdicts: Sequence[Verdict], n_resamples: int) -> str:
    rows = [_claim(verdict, n_resamples) for verdict in verdicts]
    return _grid(["claim", "figure", "paper", "ours", "interval", "p", "outcome", "paper's in interval"], rows)


def _claim(verdict: Verdict, n_resamples: int) -> list[str]:
    claim, kind = verdict.claim, COLUMNS[verdict.claim.column].kind

    def shown(value: float | None, scale: float = 1, digits: int = 1) -> str:
        if value is None:
            return NONE
        if kind == SPEED:
            return f"{value:.1f}×"
        text = f"{scale * value:+.{digits}f}"
        # What rounds to zero is on neither side of it: an interval that ends there may exclude zero by a hair.
        return text if float(text) else text[1:]

    ours = (1, 0) if kind == COUNT else (100, 1)
    return [
        claim.statement if claim.paper else f"{claim.statement} (ours)",
        COLUMNS[claim.column].heading,
        shown(verdict.paper),
        shown(verdict.difference, *ours),
        f"{shown(verdict.low, *ours)} to {shown(verdict.high, *ours)}",
        _p_value(verdict.p_value, n_resamples),
        verdict.outcome,
        {None: NONE, True: "yes", False: "no"}[verdict.paper_within],
    ]


def _p_value(p_value: float | None, n_resamples: int) -> str:
    """No bootstrap finds less than what none of its draws contradicts."""
    if p_value is None:
        return NONE
    least = 2 / (1 + n_resamples)
    return f"≤ {least:.1g}" if p_value <= least else f"{p_value:.2g}"


def _speed(speed: Mapping[str, Any]) -> str:
    known, settings, rows = speed["environment"], speed["settings"], speed["rows"]
    first = next(iter(rows.values()))
    hardware = known["gpu"] or f"{known['cpu']} ({known['threads']} thread{'s' * (known['threads'] != 1)})"
    found = "; ".join(f"{variant} {row['n_entities']:,} and {row['n_triples']:,}" for variant, row in rows.items())
    return (
        f"Speed: seed 0 of each, in turns and nothing beside them, from words to triples over "
        f"{first['n_sentences']:,} sentences ({first['n_words']:,} words) in batches of {settings['batch_words']:,} "
        f"words, encoder in {known['precision']}, median of {settings['repeats']} runs after one that warms up, on "
        f"{hardware}. Entities "
        f"and triples found: {found}. The paper's is on a GeForce 2080Ti with batches of 32 sentences."
    )


def _bootstrap(result: TableResult) -> str:
    about = result.about
    also = " and of a side's seeds" if about["n_seeds"] > 1 else ""
    told = (
        f"Intervals of 95 % and p by a paired bootstrap, {about['n_resamples']:,} resamples of the test "
        f"{about['resample']}{also}; p is two-sided, and not corrected for the number of claims. Held and "
        "contradicted: p < 0.05. No worse: held where the interval excludes a loss of more than one point and p < 0.05 "
        "does not speak for one."
    )
    if (n := about["n_seeds"]) > 1:
        told += f" Drawing from {n} seeds shows {n - 1}/{n} of their variance: intervals are a little too narrow."
    if result.speed is not None:
        told += " Ratios of speeds: the least and the largest of any turn."
    return told


def _grid(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


OURS, PAPER = "#2a6fb0", "#d1632b"
_ACROSS = 3


def draw_table(result: TableResult, path: Path) -> None:
    """A panel for each figure: our mean of each row as a point with its deviation, the paper's as another point."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = result.table.panels
    down = math.ceil(len(panels) / _ACROSS)
    across = math.ceil(len(panels) / down)
    rows = [row for row in result.table.rows if row.variant is not None]
    height = down * (1.1 + 0.3 * len(rows))
    figure = Figure(figsize=(2.2 + 3.4 * across, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(down, across, squeeze=False, sharey=True).flatten()
    for one, column in zip(axes, panels, strict=False):
        _panel(one, result, column)
    for one in axes[len(panels) :]:
        one.set_visible(False)
    handles = {label: handle for one in axes for handle, label in zip(*one.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.suptitle(f"{result.table.title}: {result.about['encoder']} on {result.about['data']}", fontsize=10)
    with replacing_path(path) as beside:
        figure.savefig(beside, dpi=130, format="png")


def _panel(axes: Any, result: TableResult, column: str) -> None:
    kind = COLUMNS[column].kind
    rows = [row for row in result.table.rows if row.variant is not None]
    scale = 100 if kind == SCORE else 1
    theirs = [(row.paper[column], at) for at, row in enumerate(rows) if column in row.paper]
    if theirs:
        axes.plot(*zip(*theirs, strict=True), "D", color=PAPER, markersize=5, label="the paper")
    for at, row in enumerate(rows):
        found = result.measured(row, column)
        if found is not None:
            deviation = None if found.sd is None else scale * found.sd
            axes.errorbar(scale * found.mean, at, xerr=deviation, fmt="o", color=OURS, capsize=3, label="ours")
    axes.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=8)
    # The first row on top, as in the table. Panels share the axis: one that is upside down already stays so.
    axes.set_ylim(len(rows) - 0.5, -0.5)
    if kind == SPEED:
        axes.set_xscale("log")
    axes.set_title(COLUMNS[column].heading, fontsize=9)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
