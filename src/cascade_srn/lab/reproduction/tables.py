"""The tables of the paper: published figures, rows, variants, and testable claims about the figures of two variants.

Figures are percentages, and sentences per second. Comments name the ``\\label`` of each table in the LaTeX source. The
rows of ``PUBLISHED`` have the names of the paper. ``ner`` and ``re`` are micro F1 on the test set of SciERC with
SciBERT, ``ace05_…`` the same on ACE05 with ALBERT. The paper reports no standard deviations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cascade_srn.errors import ConfigError, did_you_mean

Figures = Mapping[str, float]

_GROUPED = tuple(
    f"{corpus}{group}_{figure}"
    for corpus in ("", "ace05_")
    for group in ("in", "out")
    for figure in ("precision", "recall", "f1")
)
PUBLISHED: Mapping[str, Mapping[str, Figures]] = {
    # \label{tab:main_result}, "Main results (%): F1 scores on test splits of ACE05 and SciERC".
    "main": {
        "Structured Perceptron": {"ace05_ner": 80.8, "ace05_re": 49.5},
        "SPTree": {"ace05_ner": 83.4, "ace05_re": 55.6},
        "Multi-turn QA": {"ace05_ner": 84.8, "ace05_re": 60.2},
        "SPE": {"ace05_ner": 87.2, "ace05_re": 63.2, "ner": 68.0, "re": 34.6},
        "Table-Sequence": {"ace05_ner": 89.5, "ace05_re": 64.3},
        "PURE": {"ace05_ner": 89.7, "ace05_re": 65.6, "ner": 66.6, "re": 35.6},
        "PFN": {"ace05_ner": 89.0, "ace05_re": 66.8, "ner": 66.8, "re": 38.4},
        "Cascade-SRN (Late fusion)": {"ace05_ner": 89.4, "ace05_re": 65.9, "ner": 68.6, "re": 36.7},
        "Cascade-SRN (Early fusion)": {"ace05_ner": 89.8, "ace05_re": 67.1, "ner": 69.2, "re": 38.7},
    },
    # \label{tab:ablation}, "Ablation study results", on SciERC.
    "ablation": {
        "SRN": {"ner": 69.2, "re": 38.7},
        "BiSRN": {"ner": 69.1, "re": 36.8},
        "BiLSTM": {"ner": 68.2, "re": 36.5},
        "Entity+Subject": {"ner": 69.2, "re": 38.7},
        "Subject": {"ner": 66.2, "re": 35.6},
        "golden entity": {"ner": 69.2, "re": 38.7},
        "golden subject": {"ner": 68.1, "re": 33.7},
        "Joint": {"ner": 69.2, "re": 38.7},
        "Independent": {"ner": 67.5},
    },
    # \label{tab:entity}, "Entity prediction results on different entity groups".
    "entities": {
        name: dict(zip(_GROUPED, figures, strict=True))
        for name, figures in {
            "PFN": (78.0, 71.1, 74.4, 38.9, 61.7, 47.8, 95.9, 92.1, 94.0, 85.8, 86.9, 86.3),
            "Cascade-SRN (late fusion)": (82.1, 71.7, 76.5, 39.5, 66.2, 49.5, 95.7, 91.9, 93.8, 86.2, 87.8, 87.0),
            "Cascade-SRN (early fusion)": (82.0, 70.3, 75.7, 44.5, 61.5, 51.6, 95.4, 92.3, 93.8, 86.5, 88.1, 87.3),
        }.items()
    },
    # \label{tab:strategies}, "Comparison of F1 performance (%) and inference speed on SciERC test sets": one NVIDIA
    # GeForce 2080Ti, batches of 32 sentences.
    "fusion": {
        "early fusion": {"ner": 69.2, "re": 38.7, "speed": 9.04},
        "late fusion": {"ner": 68.6, "re": 36.7, "speed": 295.04},
    },
    # \label{tab:encoder}, "Comparison results of PFN and SRN under a two-task joint framework", on SciERC.
    "encoder": {"PFN": {"ner": 66.8, "re": 38.4}, "Table-SRN": {"ner": 67.8, "re": 38.3}},
    # \label{fig:error}, "Distribution of six types of relation extraction errors on SciERC test set": a picture
    # without numbers. The text says which errors are more frequent and which less.
}

# Kinds of claims about the first figure compared with the second.
MORE, FEWER, NO_WORSE = "more", "fewer", "no worse"


@dataclass(frozen=True)
class Claim:
    """A claim about one figure of two variants. ``paper``: the claim is made by the paper, not by this project."""

    statement: str
    column: str
    first: str
    second: str
    kind: str = MORE
    paper: bool = True


def _claims(
    columns: Sequence[str], statement: str, first: str, second: str, *, kind: str = MORE, paper: bool = True
) -> tuple[Claim, ...]:
    return tuple(Claim(statement, column, first, second, kind, paper) for column in columns)


_BOTH = ("ner", "re")
_GROUPS = ("in_f1", "out_f1")

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
            TableRow(name, None, PUBLISHED["main"][name])
            for name in ("Structured Perceptron", "SPTree", "Multi-turn QA", "SPE", "Table-Sequence")
        ),
        TableRow("pipeline (PURE)", "pipeline", PUBLISHED["main"]["PURE"]),
        TableRow("PFN", "pfn", PUBLISHED["main"]["PFN"]),
        TableRow("Cascade-SRN, late", "late", PUBLISHED["main"]["Cascade-SRN (Late fusion)"]),
        TableRow("Cascade-SRN, early", "early", PUBLISHED["main"]["Cascade-SRN (Early fusion)"]),
        TableRow("Cascade-SRN, swift (ours)", "swift"),
        TableRow("Cascade-SRN, hybrid (ours)", "hybrid"),
    ),
    (
        *_claims(_BOTH, "early beats late", "early", "late"),
        *_claims(_BOTH, "early beats PFN", "early", "pfn"),
        *_claims(_BOTH, "early beats the pipeline", "early", "pipeline"),
        *_claims(_BOTH, "swift beats late", "swift", "late", paper=False),
        *_claims(_BOTH, "swift beats early", "swift", "early", paper=False),
        *_claims(_BOTH, "hybrid beats early", "hybrid", "early", paper=False),
    ),
    ("ner", "re"),
    (_LATE, _PAPER_ONLY),
)

ABLATION = PaperTable(
    "ablation",
    "tab:ablation",
    "Ablation study, early fusion",
    ("ner", "re", "boundaries"),
    (
        TableRow("encoder: SRN", "early", PUBLISHED["ablation"]["SRN"]),
        TableRow("encoder: BiSRN", "bisrn", PUBLISHED["ablation"]["BiSRN"]),
        TableRow("encoder: BiLSTM", "bilstm", PUBLISHED["ablation"]["BiLSTM"]),
        TableRow("text marker: entity + subject", "early", PUBLISHED["ablation"]["Entity+Subject"]),
        TableRow("text marker: subject", "subject-marker", PUBLISHED["ablation"]["Subject"]),
        TableRow("text marker: none (ours)", "no-markers"),
        TableRow("training strategy: gold entity", "early", PUBLISHED["ablation"]["golden entity"]),
        TableRow("training strategy: gold subject", "gold-subjects", PUBLISHED["ablation"]["golden subject"]),
        TableRow("joint", "early", PUBLISHED["ablation"]["Joint"]),
        TableRow("independent", "independent", PUBLISHED["ablation"]["Independent"], ("re", "boundaries")),
    ),
    (
        *_claims(_BOTH, "SRN beats BiLSTM", "early", "bilstm"),
        *_claims(_BOTH, "SRN is no worse than BiSRN", "early", "bisrn", kind=NO_WORSE),
        *_claims(_BOTH, "entity markers help", "early", "subject-marker"),
        *_claims(_BOTH, "subject markers beat the subject's span", "subject-marker", "no-markers", paper=False),
        # The paper claims this for relations only; its table shows it for entities too.
        Claim("gold entities beat gold subjects as candidates", "ner", "early", "gold-subjects", paper=False),
        Claim("gold entities beat gold subjects as candidates", "re", "early", "gold-subjects"),
        Claim("RE helps NER", "ner", "early", "independent"),
    ),
    ("ner", "re"),
    ("Without text markers, the object turn gets its subject as a span, as in swift and hybrid.",),
)

ENTITIES = PaperTable(
    "entities",
    "tab:entity",
    "Entities in and out of triples",
    ("ner", "ner_precision", "ner_recall", *PUBLISHED["entities"]["PFN"]),
    (
        TableRow("PFN", "pfn", PUBLISHED["entities"]["PFN"]),
        TableRow("Cascade-SRN, late", "late", PUBLISHED["entities"]["Cascade-SRN (late fusion)"]),
        TableRow("Cascade-SRN, early", "early", PUBLISHED["entities"]["Cascade-SRN (early fusion)"]),
        TableRow("Cascade-SRN, swift (ours)", "swift"),
        TableRow("independent (ours)", "independent", {}, ("in_precision", "in_f1", "out_precision", "out_f1")),
    ),
    (
        *_claims(_GROUPS, "early beats PFN", "early", "pfn"),
        Claim("late beats PFN", "in_f1", "late", "pfn"),
        Claim("late beats PFN", "out_f1", "late", "pfn", paper=False),
        Claim("RE helps NER", "ner", "early", "independent"),
        Claim("RE helps to find entities in triples", "in_recall", "early", "independent", paper=False),
        Claim("RE does no harm out of triples", "out_recall", "early", "independent", kind=NO_WORSE, paper=False),
        Claim("RE helps NER with swift fusion", "ner", "swift", "independent", paper=False),
    ),
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
        TableRow("early", "early", PUBLISHED["fusion"]["early fusion"]),
        TableRow("late", "late", PUBLISHED["fusion"]["late fusion"]),
        TableRow("swift (ours)", "swift"),
        TableRow("hybrid (ours)", "hybrid"),
        TableRow("PFN", "pfn"),
        TableRow("pipeline", "pipeline"),
    ),
    (
        *_claims(_BOTH, "early beats late", "early", "late"),
        Claim("late is faster than early", "speed", "late", "early"),
        Claim("swift is faster than early", "speed", "swift", "early", paper=False),
        Claim("hybrid is faster than early", "speed", "hybrid", "early", paper=False),
        Claim("swift is faster than PFN", "speed", "swift", "pfn", paper=False),
        Claim("swift is faster than the pipeline", "speed", "swift", "pipeline", paper=False),
    ),
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
    (
        TableRow("PFN", "pfn", PUBLISHED["encoder"]["PFN"]),
        TableRow("Table-SRN", "table-srn", PUBLISHED["encoder"]["Table-SRN"]),
    ),
    (
        Claim("SRN beats PFN's encoder", "ner", "table-srn", "pfn"),
        Claim("SRN is no worse than PFN's encoder", "re", "table-srn", "pfn", kind=NO_WORSE),
    ),
    ("ner", "re"),
)

_BASES = (("PFN", "pfn"), ("late", "late"))
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
    # The paper does not say whether its figure shows numbers or shares, so both are tested.
    tuple(
        Claim(f"early has {kind} {error} errors than {name}", f"{error}{suffix}", "early", variant, kind)
        for error, kind in (("RNF", FEWER), ("RME", FEWER), ("ESE", MORE))
        for name, variant in _BASES
        for suffix in ("", "_share")
    ),
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
