"""Merges by rule: the same letters with other spaces or capitals, and names with a noun that adds nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from cascade_srn.graph.forest import Forest, Key, Merge
from cascade_srn.graph.normalise import is_acronym, squeeze

# A form in other capitals is a careless spelling if it is this rare. Otherwise "MAP" is not "map".
_RARE_SHARE = 0.1
_MIN_LETTERS = 4
# Nouns that add nothing to a name of this kind. The type of both must be the same.
_HEAD_LIST = """
    algorithm approach architecture benchmark classifier corpus dataset framework measure method metric model score
    system tool toolkit
"""
_HEADS = frozenset(_HEAD_LIST.split())
_TASK_HEADS = frozenset({"task", "problem"})
# A long form that ends so is an activity: an "NMT model" does neural machine translation.
_ACTIVITIES = ("tion", "sion", "ing", "ment", "sis", "ity", "al")


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


def head_merges(forest: Forest, long_forms: dict[int, int]) -> Iterator[Merge]:
    """Merge "BERT model" with "BERT", and "question answering task" with "question answering".

    Args:
        forest: The keys.
        long_forms: Key of the long form by key of the acronym.
    """
    for at, key in enumerate(forest.keys):
        rest, _, head = key.text.rpartition(" ")
        if not rest or head not in _HEADS | _TASK_HEADS:
            continue
        for into in _spellings(forest, rest, key):
            other = forest.keys[into]
            if other.main_label == key.main_label and _adds_nothing(forest, head, into, long_forms):
                yield Merge(at, into, "head", f"{head!r} adds nothing to a name")
                break


def _spellings(forest: Forest, rest: str, key: Key) -> Iterator[int]:
    """Yield the keys of a part of a name: as it is, and in capitals, as acronyms are."""
    for text in (rest, rest.upper()) if " " not in rest else (rest,):
        if (found := forest.find(text, key.label)) is not None and forest.keys[found].n:
            yield found


def _adds_nothing(forest: Forest, head: str, into: int, long_forms: dict[int, int]) -> bool:
    key = forest.keys[into]
    if head in _TASK_HEADS:
        return key.main_label == "Task" and key.n > 1
    if not is_name(key.name):
        return False
    long = forest.keys[long_forms[into]].text if into in long_forms else ""
    return not long.endswith(_ACTIVITIES)


def is_name(text: str) -> bool:
    """Return whether a text is a single name in capitals inside, such as SQuAD, BERT or F1."""
    return " " not in text and (is_acronym(text) or sum(char.isupper() for char in text[:-1]) >= 2)
