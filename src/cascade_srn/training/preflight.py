"""Checks of the data before the first step. Each problem is counted and reported with its consequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from itertools import combinations
from typing import Any

import numpy as np

from cascade_srn.encoder.windows import window_owners, window_starts
from cascade_srn.errors import DataError
from cascade_srn.formats.reports import may_be_missed
from cascade_srn.inputs.texts import sentence_key
from cascade_srn.model.build import family_of
from cascade_srn.model.model import Model
from cascade_srn.model.start import StartedLabels
from cascade_srn.schema import Schema
from cascade_srn.training.corpus import Corpus, CorpusSplit
from cascade_srn.training.labelled import LabelledText
from cascade_srn.types import Document, Sentence, Span

# A label may be misspelt if it has fewer than _FEW examples, and one with _TIMES as many has a similar name.
_FEW, _TIMES, _SIMILAR = 3, 10, 0.8
_EXAMPLES_KEPT = 3
_LABELS_SHOWN = 20


@dataclass(frozen=True)
class LocatedSentence:
    """A sentence with its document and its position in it."""

    document: str
    number: int
    sentence: Sentence

    def __str__(self) -> str:
        words = self.sentence.words
        text = _quote(words[:8]) + (" …" if len(words) > 8 else "")
        document = f"document {self.document!r}, " if self.document else ""
        return f"{document}sentence {self.number} ({text!r})"

    def describe(self, span: Span) -> str:
        """Return an entity of this sentence as messages show it."""
        return f"{span.label} {_quote(self.sentence.words[span.start : span.end])!r} in {self}"


def _quote(words: Sequence[str]) -> str:
    return " ".join(word if len(word) <= 60 else f"{word[:60]}…" for word in words)


@dataclass(frozen=True)
class Problem:
    """A kind of problem, its consequence, and all its occurrences."""

    problem: str
    consequence: str
    where: Sequence[object]


@dataclass(frozen=True)
class Finding:
    """A kind of problem in one split: its number of occurrences, its consequence, and the first occurrences."""

    split: str
    problem: str
    count: int
    consequence: str
    examples: tuple[str, ...]

    def __str__(self) -> str:
        first = f" (first: {self.examples[0]})" if self.examples else ""
        return f"{self.split}: {self.count} x {self.problem}; {self.consequence}{first}"


@dataclass(frozen=True)
class Preflight:
    """All findings in the data of a recipe, and notes on what is used."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"notes": list(self.notes), "findings": [asdict(finding) for finding in self.findings]}

    def with_start(self, name: str, labels: StartedLabels) -> Preflight:
        """Return the findings with the labels that the model takes over from a trained one."""
        report = replace(self, notes=(*self.notes, f"start: {name} {labels}"))
        if not labels.direction:
            return report
        problem = "relation type that is symmetric either in the start or in the data, but not in both"
        consequence = "it keeps its weights; check data.symmetric"
        examples = tuple(map(repr, labels.direction[:_EXAMPLES_KEPT]))
        finding = Finding("start", problem, len(labels.direction), consequence, examples)
        return replace(report, findings=(*self.findings, finding))

    def with_uncertain(self, count: int, confidence: float) -> Preflight:
        """Return the findings with the number of labelled sentences that are too uncertain to learn from."""
        if not count:
            return self
        problem = f"labelled sentence with a decision less certain than {confidence:g}"
        finding = Finding("labels", problem, count, "not used for training", ())
        return replace(self, findings=(*self.findings, finding))

    def __str__(self) -> str:
        lines = [*self.notes, *map(str, self.findings)] + ["no problem found"] * (not self.findings)
        return "\n".join(["preflight:", *(f"  {line}" for line in lines)])


def preflight(model: Model, corpus: Corpus) -> Preflight:
    """Check the data that a model is trained and scored on."""
    splits = {name: list(_locate(split.documents)) for name, split in corpus.splits.items()}
    for name, sentences in splits.items():
        for located in sentences:
            corpus.schema.check(located.sentence, f"data.{name}, {located}")
    findings = []
    for name, sentences in splits.items():
        problems = [*_check_split(model, corpus.splits[name], sentences)]
        if name != "train":
            problems += _check_against_train(splits["train"], sentences)
        if name != "train" and corpus.labelled is not None:
            problems.append(find_labelled(corpus.labelled, sentences))
        findings += [
            Finding(name, p.problem, len(p.where), p.consequence, tuple(map(str, p.where[:_EXAMPLES_KEPT])))
            for p in problems
            if p.where
        ]
    return Preflight(tuple(findings), tuple(_describe_data(corpus)))


def _describe_data(corpus: Corpus) -> Iterator[str]:
    """Yield a line for each split with what was read, the labels of train, and a line if there is no dev."""
    for name, split in corpus.splits.items():
        report = split.report
        counts = (
            f"{report.documents} documents, {report.sentences} sentences, {report.entities} entities, "
            f"{report.relations} relations"
        )
        yield f"{name}: {counts}{' (held out of train)' * split.held_out}"
    train = list(_locate(corpus.train))
    for kind, found in zip(("entity", "relation"), _count_labels(train), strict=True):
        shown = [f"{label!r} ({count})" for label, count in found.most_common(_LABELS_SHOWN)]
        more = f" and {len(found) - _LABELS_SHOWN} more" * (len(found) > _LABELS_SHOWN)
        yield f"{kind} types in train: {', '.join(shown) or 'none'}{more}"
    if "dev" not in corpus.splits:
        yield (
            "dev: missing, so the last weights are kept and no thresholds are chosen; give a file, or a share of train "
            "to hold out, such as data.dev=0.1"
        )


def require_entities(corpus: Corpus) -> None:
    """Refuse a corpus without a single entity to learn from."""
    train = corpus.splits["train"]
    # Text that teachers labelled may be all that is learned from.
    if train.report.entities or corpus.labelled is not None:
        return
    unread = "".join(f"; {problem.problem}: {len(problem.where)} x" for problem in find_unread(train))
    raise DataError(
        f"data.train, {train.path!r}, contains no entity to learn from{unread}",
        "Give annotated documents in one of the supported formats",
        option="data.train",
    )


def _locate(documents: Iterable[Document]) -> Iterator[LocatedSentence]:
    for document in documents:
        for number, sentence in enumerate(document.sentences):
            yield LocatedSentence(document.id, number, sentence)


def _check_split(model: Model, split: CorpusSplit, sentences: list[LocatedSentence]) -> Iterator[Problem]:
    for kind, count in split.report.skipped.items():
        consequence = "skipped, in training and in the scores"
        yield Problem(f"malformed {kind}", consequence, _occurrences(split, kind, count))
    yield from find_unread(split)
    consequence = "not used for training" if split.name == "train" else "nothing can be found in it"
    yield Problem("sentence without words", consequence, [s for s in sentences if not len(s.sentence)])
    yield from find_unreadable(model, sentences)
    yield from find_long(model, sentences)
    yield find_crossing(sentences)
    yield from find_unrepresentable(model, sentences)
    if split.name == "train":
        yield from find_unused_labels(model.schema, sentences)
        yield from find_misspelt_labels(sentences)
    if model.settings.encoder.context_words:
        single = [f"document {d.id!r}" for d in split.documents if sum(bool(len(s)) for s in d.sentences) == 1]
        yield Problem("document of a single sentence", "context_words has no effect on it", single)


def _check_against_train(train: list[LocatedSentence], sentences: list[LocatedSentence]) -> Iterator[Problem]:
    for kind, seen, here in zip(("entity", "relation"), _count_labels(train), _count_labels(sentences), strict=True):
        where = [f"type {label!r}" for label, count in here.items() if label not in seen for _ in range(count)]
        yield Problem(f"{kind} of a type that train does not have", "counted as missed in the scores", where)
    learned = {located.sentence.words for located in train}
    where_learned = [s for s in sentences if len(s.sentence) and s.sentence.words in learned]
    yield Problem("sentence that is also in train", "scored, which makes the scores too high", where_learned)


def _occurrences(split: CorpusSplit, kind: str, count: int) -> list[object]:
    """Return the examples that the reader kept, filled up to the number of occurrences."""
    return [*split.report.examples[kind], *[""] * count][:count]


def find_unread(split: CorpusSplit) -> Iterator[Problem]:
    """Find fields that the format does not have and that may be misspelt."""
    for kind, count in split.report.noted.items():
        if may_be_missed(kind):
            yield Problem(kind, "used neither for training nor for the scores", _occurrences(split, kind, count))


def find_crossing(sentences: Sequence[LocatedSentence]) -> Problem:
    """Find entities that overlap without one being inside the other."""
    where = []
    for located in sentences:
        for a, b in combinations(sorted(located.sentence.entities), 2):
            if a.start < b.start < a.end < b.end:
                other = f"{b.label} {_quote(located.sentence.words[b.start : b.end])!r}"
                where.append(f"{located.describe(a)} and {other}")
    return Problem("pair of entities that cross", "both are learned and scored unchanged", where)


def find_unreadable(model: Model, sentences: Sequence[LocatedSentence]) -> Iterator[Problem]:
    """Find words that the encoder cannot tell from others, and entities that consist of such words."""
    dropped, unknown = _split_unreadable(model, {word for located in sentences for word in located.sentence.words})
    for problem, words in (
        ("word that the tokenizer drops", dropped),
        ("word that the tokenizer does not know", unknown),
    ):
        where = [f"{_quote([w])!r} in {located}" for located in sentences for w in located.sentence.words if w in words]
        yield Problem(problem, "the encoder sees the same placeholder for all of them", where)
    unreadable = dropped | unknown
    entities = [
        located.describe(span)
        for located in sentences
        for span in located.sentence.entities
        if unreadable.issuperset(located.sentence.words[span.start : span.end])
    ]
    problem = "entity of nothing but words that the tokenizer drops or does not know"
    yield Problem(problem, "it can be recognised by the surrounding words only", entities)


def _split_unreadable(model: Model, words: set[str]) -> tuple[set[str], set[str]]:
    """Return the words that become no piece at all, and those that become the unknown piece."""
    special = set(model.tokenizer.all_special_ids)
    ordered = sorted(words)
    row = model.collator.pieces.row(ordered)
    ends = np.cumsum(row.sizes)
    placeholders = [
        word
        for word, end, size in zip(ordered, ends.tolist(), row.sizes.tolist(), strict=True)
        if special.issuperset(row.pieces[end - size : end].tolist())
    ]
    dropped = {word for word in placeholders if not model.tokenizer(word, add_special_tokens=False)["input_ids"]}
    return dropped, set(placeholders) - dropped


def find_long(model: Model, sentences: Sequence[LocatedSentence]) -> Iterator[Problem]:
    """Find sentences longer than the encoder's window, and entities that no single window contains."""
    pieces = model.collator.pieces
    long, divided = [], []
    for located in sentences:
        row = pieces.row(located.sentence.words)
        n_pieces = len(row.pieces)
        if n_pieces <= pieces.room:
            continue
        long.append(located)
        owners = window_owners(n_pieces, window_starts(n_pieces, pieces.room, pieces.overlap), pieces.room)
        ends = np.cumsum(row.sizes)
        for span in located.sentence.entities:
            first, last = ends[span.start] - row.sizes[span.start], ends[span.end - 1] - 1
            if owners[first] != owners[last]:
                divided.append(located.describe(span))
    problem = f"sentence longer than the encoder's window of {pieces.room} pieces"
    yield Problem(problem, "read in overlapping windows; nothing is cut", long)
    yield Problem("entity read from more than one window", "it may be harder to find", divided)


def find_unrepresentable(model: Model, sentences: Sequence[LocatedSentence]) -> Iterator[Problem]:
    """Find annotations that the model family cannot represent."""
    where: dict[str, list[str]] = {}
    unreachable = family_of(model.settings.method).unreachable
    for located in sentences:
        for problem, what in unreachable(model.settings, model.schema, located.sentence):
            shown = located.describe(what) if isinstance(what, Span) else f"{what.label} in {located}"
            where.setdefault(problem, []).append(shown)
    for problem, occurrences in where.items():
        yield Problem(problem, "the model cannot find it; it is counted as missed in the scores", occurrences)


def find_unused_labels(schema: Schema, train: Sequence[LocatedSentence]) -> Iterator[Problem]:
    """Find labels of the schema without an example."""
    known = {"entity": schema.entity_types, "relation": schema.relation_types}
    for (kind, labels), seen in zip(known.items(), _count_labels(train), strict=True):
        missing = [repr(label) for label in labels if label not in seen]
        yield Problem(f"{kind} type without an example", "the model learns never to predict it", missing)


def find_misspelt_labels(train: Sequence[LocatedSentence]) -> Iterator[Problem]:
    """Find rare labels whose name is similar to that of a frequent label."""
    for kind, counts in zip(("entity", "relation"), _count_labels(train), strict=True):
        for label, other in _pair_similar(counts):
            consequence = f"did you mean {other!r} ({counts[other]} examples)? they are learned as two types"
            yield Problem(f"{kind} of type {label!r}", consequence, list(_find_label(train, kind, label)))


def _pair_similar(counts: Counter[str]) -> Iterator[tuple[str, str]]:
    for label, count in counts.items():
        if count >= _FEW:
            continue
        similarity = {
            other: SequenceMatcher(None, label.casefold(), other.casefold()).ratio()
            for other, n in counts.items()
            if n >= _TIMES * count
        }
        nearest = max(similarity, key=similarity.__getitem__, default=None)
        if nearest is not None and similarity[nearest] >= _SIMILAR:
            yield label, nearest


def _find_label(sentences: Iterable[LocatedSentence], kind: str, label: str) -> Iterator[str]:
    for located in sentences:
        if kind == "entity":
            yield from (located.describe(span) for span in located.sentence.entities if span.label == label)
        else:
            yield from (f"{label} in {located}" for triple in located.sentence.triples if triple.label == label)


def find_labelled(labelled: LabelledText, sentences: Sequence[LocatedSentence]) -> Problem:
    """Find sentences that teachers labelled, ignoring case and spaces."""
    keys = [sentence_key(located.sentence.words) for located in sentences]
    seen = set(keys).intersection(sentence_key([text]) for text in labelled.texts())
    where = [located for located, key in zip(sentences, keys, strict=True) if key in seen]
    return Problem("sentence that is also in data.labels", "scored, which makes the scores too high", where)


def _count_labels(sentences: Iterable[LocatedSentence]) -> tuple[Counter[str], Counter[str]]:
    entities: Counter[str] = Counter()
    relations: Counter[str] = Counter()
    for located in sentences:
        entities.update(entity.label for entity in located.sentence.entities)
        relations.update(triple.label for triple in located.sentence.triples)
    return entities, relations
