"""Rules that choose thresholds on some documents, and their scores on others.

Used by ``tools/choose_threshold_rule.py``. All thresholds of a :class:`Choice` apply to scores without temperature,
except that of whole relations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cascade_srn.evaluation.calibration.scaling import Scaling, fit_scaling, fit_temperature, logit, sigmoid
from cascade_srn.evaluation.reliability import measure_reliability

Array = np.ndarray[Any, Any]
GRID = np.round(np.arange(0.05, 0.91, 0.05), 2)
FINE_GRID = np.round(np.arange(0.02, 0.9, 0.01), 2)
SUBJECT_GRID = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
# Labels with fewer correct or wrong candidates have no threshold of their own.
MIN_EXAMPLES = 10


@dataclass(frozen=True)
class Candidates:
    """Candidates of documents, as ``collect`` stores them.

    Attributes:
        columns: Arrays by name. Those of entities begin with ``entity_``, those of triples with ``triple_``.
        gold: Numbers of gold entities, relations and relations without entity types, by document and label.
        entity_types: Names of the entity types.
        relation_types: Names of the relation types.
        levels: Thresholds of turn 1 that turns 2 and 3 were run with.
    """

    columns: dict[str, Array]
    gold: tuple[Array, Array, Array]
    entity_types: list[str]
    relation_types: list[str]
    levels: Array

    def __getattr__(self, name: str) -> Array:
        try:
            return self.columns[name]
        except KeyError:
            raise AttributeError(name) from None

    @classmethod
    def load(cls, path: Path) -> Candidates:
        """Read a file of ``collect``."""
        with np.load(path) as file:
            stored = dict(file)
        about = json.loads(str(stored.pop("about")))
        gold = tuple(stored.pop(f"gold_{kind}") for kind in ("entities", "relations", "boundaries"))
        columns = {name: values for name, values in stored.items() if name.startswith(("entity_", "triple_"))}
        columns["entity_document"] = stored["document"][columns["entity_sentence"]]
        for name in ("entity_score", "triple_subject", "triple_object"):
            columns[name] = columns[name].astype(float)
        levels = np.array(about["levels"])
        return cls(columns, gold, about["entity_types"], about["relation_types"], levels)  # type: ignore[arg-type]

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.gold[0])

    def take(self, documents: Array) -> Candidates:
        """Return the candidates of some documents."""
        kept = np.isin(self.entity_document, documents)
        kept_triples, number = kept[self.triple_head], np.cumsum(kept) - 1
        columns = {
            name: values[kept if name.startswith("entity_") else kept_triples] for name, values in self.columns.items()
        }
        columns["triple_head"], columns["triple_tail"] = number[columns["triple_head"]], number[columns["triple_tail"]]
        return replace(self, columns=columns, gold=tuple(counts[documents] for counts in self.gold))

    def triples_between(self, min_entity: Array, min_subject: float) -> Array:
        """Return the positions of the triples between entities that pass. Shapes: min_entity (n_entity_types,)."""
        # Turns 2 and 3 see the entities of the highest level that lets all of these pass.
        level = max(0, int(np.searchsorted(self.levels, min_entity.min() + 1e-9, side="right")) - 1)
        passed = self.entity_score >= min_entity[self.entity_label]
        kept = (self.triple_level == level) & (self.triple_subject >= min_subject)
        found: Array = np.nonzero(kept & passed[self.triple_head] & passed[self.triple_tail])[0]
        return found


@dataclass(frozen=True)
class Choice:
    """Chosen thresholds. ``related`` and ``entity`` are by entity type, ``object`` is by relation type."""

    entity: Array
    related: Array
    subject: float
    object: Array
    relation: float = 0.0
    relation_score: Callable[[Candidates, Array], Array] | None = None


def predict(found: Candidates, choice: Choice) -> tuple[Array, Array]:
    """Return a mask of the predicted entities, and the positions of the predicted triples."""
    triples = found.triples_between(np.minimum(choice.related, choice.entity), choice.subject)
    triples = triples[found.triple_object[triples] >= choice.object[found.triple_label[triples]]]
    if choice.relation_score is not None:
        triples = triples[choice.relation_score(found, triples) >= choice.relation]
    entities = found.entity_score >= choice.entity[found.entity_label]
    entities[found.triple_head[triples]] = entities[found.triple_tail[triples]] = True
    return entities, triples


def score_choice(found: Candidates, choice: Choice) -> Array:
    """Return F1 of NER, of RE boundaries and of strict RE, in percent."""
    entities, triples = predict(found, choice)
    n_gold = [int(counts.sum()) for counts in found.gold]
    return 100 * np.array(
        [
            f1(found.entity_correct[entities].sum(), entities.sum(), n_gold[0]),
            f1(found.triple_boundaries[triples].sum(), len(triples), n_gold[2]),
            f1(found.triple_strict[triples].sum(), len(triples), n_gold[1]),
        ]
    )


def f1(n_correct: float, n_found: int, n_gold: int) -> float:
    """Return F1 from 0 to 1."""
    return float(2 * n_correct / max(1, n_found + n_gold))


def best_counted(scores: Array, correct: Array, n_gold: int, reach: int, grid: Array = GRID) -> tuple[float, float]:
    """Return the threshold with the best F1, averaged over ``reach`` neighbours on each side, and that F1."""
    values = np.array([f1(correct[scores >= t].sum(), int((scores >= t).sum()), n_gold) for t in grid])
    if reach:
        width = 2 * reach + 1
        values = np.convolve(np.pad(values, reach, mode="edge"), np.ones(width) / width, mode="valid")
    at = int(np.argmax(values))
    return float(grid[at]), float(values[at])


def best_expected(probabilities: Array, n_gold: int) -> float:
    """Return the threshold with the best expected F1 under calibrated probabilities."""
    values = [f1(probabilities[probabilities >= t].sum(), int((probabilities >= t).sum()), n_gold) for t in FINE_GRID]
    return float(FINE_GRID[int(np.argmax(values))])


@dataclass(frozen=True)
class Rule:
    """A rule for all thresholds.

    Attributes:
        entity: "counted" for the best F1, or "expected" for the best expected F1.
        relation: "object" for thresholds of subjects and objects by the best F1; "grid" for the best pair of ADR 7;
            "whole" for one threshold of the whole relation by the best F1; "expected" for one by expected F1.
        scaling: Map of the scores: "temperature", "offset" (and one offset) or "offsets" (one for each label).
        related: Threshold of entities with a relation, as a share of that of other entities.
        tolerance: Points of F1 that a lower threshold of subjects may cost.
        subject: Fixed threshold of subjects, or None to choose it.
        entity_reach: Neighbours on each side that F1 of entities is averaged over.
        relation_reach: The same for relations.
        label_shrinkage: Weight of the common threshold in those of single labels; None for no thresholds by label.
    """

    entity: str = "counted"
    relation: str = "object"
    scaling: str = "temperature"
    related: float = 0.6
    tolerance: float = 0.5
    subject: float | None = None
    entity_reach: int = 1
    relation_reach: int = 2
    label_shrinkage: float | None = None

    def choose(self, found: Candidates) -> Choice:
        """Choose thresholds on documents."""
        scores, correct, labels = found.entity_score, found.entity_correct, found.entity_label
        scaling = _Map.fit(self.scaling, scores, correct, labels, len(found.entity_types))
        scaled, n_gold = scaling(scores, labels), found.gold[0].sum(axis=0)
        if self.entity == "expected":
            threshold = best_expected(scaled, int(n_gold.sum()))
        else:
            threshold, _ = best_counted(scaled, correct, int(n_gold.sum()), self.entity_reach)
        entity = self._by_label(scaled, correct, labels, n_gold, threshold, self.entity_reach)
        related = scaling.invert(self.related * entity)
        entity = scaling.invert(entity)
        related = np.minimum(entity, np.maximum(related, found.levels[0]))
        return self._choose_relations(found, Choice(entity, related, 0, np.zeros(0)), scaling)

    def _choose_relations(self, found: Candidates, choice: Choice, entities: _Map) -> Choice:
        if self.relation in ("whole", "expected"):
            return self._choose_whole(found, choice, entities)
        at = found.triples_between(choice.related, SUBJECT_GRID[0] if self.subject is None else self.subject)
        objects, labels, correct = found.triple_object[at], found.triple_label[at], found.triple_strict[at]
        subjects, by_label = found.triple_subject[at], found.gold[1].sum(axis=0)
        n_gold = int(by_label.sum())
        known = found.triple_has_gold_subject[at]
        scaling = _Map.temperature(objects[known], correct[known], len(found.relation_types))
        scaled = scaling(objects, labels)
        if self.relation == "grid":
            subject, threshold = _best_pair(subjects, scaled, correct, n_gold)
            return replace(choice, subject=subject, object=scaling.invert(np.full(len(by_label), threshold)))
        choices = []
        for subject in SUBJECT_GRID if self.subject is None else (self.subject,):
            kept = subjects >= subject
            choices.append((subject, *best_counted(scaled[kept], correct[kept], n_gold, self.relation_reach)))
        min_f1 = max(value for _, _, value in choices) - self.tolerance / 100
        subject, threshold, _ = next(each for each in choices if each[2] >= min_f1)
        kept = subjects >= subject
        thresholds = self._by_label(scaled[kept], correct[kept], labels[kept], by_label, threshold, self.relation_reach)
        return replace(choice, subject=subject, object=scaling.invert(thresholds))

    def _choose_whole(self, found: Candidates, choice: Choice, entities: _Map) -> Choice:
        subject = SUBJECT_GRID[0] if self.subject is None else self.subject
        at = found.triples_between(choice.related, subject)
        maps = ScoreMaps.fit(found, at, entities, self.scaling)
        scaled, n_gold = maps.relation_scores(found, at), int(found.gold[1].sum())
        if self.relation == "expected":
            threshold = best_expected(scaled, n_gold)
        else:
            correct = found.triple_strict[at]
            threshold, _ = best_counted(scaled, correct, n_gold, self.relation_reach, FINE_GRID[::2])
        floor = np.zeros(len(found.relation_types))
        return replace(choice, subject=subject, object=floor, relation=threshold, relation_score=maps.relation_scores)

    def _by_label(
        self, scaled: Array, correct: Array, labels: Array, n_gold: Array, threshold: float, reach: int
    ) -> Array:
        thresholds = np.full(len(n_gold), threshold)
        if self.label_shrinkage is None:
            return thresholds
        for label, n in enumerate(n_gold.tolist()):
            here = labels == label
            if min(correct[here].sum(), (~correct[here]).sum()) >= MIN_EXAMPLES:
                own, _ = best_counted(scaled[here], correct[here], n, reach)
                thresholds[label] = (n * own + self.label_shrinkage * threshold) / (n + self.label_shrinkage)
        return thresholds


@dataclass(frozen=True)
class _Map:
    """Map of scores by label: ``sigmoid(logit / temperature + offset)``."""

    divisor: float
    offset: Array

    @classmethod
    def fit(cls, kind: str, scores: Array, correct: Array, labels: Array, n_labels: int) -> _Map:
        if kind == "temperature":
            return cls.temperature(scores, correct, n_labels)
        common = kind == "offset"
        return cls.offsets(scores, correct, np.zeros_like(labels) if common else labels, n_labels, common=common)

    @classmethod
    def temperature(cls, scores: Array, correct: Array, n_labels: int) -> _Map:
        return cls(fit_temperature(scores, correct), np.zeros(n_labels))

    @classmethod
    def offsets(cls, scores: Array, correct: Array, labels: Array, n_labels: int, *, common: bool) -> _Map:
        names = [str(label) for label in range(n_labels)]
        fitted: Scaling = fit_scaling(scores, correct, [str(label) for label in labels], names)
        own = [fitted.offsets.get("0" if common else name, 0.0) for name in names]
        return cls(fitted.temperature, np.array(own))

    def __call__(self, scores: Array, labels: Array) -> Array:
        return sigmoid(logit(scores) / self.divisor + self.offset[labels])

    def invert(self, scores: Array) -> Array:
        return sigmoid((logit(scores) - self.offset) * self.divisor)


@dataclass(frozen=True)
class ScoreMaps:
    """Maps of the scores of entities, of objects, and of whole relations."""

    entities: _Map
    objects: _Map
    relations: _Map

    @classmethod
    def fit(cls, found: Candidates, at: Array, entities: _Map, kind: str) -> ScoreMaps:
        """Fit the maps of objects and relations on triples."""
        n_labels, correct, labels = len(found.relation_types), found.triple_strict[at], found.triple_label[at]
        # The score of an object is conditional on its entities.
        known = found.entity_correct[found.triple_head[at]] & found.entity_correct[found.triple_tail[at]]
        objects = _Map.temperature(found.triple_object[at][known], correct[known], n_labels)
        maps = cls(entities, objects, _Map(1.0, np.zeros(n_labels)))
        if kind == "temperature":
            return maps
        products = maps.relation_scores(found, at)
        return replace(maps, relations=_Map.fit(kind, products, correct, labels, n_labels))

    def entity_scores(self, found: Candidates) -> Array:
        """Return the calibrated scores of all entities."""
        return self.entities(found.entity_score, found.entity_label)

    def relation_scores(self, found: Candidates, at: Array) -> Array:
        """Return the calibrated scores of triples: the product of their parts, mapped."""
        entities, labels = self.entity_scores(found), found.triple_label[at]
        objects = self.objects(found.triple_object[at], labels)
        return self.relations(objects * entities[found.triple_head[at]] * entities[found.triple_tail[at]], labels)


def _best_pair(subjects: Array, objects: Array, correct: Array, n_gold: int) -> tuple[float, float]:
    """Return the thresholds of subject and object with the best F1, averaged over their neighbours."""
    grid = sigmoid(np.linspace(-3.5, 2.2, 12))
    values = np.zeros((len(grid), len(GRID)))
    for i, subject in enumerate(grid):
        for j, threshold in enumerate(GRID):
            kept = (subjects >= subject) & (objects >= threshold)
            values[i, j] = f1(correct[kept].sum(), int(kept.sum()), n_gold)
    padded = np.pad(values, 1, mode="edge")
    smooth = sum(padded[i : i + len(grid), j : j + len(GRID)] for i in range(3) for j in range(3))
    row, column = np.unravel_index(int(np.argmax(smooth)), values.shape)
    return float(grid[row]), float(GRID[column])


EXPECTED = Rule("expected", "expected", "offsets", related=1.0)
# The rule of the package.
CHOSEN = Rule("expected", "expected", "offsets", related=0.8)


def half(found: Candidates) -> Choice:
    """Return thresholds of 0.5 without temperatures."""
    entity = np.full(len(found.entity_types), 0.5)
    return Choice(entity, entity, 0.5, np.full(len(found.relation_types), 0.5))


def candidate_rules() -> dict[str, Callable[[Candidates], Choice]]:
    """Return all rules to compare, by name. The first is the reference of differences."""
    adr10, expected = Rule(), EXPECTED
    rules: dict[str, Rule] = {"ADR 10": adr10, "ADR 7": Rule(relation="grid", related=1.0)}
    for share in (0.4, 0.5, 0.7, 0.8, 1.0):
        rules[f"ADR 10, related {share:g}"] = replace(adr10, related=share)
    for tolerance in (0.0, 0.25, 1.0, 2.0):
        rules[f"ADR 10, tolerance {tolerance:g}"] = replace(adr10, tolerance=tolerance)
    for reach in ((0, 0), (1, 1), (2, 2), (2, 4), (3, 3)):
        rules[f"ADR 10, smoothing {reach[0]}, {reach[1]}"] = replace(
            adr10, entity_reach=reach[0], relation_reach=reach[1]
        )
    for subject in (0.05, 0.1, 0.2, 0.3):
        rules[f"ADR 10, subject {subject:g}"] = replace(adr10, subject=subject)
    for share in (0.3, 0.4, 0.5):
        rules[f"ADR 10, subject 0.3, related {share:g}"] = replace(adr10, subject=0.3, related=share)
    rules["ADR 10, subject 0.5, related 0.4"] = replace(adr10, subject=0.5, related=0.4)
    for shrinkage in (0, 100, 300):
        rules[f"ADR 10, by label, shrinkage {shrinkage}"] = replace(adr10, label_shrinkage=shrinkage)
    rules["ADR 10, entities by expected F1"] = replace(adr10, entity="expected", scaling="offsets")
    for share in (0.6, 0.8, 1.0):
        rules[f"whole relation, counted F1, related {share:g}"] = replace(adr10, relation="whole", related=share)
        rules[f"expected F1, related {share:g}"] = replace(expected, related=share)
    for subject in (0.05, 0.1, 0.2, 0.3):
        rules[f"expected F1, subject {subject:g}"] = replace(expected, subject=subject)
    for share in (0.3, 0.4):
        rules[f"ADR 10, offsets, subject 0.3, related {share:g}"] = replace(
            adr10, scaling="offsets", subject=0.3, related=share
        )
    rules["expected F1, subject 0.3, related 0.6"] = replace(expected, subject=0.3, related=0.6)
    rules["whole relation, counted F1, related 0.6, offsets"] = replace(adr10, relation="whole", scaling="offsets")
    rules["expected F1, one offset"] = replace(expected, scaling="offset")
    rules["expected F1, temperature only"] = replace(expected, scaling="temperature")
    return {"0.5 everywhere": half} | {name: rule.choose for name, rule in rules.items()}


def compare_rules(files: Sequence[Path], n_halves: int, reference: str = "ADR 10") -> str:
    """Choose on random halves of each file's documents, score on the other halves, and return a table.

    The standard error is that of the mean difference over files, since halves of one file share documents.
    """
    rules, rng = candidate_rules(), np.random.default_rng(0)
    scores: dict[str, list[Array]] = {name: [] for name in rules}
    for path in files:
        found = Candidates.load(path)
        of_file: dict[str, list[Array]] = {name: [] for name in rules}
        for _ in range(n_halves):
            order = rng.permutation(found.n_documents)
            parts = [found.take(np.sort(half)) for half in np.array_split(order, 2)]
            for name, choose in rules.items():
                of_file[name] += [score_choice(parts[1 - k], choose(parts[k])) for k in (0, 1)]
        for name, values in of_file.items():
            scores[name].append(np.mean(values, axis=0))
    lines = ["| rule | NER | RE boundaries | RE strict | NER + RE strict |", "| --- | --- | --- | --- | --- |"]
    for name in rules:
        values, differences = np.array(scores[name]), np.array(scores[name]) - np.array(scores[reference])
        total = differences[:, 0] + differences[:, 2]
        error = f" ± {total.std(ddof=1) / len(total) ** 0.5:.2f}" if len(total) > 1 else ""
        ner, boundaries, strict = values.mean(axis=0)
        difference = "" if name == reference else f"{total.mean():+.2f}{error}"
        lines.append(f"| {name} | {ner:.2f} | {boundaries:.2f} | {strict:.2f} | {difference} |")
    return "\n".join(lines)


def compare_maps(files: Sequence[Path], n_halves: int, rule: Rule = CHOSEN) -> str:
    """Return a table of calibration errors: fitted on halves, measured on the other halves of all files together.

    The last column is the error that the same scores would have on average if they were exact probabilities.
    """
    rng = np.random.default_rng(0)
    rows: dict[tuple[str, str], list[tuple[float, float]]] = {}
    loaded = [Candidates.load(path) for path in files]
    for _ in range(n_halves):
        seen: dict[tuple[str, str], list[tuple[Array, Array]]] = {}
        for found in loaded:
            parts = [found.take(np.sort(half)) for half in np.array_split(rng.permutation(found.n_documents), 2)]
            for own, other in (parts, parts[::-1]):
                choice = rule.choose(own)
                entities, triples = predict(other, choice)
                at = own.triples_between(np.minimum(choice.related, choice.entity), choice.subject)
                n_types = len(own.entity_types)
                for kind in ("temperature", "offset", "offsets"):
                    scaling = _Map.fit(kind, own.entity_score, own.entity_correct, own.entity_label, n_types)
                    maps = ScoreMaps.fit(own, at, scaling, kind)
                    found_entities = maps.entity_scores(other)[entities], other.entity_correct[entities]
                    seen.setdefault((kind, "entities"), []).append(found_entities)
                    found_triples = maps.relation_scores(other, triples), other.triple_strict[triples]
                    seen.setdefault((kind, "relations"), []).append(found_triples)
        for key, pairs in seen.items():
            scores, correct = (np.concatenate(column) for column in zip(*pairs, strict=True))
            exact = rng.random(len(scores)) < scores
            rows.setdefault(key, []).append((calibration_error(scores, correct), calibration_error(scores, exact)))
    lines = ["| map | scores of | calibration error | if exact |", "| --- | --- | --- | --- |"]
    for (kind, what), errors in rows.items():
        measured, exact_error = np.mean(errors, axis=0)
        lines.append(f"| {kind} | {what} | {measured:.3f} | {exact_error:.3f} |")
    return "\n".join(lines)


def calibration_error(scores: Array, correct: Array) -> float:
    """Return the expected calibration error."""
    return measure_reliability(zip(scores.tolist(), correct.tolist(), strict=True)).expected_calibration_error or 0.0
