"""Results of a table, and their form as Markdown, text, JSON and plots. Only plots import matplotlib."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascade_srn.evaluation.items import format_table
from cascade_srn.evaluation.scores import Spread
from cascade_srn.lab.reproduction.options import VARIANTS
from cascade_srn.lab.reproduction.tables import (
    COLUMNS,
    COUNT,
    SCORE,
    SPEED,
    TABLES,
    PaperTable,
    TableRow,
    list_variants,
)
from cascade_srn.storage.atomic import replacing_path

if TYPE_CHECKING:
    # It imports torch, which listing the tables does not need.
    from cascade_srn.lab.reproduction.measures import Verdict


FORMAT_VERSION = 1


@dataclass(frozen=True)
class SeedValues:
    """A measured figure with its value for each seed. Scores are fractions."""

    values: tuple[float, ...]
    kind: str = SCORE

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float | None:
        """Sample standard deviation over the seeds; None for a single seed."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def to_dict(self) -> dict[str, Any]:
        """Return the values as JSON values."""
        return {"mean": self.mean, "sd": self.sd, "n": len(self.values), "values": list(self.values)}

    def __str__(self) -> str:
        if self.kind == SCORE:
            return str(Spread.of(self.values))
        if self.kind == COUNT:
            return f"{self.mean:.0f}" if self.sd is None else f"{self.mean:.0f} ± {self.sd:.0f}"
        return f"{self.mean:,.0f}"


@dataclass(frozen=True)
class TableResult:
    """The results of a table: our figures by variant and column, and the verdicts on the claims.

    ``about`` holds the settings, and ``speed`` the contents of ``speed.json`` if the table has speeds.
    """

    table: PaperTable
    figures: Mapping[str, Mapping[str, SeedValues]]
    verdicts: tuple[Verdict, ...]
    about: Mapping[str, Any]
    speed: Mapping[str, Any] | None = None

    def figure(self, row: TableRow, column: str) -> SeedValues | None:
        """Return our figure in a cell of the table."""
        if row.variant is None or column in row.without:
            return None
        return self.figures[row.variant].get(column)

    def to_dict(self) -> dict[str, Any]:
        """Return the results as JSON values."""
        table = self.table
        return {
            "format_version": FORMAT_VERSION,
            "table": table.name,
            "label": table.label,
            "title": table.title,
            "columns": {column: COLUMNS[column].heading for column in table.columns},
            "rows": [
                {
                    "name": row.name,
                    "variant": row.variant,
                    "paper": dict(row.paper),
                    "ours": {
                        column: found.to_dict()
                        for column in table.our_columns
                        if (found := self.figure(row, column)) is not None
                    },
                }
                for row in table.rows
            ],
            "claims": [verdict.to_dict() for verdict in self.verdicts],
            "notes": list(table.notes),
            "about": dict(self.about),
            "speed": None if self.speed is None else dict(self.speed),
        }


def describe_tables() -> str:
    """Return a description of all tables and variants."""
    width = max(len(variant.about) for variant in VARIANTS.values())
    variants = format_table([(name, variant.about.ljust(width)) for name, variant in VARIANTS.items()])
    return "\n".join(
        [
            *(_describe_table(table) for table in TABLES.values()),
            f"all: all tables, {len(list_variants(list(TABLES.values())))} variants",
            "",
            "Each variant is trained once per seed, even if several tables need it:",
            *(f"  {line}" for line in variants.splitlines()),
        ]
    )


def _describe_table(table: PaperTable) -> str:
    claims = list(dict.fromkeys(claim.statement for claim in table.claims))
    return (
        f"{table.name}: {table.title} ({table.label} in the paper)\n"
        f"  trains: {', '.join(table.variants)}\n"
        f"  measures: {', '.join(COLUMNS[column].heading for column in table.our_columns)}\n"
        f"  claims: {'; '.join(claims)}"
    )


NONE = "–"
QUICK_NOTE = (
    "**Quick run.** It only shows that everything works. With a random encoder, few epochs and a small corpus, it says "
    "nothing about the claims of the paper."
)


def format_result(result: TableResult) -> str:
    """Return a table with its claims, settings and notes as Markdown."""
    table = result.table
    parts = [f"## {table.title}", _describe_settings(result)]
    parts += [QUICK_NOTE] if result.about["quick"] else []
    parts.append(_format_figures(result))
    if result.speed is not None:
        parts.append(_describe_speed(result.speed))
    parts += table.notes
    parts += [_format_claims(result.verdicts, result.about["n_resamples"]), _describe_bootstrap(result)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _describe_settings(result: TableResult) -> str:
    about, table = result.about, result.table
    seeds = "one seed" if about["n_seeds"] == 1 else f"{about['n_seeds']} seeds, mean ± standard deviation"
    counts = any(COLUMNS[column].kind == COUNT for column in table.columns)
    unit = "Numbers and percentages of errors" if counts else "Micro averages in percent"
    return (
        f"`{table.label}` of the paper (SciBERT on SciERC). Ours: {about['encoder']} on {about['data']} (test: "
        f"{about['n_documents']:,} documents, {about['n_sentences']:,} sentences), {seeds}. {unit}. "
        f"Symmetric relations: {about['symmetric']}.\n\n"
        f"`{about['command']}`"
    )


def _format_figures(result: TableResult) -> str:
    """Return the published figures next to ours, and below them the columns that only the paper has."""
    table = result.table
    shared = [column for column in table.columns if COLUMNS[column].ours]
    paper_only = [column for column in table.columns if not COLUMNS[column].ours]
    headings = [""]
    for column in shared:
        heading = COLUMNS[column].heading
        headings += [f"{heading}, paper", "ours"] if column in table.paper_columns else [f"{heading}, ours"]
    rows = []
    for row in table.rows:
        cells = []
        for column in shared:
            cells += [_format_paper(row, column)] if column in table.paper_columns else []
            cells.append(str(result.figure(row, column) or NONE))
        if any(cell != NONE for cell in cells):
            rows.append([row.name, *cells])
    grids = [_format_grid(headings, rows)]
    if paper_only:
        rows = [
            [row.name, *(_format_paper(row, column) for column in paper_only)]
            for row in table.rows
            if paper_only[0] in row.paper
        ]
        grids.append(_format_grid(["paper only", *(COLUMNS[column].heading for column in paper_only)], rows))
    return "\n\n".join(grids)


def _format_paper(row: TableRow, column: str) -> str:
    if column not in row.paper:
        return NONE
    return f"{row.paper[column]:.{2 if COLUMNS[column].kind == SPEED else 1}f}"


def _format_claims(verdicts: Sequence[Verdict], n_resamples: int) -> str:
    rows = [_format_claim(verdict, n_resamples) for verdict in verdicts]
    return _format_grid(["claim", "figure", "paper", "ours", "interval", "p", "outcome", "paper in interval"], rows)


def _format_claim(verdict: Verdict, n_resamples: int) -> list[str]:
    claim, kind = verdict.claim, COLUMNS[verdict.claim.column].kind

    def format_value(value: float | None, scale: float = 1, digits: int = 1) -> str:
        if value is None:
            return NONE
        if kind == SPEED:
            return f"{value:.1f}×"
        text = f"{scale * value:+.{digits}f}"
        # No sign for values that round to zero: the end of an interval may exclude zero only barely.
        return text if float(text) else text[1:]

    ours = (1, 0) if kind == COUNT else (100, 1)
    return [
        claim.statement if claim.paper else f"{claim.statement} (ours)",
        COLUMNS[claim.column].heading,
        format_value(verdict.paper),
        format_value(verdict.difference, *ours),
        f"{format_value(verdict.low, *ours)} to {format_value(verdict.high, *ours)}",
        _format_p_value(verdict.p_value, n_resamples),
        verdict.outcome,
        {None: NONE, True: "yes", False: "no"}[verdict.paper_within],
    ]


def _format_p_value(p_value: float | None, n_resamples: int) -> str:
    if p_value is None:
        return NONE
    # The smallest p-value that the bootstrap can find.
    smallest = 2 / (1 + n_resamples)
    return f"≤ {smallest:.1g}" if p_value <= smallest else f"{p_value:.2g}"


def _describe_speed(speed: Mapping[str, Any]) -> str:
    machine, settings, rows = speed["environment"], speed["settings"], speed["rows"]
    first = next(iter(rows.values()))
    hardware = machine["gpu"] or f"{machine['cpu']} ({machine['threads']} thread{'s' * (machine['threads'] != 1)})"
    found = "; ".join(f"{variant} {row['n_entities']:,} and {row['n_triples']:,}" for variant, row in rows.items())
    return (
        f"Speed: seed 0 of each variant, measured in turns, from words to triples, {first['n_sentences']:,} sentences "
        f"({first['n_words']:,} words), batches of {settings['batch_words']:,} words, encoder in "
        f"{machine['precision']}, median of {settings['repeats']} runs after a warm-up, on {hardware}. "
        f"Entities and triples found: {found}. The paper uses a GeForce 2080Ti and batches of 32 sentences."
    )


def _describe_bootstrap(result: TableResult) -> str:
    about = result.about
    seeds = " and of the seeds of each side" if about["n_seeds"] > 1 else ""
    text = (
        f"95 % intervals and two-sided p by a paired bootstrap with {about['n_resamples']:,} resamples of the test "
        f"{about['resample']}{seeds}, without correction for multiple tests. Held and contradicted: p < 0.05. "
        "No worse: held if the interval excludes a loss of more than one point, contradicted by a loss with p < 0.05."
    )
    if (n := about["n_seeds"]) > 1:
        text += f" Resampling {n} seeds shows {n - 1}/{n} of their variance, so intervals are slightly too narrow."
    if result.speed is not None:
        text += " Intervals of speed ratios: smallest and largest ratio of any turn."
    return text


def _format_grid(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


OUR_COLOUR, PAPER_COLOUR = "#2a6fb0", "#d1632b"
_MAX_COLUMNS = 3


def draw_table(result: TableResult, path: Path) -> None:
    """Plot a table as PNG: a panel for each column with our mean and deviation, and the published figure."""
    from matplotlib.figure import Figure

    panels = result.table.panels
    n_rows = math.ceil(len(panels) / _MAX_COLUMNS)
    n_columns = math.ceil(len(panels) / n_rows)
    rows = [row for row in result.table.rows if row.variant is not None]
    height = n_rows * (1.1 + 0.3 * len(rows))
    figure = Figure(figsize=(2.2 + 3.4 * n_columns, height), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False, sharey=True).flatten()
    for panel, column in zip(axes, panels, strict=False):
        _plot_panel(panel, result, column)
    for panel in axes[len(panels) :]:
        panel.set_visible(False)
    handles = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.suptitle(f"{result.table.title}: {result.about['encoder']} on {result.about['data']}", fontsize=10)
    with replacing_path(path) as temporary:
        figure.savefig(temporary, dpi=130, format="png")


def _plot_panel(axes: Any, result: TableResult, column: str) -> None:
    kind = COLUMNS[column].kind
    rows = [row for row in result.table.rows if row.variant is not None]
    scale = 100 if kind == SCORE else 1
    theirs = [(row.paper[column], at) for at, row in enumerate(rows) if column in row.paper]
    if theirs:
        axes.plot(*zip(*theirs, strict=True), "D", color=PAPER_COLOUR, markersize=5, label="paper")
    for at, row in enumerate(rows):
        figure = result.figure(row, column)
        if figure is not None:
            deviation = None if figure.sd is None else scale * figure.sd
            axes.errorbar(scale * figure.mean, at, xerr=deviation, fmt="o", color=OUR_COLOUR, capsize=3, label="ours")
    axes.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=8)
    # First row on top. Panels share the axis, so inverting it would flip it once per panel.
    axes.set_ylim(len(rows) - 0.5, -0.5)
    if kind == SPEED:
        axes.set_xscale("log")
    axes.set_title(COLUMNS[column].heading, fontsize=9)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
