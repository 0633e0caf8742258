"""The tables: which row is which variant, what the paper has there, and what is claimed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cascade_srn.errors import ConfigError, did_you_mean
from cascade_srn.reproduction import claims, paper
from cascade_srn.reproduction.claims import Claim
from cascade_srn.reproduction.paper import Figures

# How a figure is written: F1 and the like in percent, numbers of errors, sentences a second.
SCORE, COUNT, SPEED = "score", "count", "speed"
ERROR_KINDS = ("RTE", "RNF", "ETE", "ENF", "RME", "ESE")


@dataclass(frozen=True)
class Column:
    """A figure by its heading; ``ours`` is False for what only the paper has."""

    heading: str
    kind: str = SCORE
    ours: bool = True


COLUMNS: Mapping[str, Column] = {
    "ner": Column("NER"),
    "ner_precision": Column("NER P"),
    "ner_recall": Column("NER R"),
    "re": Column("RE strict"),
    "boundaries": Column("RE boundaries"),
    "ace05_ner": Column("ACE05 NER", ours=False),
    "ace05_re": Column("ACE05 RE", ours=False),
    **{
        f"{prefix}{group}_{figure}": Column(f"{corpus}{group} {letter}", ours=not prefix)
        for prefix, corpus in (("", ""), ("ace05_", "ACE05 "))
        for group in ("in", "out")
        for figure, letter in (("precision", "P"), ("recall", "R"), ("f1", "F1"))
    },
    **{kind: Column(kind, COUNT) for kind in ERROR_KINDS},
    **{f"{kind}_share": Column(f"{kind}, % of errors") for kind in ERROR_KINDS},
    "speed": Column("sentences/s", SPEED),
}


@dataclass(frozen=True)
class Row:
    """A line of a table: a variant of ours, or None where only the paper has figures.

    ``without`` are columns that mean nothing for this variant.
    """

    name: str
    variant: str | None = None
    paper: Figures = field(default_factory=dict)
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table or figure of the paper. ``label`` is its name in the LaTeX source, ``panels`` are what is drawn."""

    name: str
    label: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    panels: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def variants(self) -> tuple[str, ...]:
        """What has to be trained, in the order of the rows."""
        return tuple(dict.fromkeys(row.variant for row in self.rows if row.variant is not None))

    @property
    def paper_columns(self) -> tuple[str, ...]:
        """The columns that the paper has figures in."""
        return tuple(column for column in self.columns if any(column in row.paper for row in self.rows))

    @property
    def our_columns(self) -> tuple[str, ...]:
        """The columns that are measured."""
        return tuple(column for column in self.columns if COLUMNS[column].ours)

    def paper_figure(self, variant: str, column: str) -> float | None:
        """What the paper has for a variant."""
        return next((row.paper[column] for row in self.rows if row.variant == variant and column in row.paper), None)


_LATE = "late is the paper's equations to the letter, which do not tell the object turn its subject (docs/adr/0001)."
_PAPER_ONLY = "Rows without figures of ours are the paper's alone, and so is ACE05, which needs a licence."

MAIN = Table(
    "main",
    "tab:main_result",
    "Main results",
    ("ace05_ner", "ace05_re", "ner", "re", "boundaries"),
    (
        *(
            Row(name, None, paper.MAIN_RESULT[name])
            for name in ("Structured Perceptron", "SPTree", "Multi-turn QA", "SPE", "Table-Sequence")
        ),
        Row("pipeline (PURE)", "pipeline", paper.MAIN_RESULT["PURE"]),
        Row("PFN", "pfn", paper.MAIN_RESULT["PFN"]),
        Row("Cascade-SRN, late", "late", paper.MAIN_RESULT["Cascade-SRN (Late fusion)"]),
        Row("Cascade-SRN, early", "early", paper.MAIN_RESULT["Cascade-SRN (Early fusion)"]),
        Row("Cascade-SRN, swift (ours)", "swift"),
        Row("Cascade-SRN, hybrid (ours)", "hybrid"),
    ),
    claims.MAIN,
    ("ner", "re"),
    (_LATE, _PAPER_ONLY),
)

ABLATION = Table(
    "ablation",
    "tab:ablation",
    "Ablation study, early fusion",
    ("ner", "re", "boundaries"),
    (
        Row("encoder: SRN", "early", paper.ABLATION["SRN"]),
        Row("encoder: BiSRN", "bisrn", paper.ABLATION["BiSRN"]),
        Row("encoder: BiLSTM", "bilstm", paper.ABLATION["BiLSTM"]),
        Row("text marker: entity + subject", "early", paper.ABLATION["Entity+Subject"]),
        Row("text marker: subject", "subject-marker", paper.ABLATION["Subject"]),
        Row("text marker: none (ours)", "no-markers"),
        Row("training strategy: gold entity", "early", paper.ABLATION["golden entity"]),
        Row("training strategy: gold subject", "gold-subjects", paper.ABLATION["golden subject"]),
        Row("joint", "early", paper.ABLATION["Joint"]),
        Row("independent", "independent", paper.ABLATION["Independent"], ("re", "boundaries")),
    ),
    claims.ABLATION,
    ("ner", "re"),
    ("Without text markers the object turn is told its subject by the subject's span, as in swift and hybrid.",),
)

ENTITIES = Table(
    "entities",
    "tab:entity",
    "Entities in and out of triples",
    ("ner", "ner_precision", "ner_recall", *paper.ENTITY["PFN"]),
    (
        Row("PFN", "pfn", paper.ENTITY["PFN"]),
        Row("Cascade-SRN, late", "late", paper.ENTITY["Cascade-SRN (late fusion)"]),
        Row("Cascade-SRN, early", "early", paper.ENTITY["Cascade-SRN (early fusion)"]),
        Row("Cascade-SRN, swift (ours)", "swift"),
        Row("independent (ours)", "independent", {}, ("in_precision", "in_f1", "out_precision", "out_f1")),
    ),
    claims.ENTITIES,
    ("in_f1", "out_f1", "in_recall", "out_recall"),
    (
        "A wrong prediction is in a triple when a predicted relation has it (docs/evaluation.md), so that precision "
        "and F1 depend on how many relations a model predicts as well; recall does not. The independent model predicts "
        "none, and is compared by recall. Recall can be had for precision, by lower thresholds: read it beside NER P.",
    ),
)

FUSION = Table(
    "fusion",
    "tab:strategies",
    "Fusion strategies, with speed",
    ("ner", "re", "speed"),
    (
        Row("early", "early", paper.STRATEGIES["early fusion"]),
        Row("late", "late", paper.STRATEGIES["late fusion"]),
        Row("swift (ours)", "swift"),
        Row("hybrid (ours)", "hybrid"),
        Row("PFN", "pfn"),
        Row("pipeline", "pipeline"),
    ),
    claims.FUSION,
    ("ner", "re", "speed"),
    (
        _LATE,
        "The speed of early and of the pipeline depends on how many entities and subjects they find. The recurrence of "
        "PFN is a plain loop, while the SRN has kernels of its own.",
    ),
)

ENCODER = Table(
    "encoder",
    "tab:encoder",
    "PFN's encoder and the SRN under two tables",
    ("ner", "re", "boundaries"),
    (
        Row("PFN", "pfn", paper.ENCODER["PFN"]),
        Row("Table-SRN", "table-srn", paper.ENCODER["Table-SRN"]),
    ),
    claims.ENCODER,
    ("ner", "re"),
)

ERRORS = Table(
    "errors",
    "fig:error",
    "Relation errors by kind",
    (*ERROR_KINDS, *(f"{kind}_share" for kind in ERROR_KINDS)),
    (
        Row("PFN", "pfn"),
        Row("Cascade-SRN, late", "late"),
        Row("Cascade-SRN, early", "early"),
        Row("Cascade-SRN, swift (ours)", "swift"),
    ),
    claims.ERRORS,
    ERROR_KINDS,
    (
        "Errors on the test set (docs/evaluation.md has the kinds), by number and as shares of all of a model's. The "
        "paper's figure, a picture without numbers, is called a distribution, and its text speaks of fewer and more. A "
        "model that predicts fewer relations makes fewer errors of some kinds, whatever their share.",
    ),
)

TABLES: Mapping[str, Table] = {table.name: table for table in (MAIN, ABLATION, ENTITIES, FUSION, ENCODER, ERRORS)}


def chosen_tables(names: Sequence[str]) -> list[Table]:
    """Tables by their names, each once and in the order of the paper; "all" is all of them."""
    for name in names:
        if name not in (*TABLES, "all"):
            raise ConfigError(f"there is no table {name!r}. {did_you_mean(name, (*TABLES, 'all'))}")
    return [table for table in TABLES.values() if table.name in names or "all" in names]


def needed_variants(tables: Sequence[Table]) -> list[str]:
    """What several tables need, each variant once."""
    return list(dict.fromkeys(variant for table in tables for variant in table.variants))


def paper_figures(table: Table, claim: Claim) -> tuple[float, float] | None:
    """The paper's two figures that a claim of a table is about, from that table or else from another one."""
    for one in (table, *TABLES.values()):
        first, second = (one.paper_figure(variant, claim.column) for variant in (claim.first, claim.second))
        if first is not None and second is not None:
            return first, second
    return None
