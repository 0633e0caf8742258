"""The tables of the paper: their rows, variants, published figures and claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cascade_srn.errors import ConfigError, did_you_mean
from cascade_srn.lab.reproduction import claims, paper
from cascade_srn.lab.reproduction.claims import Claim
from cascade_srn.lab.reproduction.paper import Figures

# Kinds of figures: scores in percent, numbers of errors, sentences per second.
SCORE, COUNT, SPEED = "score", "count", "speed"
ERROR_KINDS = ("RTE", "RNF", "ETE", "ENF", "RME", "ESE")


@dataclass(frozen=True)
class TableColumn:
    """A column of a table. ``ours`` is False if only the paper has figures in it."""

    heading: str
    kind: str = SCORE
    ours: bool = True


COLUMNS: Mapping[str, TableColumn] = {
    "ner": TableColumn("NER"),
    "ner_precision": TableColumn("NER P"),
    "ner_recall": TableColumn("NER R"),
    "re": TableColumn("RE strict"),
    "boundaries": TableColumn("RE boundaries"),
    "ace05_ner": TableColumn("ACE05 NER", ours=False),
    "ace05_re": TableColumn("ACE05 RE", ours=False),
    **{
        f"{prefix}{group}_{figure}": TableColumn(f"{corpus}{group} {letter}", ours=not prefix)
        for prefix, corpus in (("", ""), ("ace05_", "ACE05 "))
        for group in ("in", "out")
        for figure, letter in (("precision", "P"), ("recall", "R"), ("f1", "F1"))
    },
    **{kind: TableColumn(kind, COUNT) for kind in ERROR_KINDS},
    **{f"{kind}_share": TableColumn(f"{kind}, % of errors") for kind in ERROR_KINDS},
    "speed": TableColumn("sentences/s", SPEED),
}


@dataclass(frozen=True)
class TableRow:
    """A row of a table. ``variant`` is None if only the paper has figures.

    ``without`` are columns that have no meaning for the variant.
    """

    name: str
    variant: str | None = None
    paper: Figures = field(default_factory=dict)
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class PaperTable:
    """A table or figure of the paper. ``label`` is its LaTeX label, ``panels`` are the columns to plot."""

    name: str
    label: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    claims: tuple[Claim, ...]
    panels: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def variants(self) -> tuple[str, ...]:
        """Variants to train, in row order."""
        return tuple(dict.fromkeys(row.variant for row in self.rows if row.variant is not None))

    @property
    def paper_columns(self) -> tuple[str, ...]:
        """Columns with published figures."""
        return tuple(column for column in self.columns if any(column in row.paper for row in self.rows))

    @property
    def our_columns(self) -> tuple[str, ...]:
        """Columns that we measure."""
        return tuple(column for column in self.columns if COLUMNS[column].ours)

    def paper_figure(self, variant: str, column: str) -> float | None:
        """Return the published figure of a variant."""
        return next((row.paper[column] for row in self.rows if row.variant == variant and column in row.paper), None)


_LATE = "`late` follows the equations of the paper exactly. They do not pass the subject to the object turn."
_PAPER_ONLY = "Rows without our figures, and ACE05, which needs a licence, are from the paper only."

MAIN = PaperTable(
    "main",
    "tab:main_result",
    "Main results",
    ("ace05_ner", "ace05_re", "ner", "re", "boundaries"),
    (
        *(
            TableRow(name, None, paper.MAIN_RESULT[name])
            for name in ("Structured Perceptron", "SPTree", "Multi-turn QA", "SPE", "Table-Sequence")
        ),
        TableRow("pipeline (PURE)", "pipeline", paper.MAIN_RESULT["PURE"]),
        TableRow("PFN", "pfn", paper.MAIN_RESULT["PFN"]),
        TableRow("Cascade-SRN, late", "late", paper.MAIN_RESULT["Cascade-SRN (Late fusion)"]),
        TableRow("Cascade-SRN, early", "early", paper.MAIN_RESULT["Cascade-SRN (Early fusion)"]),
        TableRow("Cascade-SRN, swift (ours)", "swift"),
        TableRow("Cascade-SRN, hybrid (ours)", "hybrid"),
    ),
    claims.MAIN,
    ("ner", "re"),
    (_LATE, _PAPER_ONLY),
)

ABLATION = PaperTable(
    "ablation",
    "tab:ablation",
    "Ablation study, early fusion",
    ("ner", "re", "boundaries"),
    (
        TableRow("encoder: SRN", "early", paper.ABLATION["SRN"]),
        TableRow("encoder: BiSRN", "bisrn", paper.ABLATION["BiSRN"]),
        TableRow("encoder: BiLSTM", "bilstm", paper.ABLATION["BiLSTM"]),
        TableRow("text marker: entity + subject", "early", paper.ABLATION["Entity+Subject"]),
        TableRow("text marker: subject", "subject-marker", paper.ABLATION["Subject"]),
        TableRow("text marker: none (ours)", "no-markers"),
        TableRow("training strategy: gold entity", "early", paper.ABLATION["golden entity"]),
        TableRow("training strategy: gold subject", "gold-subjects", paper.ABLATION["golden subject"]),
        TableRow("joint", "early", paper.ABLATION["Joint"]),
        TableRow("independent", "independent", paper.ABLATION["Independent"], ("re", "boundaries")),
    ),
    claims.ABLATION,
    ("ner", "re"),
    ("Without text markers, the object turn gets its subject as a span, as in swift and hybrid.",),
)

ENTITIES = PaperTable(
    "entities",
    "tab:entity",
    "Entities in and out of triples",
    ("ner", "ner_precision", "ner_recall", *paper.ENTITY["PFN"]),
    (
        TableRow("PFN", "pfn", paper.ENTITY["PFN"]),
        TableRow("Cascade-SRN, late", "late", paper.ENTITY["Cascade-SRN (late fusion)"]),
        TableRow("Cascade-SRN, early", "early", paper.ENTITY["Cascade-SRN (early fusion)"]),
        TableRow("Cascade-SRN, swift (ours)", "swift"),
        TableRow("independent (ours)", "independent", {}, ("in_precision", "in_f1", "out_precision", "out_f1")),
    ),
    claims.ENTITIES,
    ("in_f1", "out_f1", "in_recall", "out_recall"),
    (
        "A wrong entity counts as in a triple if a predicted relation contains it. So precision and F1 also depend on "
        "the number of predicted relations; recall does not. The independent model predicts no relations and is "
        "compared by recall. Lower thresholds raise recall at the cost of precision, so read it together with NER P.",
    ),
)

FUSION = PaperTable(
    "fusion",
    "tab:strategies",
    "Fusion strategies, with speed",
    ("ner", "re", "speed"),
    (
        TableRow("early", "early", paper.STRATEGIES["early fusion"]),
        TableRow("late", "late", paper.STRATEGIES["late fusion"]),
        TableRow("swift (ours)", "swift"),
        TableRow("hybrid (ours)", "hybrid"),
        TableRow("PFN", "pfn"),
        TableRow("pipeline", "pipeline"),
    ),
    claims.FUSION,
    ("ner", "re", "speed"),
    (
        _LATE,
        "The speed of early and of the pipeline depends on the number of entities and subjects they find. The "
        "recurrence of PFN is a plain loop, while the SRN has optimized kernels.",
    ),
)

ENCODER = PaperTable(
    "encoder",
    "tab:encoder",
    "PFN's encoder and the SRN under two tables",
    ("ner", "re", "boundaries"),
    (TableRow("PFN", "pfn", paper.ENCODER["PFN"]), TableRow("Table-SRN", "table-srn", paper.ENCODER["Table-SRN"])),
    claims.ENCODER,
    ("ner", "re"),
)

ERRORS = PaperTable(
    "errors",
    "fig:error",
    "Relation errors by kind",
    (*ERROR_KINDS, *(f"{kind}_share" for kind in ERROR_KINDS)),
    (
        TableRow("PFN", "pfn"),
        TableRow("Cascade-SRN, late", "late"),
        TableRow("Cascade-SRN, early", "early"),
        TableRow("Cascade-SRN, swift (ours)", "swift"),
    ),
    claims.ERRORS,
    ERROR_KINDS,
    (
        "Errors on the test set, as numbers and as shares of all errors of a model. The paper has a picture without "
        "numbers, which it calls a distribution, and speaks of fewer and more errors. A model that predicts fewer "
        "relations makes fewer errors of some kinds, whatever their share.",
    ),
)

TABLES: Mapping[str, PaperTable] = {table.name: table for table in (MAIN, ABLATION, ENTITIES, FUSION, ENCODER, ERRORS)}


def select_tables(names: Sequence[str]) -> list[PaperTable]:
    """Return the tables with the given names, in the order of the paper. "all" selects all tables."""
    for name in names:
        if name not in (*TABLES, "all"):
            raise ConfigError(f"there is no table {name!r}", did_you_mean(name, (*TABLES, "all")))
    return [table for table in TABLES.values() if table.name in names or "all" in names]


def list_variants(tables: Sequence[PaperTable]) -> list[str]:
    """Return the variants of all tables without duplicates."""
    return list(dict.fromkeys(variant for table in tables for variant in table.variants))


def find_paper_figures(table: PaperTable, claim: Claim) -> tuple[float, float] | None:
    """Return the two published figures of a claim, from its table or from another one."""
    for source in (table, *TABLES.values()):
        first, second = (source.paper_figure(variant, claim.column) for variant in (claim.first, claim.second))
        if first is not None and second is not None:
            return first, second
    return None
