"""Testable claims of the paper and of this project about the figures of two variants."""

from collections.abc import Sequence
from dataclasses import dataclass

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


def _make_claims(
    columns: Sequence[str], statement: str, first: str, second: str, *, kind: str = MORE, paper: bool = True
) -> tuple[Claim, ...]:
    return tuple(Claim(statement, column, first, second, kind, paper) for column in columns)


_BOTH = ("ner", "re")
_GROUPS = ("in_f1", "out_f1")

EARLY_BEATS_LATE = _make_claims(_BOTH, "early beats late", "early", "late")

MAIN = (
    *EARLY_BEATS_LATE,
    *_make_claims(_BOTH, "early beats PFN", "early", "pfn"),
    *_make_claims(_BOTH, "early beats the pipeline", "early", "pipeline"),
    *_make_claims(_BOTH, "swift beats late", "swift", "late", paper=False),
    *_make_claims(_BOTH, "swift beats early", "swift", "early", paper=False),
    *_make_claims(_BOTH, "hybrid beats early", "hybrid", "early", paper=False),
)

ABLATION = (
    *_make_claims(_BOTH, "SRN beats BiLSTM", "early", "bilstm"),
    *_make_claims(_BOTH, "SRN is no worse than BiSRN", "early", "bisrn", kind=NO_WORSE),
    *_make_claims(_BOTH, "entity markers help", "early", "subject-marker"),
    *_make_claims(_BOTH, "subject markers beat the subject's span", "subject-marker", "no-markers", paper=False),
    # The paper claims this for relations only; its table shows it for entities too.
    Claim("gold entities beat gold subjects as candidates", "ner", "early", "gold-subjects", paper=False),
    Claim("gold entities beat gold subjects as candidates", "re", "early", "gold-subjects"),
    Claim("RE helps NER", "ner", "early", "independent"),
)

ENTITIES = (
    *_make_claims(_GROUPS, "early beats PFN", "early", "pfn"),
    Claim("late beats PFN", "in_f1", "late", "pfn"),
    Claim("late beats PFN", "out_f1", "late", "pfn", paper=False),
    Claim("RE helps NER", "ner", "early", "independent"),
    Claim("RE helps to find entities in triples", "in_recall", "early", "independent", paper=False),
    Claim("RE does no harm out of triples", "out_recall", "early", "independent", kind=NO_WORSE, paper=False),
    Claim("RE helps NER with swift fusion", "ner", "swift", "independent", paper=False),
)

FUSION = (
    *EARLY_BEATS_LATE,
    Claim("late is faster than early", "speed", "late", "early"),
    Claim("swift is faster than early", "speed", "swift", "early", paper=False),
    Claim("hybrid is faster than early", "speed", "hybrid", "early", paper=False),
    Claim("swift is faster than PFN", "speed", "swift", "pfn", paper=False),
    Claim("swift is faster than the pipeline", "speed", "swift", "pipeline", paper=False),
)

ENCODER = (
    Claim("SRN beats PFN's encoder", "ner", "table-srn", "pfn"),
    Claim("SRN is no worse than PFN's encoder", "re", "table-srn", "pfn", kind=NO_WORSE),
)

_BASES = (("PFN", "pfn"), ("late", "late"))
# The paper does not say whether its figure shows numbers or shares, so both are tested.
ERRORS = tuple(
    Claim(f"early has {kind} {error} errors than {name}", f"{error}{suffix}", "early", variant, kind)
    for error, kind in (("RNF", FEWER), ("RME", FEWER), ("ESE", MORE))
    for name, variant in _BASES
    for suffix in ("", "_share")
)
