"""How good must a teacher be? Train on labels of a simulated teacher, and score on gold labels.

The teacher errs as often as asked: gold labels are degraded to a given precision and recall. Half of the labels that a
teacher can get wrong instead of missing them are changed: they count as missing and as spurious. So two thirds of the
errors are missing and spurious labels. Every decision about a label draws from a generator of its own, so that the same
seed gives the same labels, and a second answer repeats a share of them.
"""

from __future__ import annotations

import random
import re
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cascade_srn.apps.annotation.worker import project_sections
from cascade_srn.errors import ConfigError, DataError, require
from cascade_srn.evaluation.scores import score_documents
from cascade_srn.lab.benchmarks.measuring import ResultRow, number, text
from cascade_srn.lab.benchmarks.options import ALL, TeachOptions
from cascade_srn.lab.benchmarks.trainings import (
    GOLD,
    Training,
    Trainings,
    count_sentences,
    mean_sentences,
    save_figure,
    score_column,
    scores_of,
)
from cascade_srn.schema import Schema
from cascade_srn.training.run_folder import TASKS
from cascade_srn.types import Document, Sentence, Span, Triple

# Share of the smaller number of missing and spurious labels that are one label with a wrong type, place or direction.
CHANGED = 0.5
# Share of the changed entities that have a wrong type, the others a wrong boundary; and of the changed relations that
# have a wrong type, the others have head and tail exchanged.
WRONG_TYPE = 0.6
# Share of the wrong types that are the one type with which a type is usually confused.
USUAL = 0.5
# Longest spurious entity, in words.
_LONGEST = 3
_LEVEL = re.compile(r"(\d+)/(\d+)\+(\d+)/(\d+)")


@dataclass(frozen=True)
class Quality:
    """Precision and recall of a teacher, from 0 to 1: of entities, and of relations with both their entities."""

    entity_precision: float
    entity_recall: float
    relation_precision: float
    relation_recall: float

    @classmethod
    def parse(cls, text: str) -> Quality:
        """Read percentages such as ``80/75+50/40``: precision and recall of entities and of relations.

        Raises:
            ConfigError: If the text has another form, or a percentage is not from 1 to 100.
        """
        match = _LEVEL.fullmatch(text)
        values = [int(value) for value in match.groups()] if match else []
        if not values or not all(1 <= value <= 100 for value in values):
            raise ConfigError(
                f"one of the teachers is {text!r}",
                "Give percentages: precision/recall of entities + precision/recall of relations, such as 80/75+50/40",
                option="teachers",
            )
        return cls(*(value / 100 for value in values))


class SimulatedTeacher:
    """Answers with degraded gold labels.

    Args:
        quality: Precision and recall to degrade to. Relations cannot be found more often than both their entities.
        schema: The labels.
        seed: Seed of all errors.
        repeated: Share of the decisions that a second answer repeats.
    """

    def __init__(self, quality: Quality, schema: Schema, *, seed: int, repeated: float) -> None:
        self.quality, self.schema, self.seed, self.repeated = quality, schema, seed, repeated

    def answer(self, documents: Sequence[Document], number: int = 0) -> list[Document]:
        """Return documents with the labels of an answer."""
        answered = iter(_Answer(self, _sentences(documents), number).sentences())
        # Clusters are not part of an answer.
        return [
            replace(document, sentences=tuple(next(answered) for _ in document.sentences), clusters=())
            for document in documents
        ]


def doubtful(answers: Sequence[Sequence[Document]], share: float) -> set[int]:
    """Return the positions of the share of sentences on which two answers differ most.

    The doubt about a sentence is the number of its entities and relations that only one of the answers has.
    """
    first, second = map(_sentences, answers)
    order = sorted(range(len(first)), key=lambda at: -_disagreement(first[at], second[at]))
    return set(order[: round(share * len(first))])


def correct(answer: Sequence[Document], gold: Sequence[Document], positions: Collection[int]) -> list[Document]:
    """Return an answer with gold labels in the sentences at some positions."""
    pairs = enumerate(zip(_sentences(answer), _sentences(gold), strict=True))
    labels = iter([right if at in positions else given for at, (given, right) in pairs])
    return [replace(document, sentences=tuple(next(labels) for _ in document.sentences)) for document in answer]


def label_share(documents: Sequence[Document], positions: Collection[int]) -> float:
    """Return the share of the entities and relations that is in the sentences at some positions."""
    counts = [len(sentence.entities) + len(sentence.triples) for sentence in _sentences(documents)]
    return sum(counts[at] for at in positions) / max(1, sum(counts))


def _sentences(documents: Sequence[Document]) -> list[Sentence]:
    return [sentence for document in documents for sentence in document.sentences]


def _disagreement(one: Sentence, other: Sentence) -> int:
    return len(set(one.entities) ^ set(other.entities)) + len(set(one.triples) ^ set(other.triples))


class _Answer:
    """One answer about all sentences. Errors are counted over all of them."""

    def __init__(self, teacher: SimulatedTeacher, sentences: Sequence[Sentence], number: int) -> None:
        self.teacher, self.gold, self.number = teacher, sentences, number
        self.types = Counter(span.label for sentence in sentences for span in sentence.entities)
        self.relation_types = Counter(triple.label for sentence in sentences for triple in sentence.triples)
        # Labels of the answer by sentence, and what became of each gold entity that was found.
        self.entities: list[set[Span]] = [set() for _ in sentences]
        self.triples: list[set[Triple]] = [set() for _ in sentences]
        self.found: list[dict[Span, Span]] = [{} for _ in sentences]

    def sentences(self) -> list[Sentence]:
        self._entities()
        self._relations()
        return [
            sentence.annotated(sorted(entities), sorted(triples))
            for sentence, entities, triples in zip(self.gold, self.entities, self.triples, strict=True)
        ]

    def _rng(self, *decision: Any) -> random.Random:
        """Return the generator of a decision. A later answer repeats the first one in a share of the decisions."""
        teacher = self.teacher
        own = f"{teacher.seed} {self.number} {decision}"
        repeats = not self.number or random.Random(f"{own} repeats").random() < teacher.repeated
        return random.Random(f"{teacher.seed} 0 {decision}" if repeats else own)

    def _ranked(self, kind: str, items: Iterable[Any]) -> list[Any]:
        return sorted(items, key=lambda item: self._rng(kind, item).random())

    def _entities(self) -> None:
        quality = self.teacher.quality
        gold = [(at, span) for at, sentence in enumerate(self.gold) for span in sentence.entities]
        order = self._ranked("entity", gold)
        n_correct = round(quality.entity_recall * len(gold))
        n_wrong = round(n_correct / quality.entity_precision) - n_correct
        for at, span in order[:n_correct]:
            self._place(at, span, span)
        n_changed = round(CHANGED * min(n_wrong, len(gold) - n_correct))
        for at, span in order[n_correct:]:
            new = self._changed_entity(at, span) if n_changed else None
            if new is not None:
                self._place(at, span, new)
                n_changed, n_wrong = n_changed - 1, n_wrong - 1
        for at, start, end, words in self._ranked_spurious():
            if n_wrong and not any(span.start < end and start < span.end for span in self.entities[at]):
                rng = self._rng("spurious type", words)
                label = rng.choices(list(self.types), list(self.types.values()))[0]
                self.entities[at].add(Span(start, end, label))
                n_wrong -= 1

    def _place(self, at: int, gold: Span, span: Span) -> None:
        self.entities[at].add(span)
        self.found[at][gold] = span

    def _changed_entity(self, at: int, span: Span) -> Span | None:
        """Return an entity with another type or boundary that is not a label, or None."""
        rng = self._rng("changed entity", at, span)
        taken = self.entities[at] | set(self.gold[at].entities)
        label = self._confused("type", span.label, self.teacher.schema.entity_types, rng)
        retyped = [Span(span.start, span.end, label)]
        moved = [
            Span(span.start + left, span.end + right, span.label)
            for left, right in ((-1, 0), (1, 0), (0, -1), (0, 1))
            if 0 <= span.start + left < span.end + right <= len(self.gold[at])
        ]
        rng.shuffle(moved)
        options = retyped + moved if rng.random() < WRONG_TYPE else moved + retyped
        return next((option for option in options if option not in taken), None)

    def _confused(self, kind: str, label: str, labels: Sequence[str], rng: random.Random) -> str:
        """Return another label: often the usual confusion, which is the same for all mentions."""
        others = [other for other in labels if other != label]
        if not others:
            return label
        usual = self._rng("confused", kind, label).choice(others)
        return usual if rng.random() < USUAL else rng.choice(others)

    def _ranked_spurious(self) -> list[tuple[int, int, int, str]]:
        """Return spans that are not part of an entity, in the order of their texts, which all mentions share."""
        found = []
        for at, sentence in enumerate(self.gold):
            words, inside = sentence.words, {i for span in sentence.entities for i in range(span.start, span.end)}
            # A teacher proposes terms: long or capitalised words.
            is_term = [
                i not in inside and word.isalpha() and (len(word) > 5 or (i > 0 and word[0].isupper()))
                for i, word in enumerate(words)
            ]
            for start in range(len(words)):
                for end in range(start + 1, min(start + _LONGEST, len(words)) + 1):
                    if not is_term[end - 1]:
                        break
                    if is_term[start]:
                        found.append((at, start, end, " ".join(words[start:end]).lower()))
        return sorted(found, key=lambda item: (self._rng("spurious", item[3]).random(), item))

    def _relations(self) -> None:
        quality = self.teacher.quality
        gold = [(at, triple) for at, sentence in enumerate(self.gold) for triple in dict.fromkeys(sentence.triples)]
        order = self._ranked("relation", gold)
        n_correct = round(quality.relation_recall * len(gold))
        kept = [(at, triple) for at, triple in order if self._carried(at, triple) == triple][:n_correct]
        n_wrong = round(len(kept) / quality.relation_precision) - len(kept)
        for at, triple in kept:
            self.triples[at].add(triple)
        chosen = set(kept)
        n_changed = round(CHANGED * min(n_wrong, len(gold) - len(kept)))
        for at, triple in order:
            new = self._changed_relation(at, triple) if n_changed and (at, triple) not in chosen else None
            if new is not None:
                self.triples[at].add(new)
                n_changed, n_wrong = n_changed - 1, n_wrong - 1
        pairs = [
            (at, head, tail)
            for at, entities in enumerate(self.entities)
            for head in sorted(entities)
            for tail in sorted(entities)
            if head != tail
        ]
        for at, head, tail in self._ranked("pair", pairs):
            known = {frozenset((t.head, t.tail)) for t in (*self.triples[at], *self.gold[at].triples)}
            if n_wrong and frozenset((head, tail)) not in known:
                self.triples[at].add(Triple(head, self._spurious_type(at, head, tail), tail))
                n_wrong -= 1

    def _carried(self, at: int, triple: Triple) -> Triple | None:
        """Return a gold relation between what became of its entities, or None if one is missing."""
        head, tail = (self.found[at].get(entity) for entity in (triple.head, triple.tail))
        return Triple(head, triple.label, tail) if head is not None and tail is not None and head != tail else None

    def _changed_relation(self, at: int, triple: Triple) -> Triple | None:
        """Return a wrong relation: between changed entities, of another type, or in the other direction."""
        new = self._carried(at, triple)
        if new is None:
            return None
        if new == triple:
            rng = self._rng("changed relation", at, triple)
            schema = self.teacher.schema
            if rng.random() < WRONG_TYPE or triple.label in schema.symmetric:
                new = replace(triple, label=self._confused("relation", triple.label, schema.relation_types, rng))
            else:
                new = Triple(triple.tail, triple.label, triple.head)
        return None if new in self.triples[at] or new in self.gold[at].triples else new

    def _spurious_type(self, at: int, head: Span, tail: Span) -> str:
        """Return a type that gold has for such entities, if it has one."""
        fitting = Counter(
            triple.label
            for sentence in self.gold
            for triple in sentence.triples
            if (triple.head.label, triple.tail.label) == (head.label, tail.label)
        )
        counts = fitting or self.relation_types
        return self._rng("spurious relation", at, head, tail).choices(list(counts), list(counts.values()))[0]


TEACHER, LABELS = "teacher", "labels"
_CHECKED = " checked"
_SHOWN = {"ner": "NER", "re_strict": "RE"}
# A corpus that has fewer than this share of a size is not trained with that size.
_ENOUGH = 0.9


class Teach(Trainings[TeachOptions]):
    """Trainings on labels of simulated teachers, and on gold labels. Nothing is chosen on gold labels of dev."""

    NAME = "teach"
    NOTES = (
        "F1 in percent (RE: strict), mean ± sample standard deviation over the seeds; teacher: its labels and gold; "
        "labels: the same after a person has checked the most doubtful sentences; student: the trained model on dev",
        "settings: the rule of annotation projects; from 100 sentences, 15 % of the teacher's sentences choose "
        "thresholds, and no gold label of dev chooses anything",
    )
    COLUMNS = (
        text("corpus", "corpus"),
        number("sentences", mean_sentences),
        text("start", "start"),
        text("labels", "labels"),
        number("seeds", lambda row: len(row["trainings"])),
        *(
            score_column(task, f"{who} {name}", split)
            for who, split in ((TEACHER, TEACHER), (LABELS, LABELS), ("student", "dev"))
            for task, name in _SHOWN.items()
        ),
    )
    GROUPED = (*Trainings.GROUPED, "labels")

    def planned(self) -> Iterator[Training]:
        """Yield all trainings: for each size of each corpus, gold labels, then all teachers, then checking.

        Raises:
            DataError: If no corpus has enough sentences.
        """
        options = self.options
        labels = [GOLD, *options.teachers]
        if options.checked:
            labels += [f"{teacher}{_CHECKED}" for teacher in options.teachers]
        most = {name: count_sentences(corpus.train) for name, (_, corpus) in self.corpora.items()}
        cells = [
            (size, name)
            for size in options.sizes
            for name in self.corpora
            if size == ALL or most[name] >= _ENOUGH * int(size)
        ]
        if not cells:
            raise DataError(
                f"no corpus has enough sentences (most: {max(most.values())})", "Give smaller sizes", option="sizes"
            )
        for seed in range(options.seeds):
            for size, name in cells:
                yield from (Training(name, start, size, seed, by) for start in self.starts for by in labels)

    def label(self, training: Training, documents: list[Document]) -> tuple[list[Document], ResultRow]:
        """Return the sample with the labels of the teacher, corrected by a person or not, and their scores."""
        if training.labels == GOLD:
            return documents, {}
        level = training.labels.removesuffix(_CHECKED)
        options, schema = self.options, self.corpora[training.corpus][1].schema
        teacher = SimulatedTeacher(Quality.parse(level), schema, seed=training.seed, repeated=options.repeated)
        answer = labelled = teacher.answer(documents)
        described: ResultRow = {TEACHER: self._scores_of_labels(training, documents, answer)}
        if level != training.labels:
            positions = doubtful((answer, teacher.answer(documents, 1)), options.checked)
            labelled = correct(answer, documents, positions)
            described["checked"] = {
                "sentences": len(positions),
                "labels": label_share(documents, positions),
                "repeated": options.repeated,
            }
        return labelled, described | {LABELS: self._scores_of_labels(training, documents, labelled)}

    def _scores_of_labels(
        self, training: Training, gold: Sequence[Document], labelled: Sequence[Document]
    ) -> dict[str, float]:
        scores = score_documents(gold, labelled, schema=self.corpora[training.corpus][1].schema).to_dict()
        return {task: scores[task]["micro"]["f1"] for task in TASKS}

    def sections(self, training: Training, documents: Sequence[Document]) -> dict[str, dict[str, Any]]:
        """Return the settings of an annotation project. The dev file of the corpus only scores the model."""
        width = self.starts[training.start].width
        sections = project_sections(documents, width=width, epochs=self.options.epochs or None, seed=training.seed)
        sections["data"]["test"] = self.corpora[training.corpus][0].dev
        return sections

    def scores(self, training: Training) -> ResultRow:
        """Return the scores on the dev file of the corpus."""
        found = super().scores(training)
        return {"dev": found["test"], "seconds": found["seconds"]}

    def order(self, training: Training) -> tuple[Any, ...]:
        """Sort as planned: gold labels first, then the teachers, the best first."""
        *where, seed = super().order(training)
        level = training.labels.removesuffix(_CHECKED)
        quality = Quality(1, 1, 1, 1) if level == GOLD else Quality.parse(level)
        return *where, -quality.entity_recall, -quality.relation_recall, training.labels, seed


def plot_teach(result: Mapping[str, Any], path: Path) -> Path:
    """Draw F1 of the student over F1 of the teacher, for each corpus and size, with gold labels as a line."""
    require("matplotlib", extra="report")
    from matplotlib.figure import Figure

    groups = list(dict.fromkeys((row["corpus"], row["size"], row["start"]) for row in result["rows"]))
    figure = Figure(figsize=(8, 3.4 * len(groups)), layout="constrained")
    panels = figure.subplots(len(groups), 2, squeeze=False)
    for line, group in zip(panels, groups, strict=True):
        rows = [row for row in result["rows"] if (row["corpus"], row["size"], row["start"]) == group]
        for axes, task in zip(line, _SHOWN, strict=True):
            axes.axline((0, 0), slope=1, color="grey", linestyle=":", linewidth=1, label="as good as the teacher")
            points: dict[str, list[tuple[float, float]]] = {}
            for row in rows:
                student = statistics.mean(scores_of(row, task)[1])
                if row["labels"] == GOLD:
                    axes.axhline(student, color="black", linestyle="--", linewidth=1, label="human labels")
                    continue
                teacher = 100 * statistics.mean(training[TEACHER][task] for training in row["trainings"])
                name = "a person checks some" if row["labels"].endswith(_CHECKED) else "not checked"
                points.setdefault(name, []).append((teacher, student))
            for (name, found), marker in zip(sorted(points.items(), reverse=True), "os", strict=False):
                axes.plot(*zip(*sorted(found), strict=True), marker=marker, label=name)
            corpus, sentences = group[0], round(mean_sentences(rows[0]))
            axes.set(title=f"{corpus}, {sentences} sentences: {TASKS[task]}", xlabel="F1 of the teacher, %")
            axes.set(ylabel="F1 of the student, %", xlim=(0, 100), ylim=(0, 100))
            axes.grid(alpha=0.3)
    panels[0][0].legend(fontsize=8)
    return save_figure(figure, path)
