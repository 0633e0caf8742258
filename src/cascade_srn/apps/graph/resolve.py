"""Decide which mentions are the same thing, in steps that are recorded."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cascade_srn.apps.graph.acronyms import Definitions, Expansions, acronym_merges, collect_expansions
from cascade_srn.apps.graph.forest import Forest, Merge
from cascade_srn.apps.graph.generic import is_generic
from cascade_srn.apps.graph.normalise import describe_difference, display_form, normalise
from cascade_srn.apps.graph.rules import WordCounts, fuzzy_merges, head_merges, spelling_merges
from cascade_srn.apps.graph.settings import (
    Alias,
    GraphSettings,
    KeptApart,
    read_aliases,
    read_merges,
    read_splits,
)
from cascade_srn.errors import ConfigError

_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Surface:
    """Mentions with the same text and label.

    Attributes:
        text: The text as it is written.
        label: Entity type.
        n: Number of mentions.
    """

    text: str
    label: str
    n: int


@dataclass
class Resolution:
    """Which key each mention has, and which keys are the same.

    Attributes:
        forest: Keys and merges.
        key_of: Key by surface, in the order of the surfaces; -1 for generic mentions.
        local: Key by document and key, for acronyms that only some documents define.
        labels: Types that the user gives to roots, instead of the vote.
        reasons: Reasons of local acronyms, by acronym and long form.
        everywhere: Long form by acronym, for acronyms that mean the same everywhere.
        words: Words of the keys and documents, for fuzzy matches.
        notes: Entries of files that match nothing.
    """

    forest: Forest
    key_of: list[int]
    local: dict[tuple[int, int], int] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    reasons: dict[tuple[int, int], str] = field(default_factory=dict)
    everywhere: dict[int, int] = field(default_factory=dict)
    words: WordCounts | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Texts:
    """What the steps need from the text of the documents.

    Attributes:
        definitions: Acronyms that documents define.
        words: How often words in lower case occur.
        ids: Returns the id of a document.
    """

    definitions: Definitions
    words: Mapping[str, int]
    ids: Callable[[int], str]


def resolve(surfaces: list[Surface], texts: Texts, settings: GraphSettings) -> Resolution:
    """Assign a key to each surface, and merge keys step by step.

    Args:
        surfaces: The distinct mentions.
        texts: What the text of the documents says.
        settings: The steps.
    """
    splits = read_splits(settings.splits) if settings.splits else ()
    # Forms with the same key that the user splits. The first keeps its exact spelling as its key.
    exact = {split.text for split in splits if split.other and normalise(split.text) == normalise(split.other)}
    forest = Forest()
    found = Resolution(forest, make_keys(forest, surfaces, settings, exact))
    labels = sorted({key.label for key in forest.keys})
    _apply_splits(found, splits, labels, settings)
    for step, path, read in (("manual", settings.merges, read_merges), ("alias", settings.aliases, read_aliases)):
        if path:
            _apply_aliases(found, read(path), step, labels, settings)
    merge_keys(found, texts, labels, settings)
    return found


def merge_keys(
    found: Resolution,
    texts: Texts,
    labels: Sequence[str],
    settings: GraphSettings,
    count: Callable[[Resolution], WordCounts] | None = None,
) -> None:
    """Merge the keys of a resolution step by step.

    Args:
        found: The keys.
        texts: What the text of the documents says.
        labels: Labels of the keys.
        settings: The steps.
        count: Returns the words of all keys of the graph. None: these are all.
    """
    forest = found.forest
    if settings.text:
        forest.merge_all(spelling_merges(forest))
    expansions = Expansions()
    if settings.acronyms:
        expansions = collect_expansions(forest, texts.definitions, texts.ids, labels)
        found.local, found.reasons, found.everywhere = expansions.local, expansions.reasons, expansions.everywhere
        forest.merge_all(acronym_merges(forest, expansions))
    if settings.heads:
        forest.merge_all(head_merges(forest, expansions.long_forms))
    if settings.fuzzy:
        found.words = WordCounts.collect(forest, texts.words) if count is None else count(found)
        forest.merge_all(fuzzy_merges(forest, settings.fuzzy_threshold, found.words))


def count_words(texts: Iterable[tuple[int, str]]) -> Counter[str]:
    """Count the words of documents, given by position and text, in lower case."""
    counts: Counter[str] = Counter()
    for _, text in texts:
        counts.update(_WORD.findall(text.casefold()))
    return counts


def make_keys(forest: Forest, surfaces: list[Surface], settings: GraphSettings, exact: set[str]) -> list[int]:
    """Return the key of each surface, and fill the forest in the order of the keys."""
    texts = sorted({surface.text for surface in surfaces})
    keys = {text: _key_text(text, settings, exact) for text in texts}
    forms: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    votes: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    generic = set() if settings.generic else {text for text in texts if is_generic(text)}
    dropped = set() if settings.generic else set(settings.generic_labels)
    named: list[tuple[str, str] | None] = []
    for surface in surfaces:
        key = keys[surface.text], "" if settings.types else surface.label
        if not key[0] or surface.text in generic or surface.label in dropped:
            named.append(None)
            continue
        named.append(key)
        forms[key][display_form(surface.text)] += surface.n
        votes[key][surface.label] += surface.n
    for text, label in sorted(forms):
        at = forest.add(text, label, _most_frequent(forms[text, label]))
        forest.keys[at].n = forms[text, label].total()
        forest.keys[at].main_label = _most_frequent(votes[text, label])
    found = [-1 if key is None else forest.find(*key) for key in named]
    return [-1 if key is None else key for key in found]


def _key_text(text: str, settings: GraphSettings, exact: set[str]) -> str:
    shown = " ".join(text.split())
    if not settings.text:
        return shown
    return f"{normalise(text)}\n{shown}" if shown in exact else normalise(text)


def _most_frequent(counts: Counter[str]) -> str:
    return min(counts.items(), key=lambda item: (-item[1], item[0]))[0]


def _find_keys(found: Resolution, text: str, labels: list[str], settings: GraphSettings) -> list[int]:
    """Return the keys of a text that a user writes, one for each label."""
    shown = " ".join(text.split())
    candidates = [f"{normalise(text)}\n{shown}", normalise(text)] if settings.text else [shown]
    for candidate in candidates:
        keys = [key for label in labels if (key := found.forest.find(candidate, label)) is not None]
        if keys:
            return keys
    return []


def _apply_splits(found: Resolution, splits: Iterable[KeptApart], labels: list[str], settings: GraphSettings) -> None:
    forest = found.forest
    for split in splits:
        keys = _find_keys(found, split.text, labels, settings)
        others = _find_keys(found, split.other, labels, settings) if split.other else None
        if not keys or (split.other and not others):
            missing = split.text if not keys else split.other
            found.notes.append(f"{split.place}: no mention has the text {missing!r}")
            continue
        for key in keys:
            if others is None:
                forest.isolate(key)
            for other in others or ():
                if key != other:
                    forest.keep_apart(key, other)


def _apply_aliases(
    found: Resolution, aliases: Iterable[Alias], step: str, labels: list[str], settings: GraphSettings
) -> None:
    forest = found.forest
    for alias in aliases:
        chosen = labels if settings.types or not alias.label else [alias.label]
        keys = _find_keys(found, alias.alias, chosen, settings)
        if not keys:
            found.notes.append(f"{alias.place}: no mention has the text {alias.alias!r}")
            continue
        for key in keys:
            text = normalise(alias.canonical) if settings.text else " ".join(alias.canonical.split())
            into = _find_keys(found, alias.canonical, [forest.keys[key].label], settings)
            target = into[0] if into else forest.add(text, forest.keys[key].label, display_form(alias.canonical))
            if forest.root(key) != forest.root(target) and not forest.merge(
                Merge(key, target, step, os.path.basename(alias.place)), forced=True
            ):
                raise ConfigError(
                    f"{alias.place}: {alias.alias!r} and {alias.canonical!r} are to be merged, but also kept apart",
                    "Remove one of the two",
                    option="splits",
                )
            forest.pin(target)
            if alias.label:
                found.labels[target] = alias.label


def describe_forms(surfaces: Iterable[Surface], found: Resolution) -> Iterator[tuple[int, str, str]]:
    """Yield key, form and reason for each form that is not the name of its key."""
    seen: set[tuple[int, str]] = set()
    for surface, key in zip(surfaces, found.key_of, strict=True):
        if key < 0:
            continue
        shown = " ".join(surface.text.split())
        name = found.forest.keys[key].name
        if shown != name and (key, shown) not in seen:
            seen.add((key, shown))
            yield key, shown, describe_difference(shown, name)
