"""Merges by rule: the same letters with other spaces or capitals, and names with a noun that adds nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from cascade_srn.apps.graph.forest import Forest, Key, Merge
from cascade_srn.apps.graph.normalise import is_acronym, normalise, squeeze

# A form in other capitals is a careless spelling if it is this rare. Otherwise "MAP" is not "map".
_RARE_SHARE = 0.1
_MIN_LETTERS = 4
# Nouns that add nothing to a name, if both have the same type.
_MODEL_HEADS = frozenset({"algorithm", "classifier", "model", "network"})
_DESIGN_HEADS = frozenset({"architecture", "framework", "tool", "toolkit"})
_DATA_HEADS = frozenset({"benchmark", "corpus", "dataset"})
_SCORE_HEADS = frozenset({"measure", "metric", "score"})
_TASK_HEADS = frozenset({"problem", "task"})
_HEADS = _MODEL_HEADS | _DESIGN_HEADS | _DATA_HEADS | _SCORE_HEADS | _TASK_HEADS
# The long form of an acronym says what it names: "NMT model" is not NMT, but "CRF model" is CRF.
_MODEL_NOUNS = _MODEL_HEADS | {
    "autoencoder",
    "decoder",
    "encoder",
    "field",
    "forest",
    "machine",
    "memory",
    "regression",
    "transformer",
    "tree",
    "unit",
}
_DATA_NOUNS = _DATA_HEADS | {"challenge", "evaluation", "treebank"}


def spelling_merges(forest: Forest) -> Iterator[Merge]:
    """Merge keys that differ in spaces or capitals: "data set" and "dataset", "ELMo" and "ELMO"."""
    groups: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for at, key in enumerate(forest.keys):
        groups[squeeze(key.text), key.label].append(at)
    for (letters, _), members in sorted(groups.items()):
        into, *others = forest.by_frequency(members)
        for other in others:
            first, second = forest.keys[other], forest.keys[into]
            if first.text.casefold() == second.text.casefold():
                if _may_differ_in_case(first, second):
                    yield Merge(other, into, "text", "case")
            elif len(letters) > _MIN_LETTERS or any(char.isdigit() for char in letters):
                yield Merge(other, into, "text", "spaces")


def _may_differ_in_case(rarer: Key, other: Key) -> bool:
    """Return whether two keys of the same letters are the same word."""
    plain = rarer if rarer.text == rarer.text.casefold() else other
    if sum(char.isupper() for char in plain.name) >= 2:
        return True  # ELMo and ELMO
    return len(other.text) >= _MIN_LETTERS and rarer.n <= _RARE_SHARE * other.n


def head_merges(forest: Forest, long_forms: Mapping[int, Collection[int]]) -> Iterator[Merge]:
    """Merge "BERT model" with "BERT", and "question answering task" with "question answering".

    Args:
        forest: The keys.
        long_forms: Keys of the long forms by key of the acronym.
    """
    for at, key in enumerate(forest.keys):
        head = key.text.rpartition(" ")[2]
        if head not in _HEADS:
            continue
        # The name keeps the capitals: a "tag classifier" is not a TAG.
        into = forest.find(normalise(re.split(r"[\s-]+(?=[^\s-]+$)", key.name)[0]), key.label)
        if into is None or into == at or forest.keys[into].main_label != key.main_label:
            continue
        longs = [forest.keys[long].text for long in long_forms.get(into, ())]
        if _adds_nothing(head, forest.keys[into], longs):
            yield Merge(at, into, "head", f"{head!r} adds nothing")


def _adds_nothing(head: str, key: Key, long_forms: Collection[str]) -> bool:
    if head in _TASK_HEADS:
        return key.main_label == "Task" and key.n > 1
    if not is_name(key.name) or head in _SCORE_HEADS:
        return is_name(key.name)
    if not long_forms:
        # A short acronym without a known long form may be an activity.
        named = len(key.text) >= _MIN_LETTERS or any(not char.isupper() for char in key.text)
        return named or head in _DATA_HEADS
    nouns = _MODEL_NOUNS if head in _MODEL_HEADS else _DATA_NOUNS if head in _DATA_HEADS else ()
    return all(long.rpartition(" ")[2] in nouns for long in long_forms)


def is_name(text: str) -> bool:
    """Return whether a text is one name with capitals inside, such as SQuAD, BERT or F1, but not Text-to-Speech."""
    return " " not in text and any(
        is_acronym(part) or sum(char.isupper() for char in part) >= 2 for part in text.split("-")
    )
