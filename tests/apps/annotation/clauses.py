"""Contract clauses with labels that the bundled model does not have."""

from itertools import cycle

from cascade_srn.types import Document, Sentence, Span, Triple

_PARTIES = ("the Tenant", "the Landlord", "Acme Ltd.", "the Supplier", "the Client", "Northwind GmbH", "the Licensee")
_ACTS = ("pay the rent", "deliver the goods", "insure the premises", "keep the records", "repair the roof")
_DATES = ("30 June 2027", "the first of March", "1 October 2026", "the end of each quarter")
_SUMS = ("EUR 1,200", "ten thousand dollars", "GBP 450", "a fee of 3 %")
# Words in braces are a party, a second party, an act, a date or a sum.
_FORMS = (
    "{p} shall {a} by {d} .",
    "Before {d} , {p} must {a} for {q} .",
    "{p} owes {q} {s} , due on {d} .",
    "If {p} fails to {a} , {q} may claim {s} .",
    "{q} agrees that {p} will {a} no later than {d} .",
    "A penalty of {s} is payable by {p} to {q} .",
)
_TYPES = {"p": "Party", "q": "Party", "a": "Obligation", "d": "Deadline", "s": "Amount"}
_RELATIONS = (("p", "MUST-DO", "a"), ("a", "DUE-BY", "d"), ("p", "OWES", "s"), ("s", "PAYABLE-TO", "q"))


def clauses(n: int) -> list[Document]:
    """Return documents of one annotated clause each."""
    values = {"p": cycle(_PARTIES), "q": cycle(_PARTIES[3:]), "a": cycle(_ACTS), "d": cycle(_DATES), "s": cycle(_SUMS)}
    return [_clause(number, {key: next(value) for key, value in values.items()}) for number in range(n)]


def _clause(number: int, values: dict[str, str]) -> Document:
    words: list[str] = []
    spans: dict[str, Span] = {}
    for part in _FORMS[number % len(_FORMS)].split():
        key = part.strip("{}")
        added = values[key].split() if part != key else [part]
        if part != key:
            spans[key] = Span(len(words), len(words) + len(added), _TYPES[key])
        words += added
    triples = [Triple(spans[a], label, spans[b]) for a, label, b in _RELATIONS if a in spans and b in spans]
    return Document.from_sentences([Sentence.from_words(words, spans.values(), triples)], id=f"clause-{number:02d}")
