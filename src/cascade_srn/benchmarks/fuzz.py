"""Strange texts through a model: nothing may fail, and every offset must be right."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice

from cascade_srn.benchmarks.fuzz_options import FuzzOptions
from cascade_srn.benchmarks.fuzz_service import asked
from cascade_srn.benchmarks.fuzz_texts import FuzzText, fuzz_texts
from cascade_srn.benchmarks.results import Column, Result, Row, environment, number, plain_settings, text
from cascade_srn.data.formats.files import to_json
from cascade_srn.device import find_device
from cascade_srn.errors import CascadeError
from cascade_srn.extractor import Extractor
from cascade_srn.streaming import BadText
from cascade_srn.types import Document

# Violations that are kept word for word.
_SHOWN = 20


def violations(given: str, document: Document) -> Iterator[str]:
    """What is wrong with what was found in a text, each as a phrase; nothing where all is well."""
    if document.text != given:
        yield "the document has another text"
    if not document.coverage.complete:
        yield f"characters {document.coverage.missed[:3]} lie in no word"
    for entity in document.entities:
        if not 0 <= entity.start < entity.end <= len(given) or given[entity.start : entity.end] != entity.text:
            yield f"an entity is said to be {entity.text!r} at [{entity.start}, {entity.end})"
    scores = [entity.score for entity in document.entities] + [relation.score for relation in document.relations]
    if not all(score is not None and 0 <= score <= 1 for score in scores):
        yield "a score is no probability"
    known = {id(entity) for entity in document.entities}
    if not all(id(relation.head) in known and id(relation.tail) in known for relation in document.relations):
        yield "a relation is between no entities of the document"
    try:
        record = document.to_dict()
        to_json(record).encode()
        if Document.from_dict(record).to_dict() != record:
            yield "the document does not come back from its dictionary as it was"
    except CascadeError as error:
        yield f"the document cannot be made a dictionary and back: {error}"


def measure(options: FuzzOptions, extractor: Extractor | None = None) -> Result:
    """Extract from the texts and check everything that was found."""
    device = find_device(options.device)
    if extractor is None and options.service is None:
        extractor = Extractor.from_pretrained(options.model, device=device, precision=options.precision)
    given = list(islice(fuzz_texts(options.skip + options.texts, seed=options.seed), options.skip, None))
    told: list[str] = []
    rows = {fuzz.kind: _row(fuzz.kind) for fuzz in given}
    begin = time.monotonic()
    for position, fuzz, outcome in _outcomes(extractor, given, options):
        row = rows[fuzz.kind]
        row["texts"] += 1
        row["characters"] += len(fuzz.text)
        wrong = [outcome] if isinstance(outcome, str) else list(violations(fuzz.text, outcome))
        if isinstance(outcome, Document):
            row["entities"] += len(outcome.entities)
            row["relations"] += len(outcome.relations)
        row["violations"] += len(wrong)
        told += [f"text {options.skip + position} ({fuzz.kind}, seed {options.seed}): {phrase}" for phrase in wrong]
    seconds = time.monotonic() - begin
    used = ("bf16" if device.type == "cuda" else "float32") if options.precision == "auto" else options.precision
    return Result(
        name="fuzz" if options.service is None else "fuzz-service",
        device=device.type,
        settings=plain_settings(options),
        environment=environment(device, used),
        rows=[*rows.values(), _total(rows.values())],
        columns=_COLUMNS,
        notes=(
            f"{len(given):,} texts in {seconds:,.0f} s; {len(told):,} violations",
            *(phrase for phrase in told[:_SHOWN]),
        ),
        summary={"texts": len(given), "violations": len(told), "seconds": seconds},
    )


def _outcomes(
    extractor: Extractor | None, given: list[FuzzText], options: FuzzOptions
) -> Iterator[tuple[int, FuzzText, Document | str]]:
    """What was found in each text, or the error that it gave."""
    if extractor is None:
        answers = asked(options.service or "", [fuzz.text for fuzz in given], threshold=options.threshold)
        for position, (fuzz, answer) in enumerate(zip(given, answers, strict=True)):
            yield position, fuzz, answer
        return
    bad: dict[int, str] = {}

    def note(failed: BadText) -> Document:
        bad[failed.position] = f"{type(failed.error).__name__}: {failed.error}"
        return Document("")

    found = extractor.stream(
        (fuzz.text for fuzz in given),
        batch_words=options.batch_words,
        thresholds=options.threshold,
        on_error=note,
    )
    for position, (fuzz, document) in enumerate(zip(given, found, strict=True)):
        yield position, fuzz, bad.get(position, document)


def _counts(name: str) -> Column:
    return number(name, lambda row: row[name])


def _row(kind: str) -> Row:
    return {"kind": kind, "texts": 0, "characters": 0, "entities": 0, "relations": 0, "violations": 0}


def _total(rows: Iterable[Row]) -> Row:
    total = _row("all")
    for row in rows:
        for name in total:
            if name != "kind":
                total[name] += row[name]
    return total


_COLUMNS = (
    text("kind", "kind"),
    *(_counts(name) for name in ("texts", "characters", "entities", "relations", "violations")),
)


def is_faultless(result: Result) -> bool:
    """Whether nothing failed and nothing was wrong."""
    return bool(result.summary["violations"] == 0)
