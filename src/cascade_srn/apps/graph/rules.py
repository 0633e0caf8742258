"""Merges of names that differ a little.

By rule: the same letters with other spaces or capitals, and names with a noun that adds nothing. Fuzzy matches:
misspelled words, inflected words, and "recognition of X" for "X recognition". Words are compared instead of whole
names. Misspellings of a word are found by deleting one character at a time, so that the cost grows with the number of
distinct words and names, and not with that of their pairs.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

from cascade_srn.apps.graph.forest import Forest, Key, Merge
from cascade_srn.apps.graph.normalise import is_acronym, normalise, singular, squeeze
from cascade_srn.apps.graph.tables import load_library

# A form in other capitals is a careless spelling if it is this rare. Otherwise "MAP" is not "map".
_CARELESS_SHARE = 0.1
_MIN_NAME_LETTERS = 4
# Nouns that add nothing to a name, if both have the same type.
_MODEL_HEADS = frozenset({"algorithm", "classifier", "model", "network"})
_DESIGN_HEADS = frozenset({"architecture", "framework", "tool", "toolkit"})
_DATA_HEADS = frozenset({"benchmark", "corpus", "dataset"})
_SCORE_HEADS = frozenset({"measure", "metric", "score"})
_TASK_HEADS = frozenset({"problem", "task"})
_HEADS = _MODEL_HEADS | _DESIGN_HEADS | _DATA_HEADS | _SCORE_HEADS | _TASK_HEADS
# The long form of an acronym says what it names: "NMT model" is not NMT, but "CRF model" is CRF.
_MODEL_NOUN_LIST = "autoencoder decoder encoder field forest machine memory regression transformer tree unit"
_MODEL_NOUNS = _MODEL_HEADS | frozenset(_MODEL_NOUN_LIST.split())
_DATA_NOUNS = _DATA_HEADS | {"challenge", "evaluation", "treebank"}
MIN_LETTERS = 6
"""Shorter words are not compared: too many of them differ in one letter."""
_ARTICLES = frozenset({"a", "an", "the"})
# Words that share a deletion are compared in groups of this size at most.
MAX_GROUP = 40
_HASH_BASE = 0x9E3779B97F4A7C15
# A misspelling is rare compared with the right spelling. A replaced letter makes another word more often than a letter
# that is doubled, left out or exchanged with its neighbour.
_RARE, _RARE_SHARE = 2, 0.001
_MIN_FREQUENT = {"exchange": 20, "double": 20, "length": 100, "replace": 500}
_OPPOSITES = (
    ("inter", "intra", "intro"),
    ("hyper", "hypo"),
    ("micro", "macro"),
    ("homo", "hetero"),
    ("mono", "multi", "bi", "tri", "uni", "cross"),
    ("pre", "post", "pro", "per"),
    ("sub", "super", "supra"),
    ("ante", "anti"),
    ("endo", "exo"),
    ("max", "min"),
    ("un", "non", "in", "im", "dis", "mis", "de", "re", "ir", "il", "a", "co", "en", "over", "under", "out", "up"),
)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*|\b[ivx]+\b")
# Endings that make another word: a parser is not parsing.
_ENDING = 4


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
            elif len(letters) > _MIN_NAME_LETTERS or any(char.isdigit() for char in letters):
                yield Merge(other, into, "text", "spaces")


def _may_differ_in_case(rarer: Key, other: Key) -> bool:
    """Return whether two keys of the same letters are the same word."""
    plain = rarer if rarer.text == rarer.text.casefold() else other
    if sum(char.isupper() for char in plain.name) >= 2:
        return True  # ELMo and ELMO
    return len(other.text) >= _MIN_NAME_LETTERS and rarer.n <= _CARELESS_SHARE * other.n


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
        into = forest.find(without_head(key), key.label)
        if into is None or into == at or forest.keys[into].main_label != key.main_label:
            continue
        longs = [forest.keys[long].text for long in long_forms.get(into, ())]
        if _adds_nothing(head, forest.keys[into], longs):
            yield Merge(at, into, "head", f"{head!r} adds nothing")


def without_head(key: Key) -> str:
    """Return the normalised name of a key without a noun that may add nothing; empty if it has none."""
    if key.text.rpartition(" ")[2] not in _HEADS:
        return ""
    # The name keeps the capitals: a "tag classifier" is not a TAG.
    return normalise(re.split(r"[\s-]+(?=[^\s-]+$)", key.name)[0])


def _adds_nothing(head: str, key: Key, long_forms: Collection[str]) -> bool:
    if head in _TASK_HEADS:
        return key.main_label == "Task" and key.n > 1
    if not is_name(key.name) or head in _SCORE_HEADS:
        return is_name(key.name)
    if not long_forms:
        # A short acronym without a known long form may be an activity.
        named = len(key.text) >= _MIN_NAME_LETTERS or any(not char.isupper() for char in key.text)
        return named or head in _DATA_HEADS
    nouns = _MODEL_NOUNS if head in _MODEL_HEADS else _DATA_NOUNS if head in _DATA_HEADS else ()
    return all(long.rpartition(" ")[2] in nouns for long in long_forms)


def is_name(text: str) -> bool:
    """Return whether a text is one name with capitals inside, such as SQuAD, BERT or F1, but not Text-to-Speech."""
    return " " not in text and any(
        is_acronym(part) or sum(char.isupper() for char in part) >= 2 for part in text.split("-")
    )


@dataclass(frozen=True, slots=True)
class NearKeys:
    """Two keys that nearly have the same text.

    Attributes:
        key: The rarer key.
        into: The other one.
        score: Similarity of the texts from 0 to 1.
        reason: What the difference is.
        refusal: Why they are not merged; empty if they are.
    """

    key: int
    into: int
    score: float
    reason: str
    refusal: str = ""


def fuzzy_merges(forest: Forest, threshold: float, words: WordCounts) -> Iterator[Merge]:
    """Yield the fuzzy matches that pass the rules, the most frequent names first.

    Args:
        forest: The keys.
        threshold: Minimum similarity from 0 to 1.
        words: The words of all keys and documents.
    """
    for pair in find_pairs(forest, threshold, words):
        if not pair.refusal:
            yield Merge(pair.key, pair.into, "fuzzy", pair.reason, pair.score)


def find_pairs(forest: Forest, threshold: float, words: WordCounts) -> Iterator[NearKeys]:
    """Yield all pairs of keys that are compared, with the rule that refuses them."""
    similarity = load_library("rapidfuzz.fuzz").ratio
    inflected = _group_inflected(forest)
    variants = words.find_variants(token for key in forest.keys for token in key.text.split(" "))
    seen: set[tuple[int, int]] = set()
    for key in forest.by_frequency(range(len(forest.keys))):
        for other, reason in _candidates(forest, key, inflected, variants):
            into, rarer = forest.by_frequency((key, other))
            if rarer == into or (rarer, into) in seen:
                continue
            seen.add((rarer, into))
            first, second = forest.keys[rarer].text, forest.keys[into].text
            score = 1.0 if reason.startswith("word") else similarity(squeeze(first), squeeze(second)) / 100
            refusal = words.refuse(first, second) if reason == "spelling" else ""
            if not refusal and score < threshold:
                refusal = "similarity"
            yield NearKeys(rarer, into, score, reason, refusal)


def _group_inflected(forest: Forest) -> dict[tuple[str, str], list[int]]:
    """Return the keys of several words that differ in plurals and articles only."""
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for at, key in enumerate(forest.keys):
        if plain := plain_words(key):
            found[plain, key.label].append(at)
    return {plain: members for plain, members in found.items() if len(members) > 1}


def _candidates(
    forest: Forest,
    key: int,
    inflected: Mapping[tuple[str, str], Collection[int]],
    variants: Mapping[str, Sequence[str]],
) -> Iterator[tuple[int, str]]:
    found = forest.keys[key]
    for target in inflected.get((plain_words(found), found.label), ()):
        yield target, "word inside in the plural or with an article"
    turned = forest.find(turn_words(found), found.label)
    if turned is not None:
        yield turned, "word order"
    for changed in respell(found, variants):
        respelled = forest.find(changed, found.label)
        if respelled is not None:
            yield respelled, "spelling"


def respell(key: Key, variants: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the text of a key with one word replaced by one that is written alike."""
    tokens = key.text.split(" ")
    for at, token in enumerate(tokens):
        for other in variants.get(token, ()):
            yield " ".join((*tokens[:at], other, *tokens[at + 1 :]))


def plain_words(key: Key) -> str:
    """Return the words of a key in the singular, without articles; empty for a single word."""
    tokens = key.text.split(" ")
    return " ".join(singular(token) for token in tokens if token not in _ARTICLES) if len(tokens) > 1 else ""


def turn_words(key: Key) -> str:
    """Return "X Y" for "Y of X"; empty if there is no single "of"."""
    tokens = key.text.split(" ")
    if tokens.count("of") != 1 or len(tokens) > 6:
        return ""
    at = tokens.index("of")
    left = [*tokens[: at - 1], singular(tokens[at - 1])] if at else []
    right = [token for token in tokens[at + 1 :] if token not in _ARTICLES]
    return " ".join((*right, *left)) if left and right else ""


class WordCounts:
    """Words of all keys, how often they and those of the documents occur, and which are written alike.

    Args:
        in_text: How often words in lower case occur in the text of the documents.
        counts: Number of mentions by word of the keys.
        names: Number of mentions in which the word is written as a name.
        groups: Groups of these words and others. They are made if not given.
    """

    def __init__(
        self,
        in_text: Mapping[str, int],
        counts: Counter[str],
        names: Counter[str],
        groups: WordGroups | None = None,
    ) -> None:
        self.in_text = in_text
        self.counts = counts
        self.names = names
        self._groups = groups

    @classmethod
    def collect(cls, forest: Forest, in_text: Mapping[str, int]) -> WordCounts:
        """Count the words of keys."""
        words = cls(in_text, Counter(), Counter())
        for key in forest.keys:
            words.add(key, 1)
        return words

    def add(self, key: Key, sign: int) -> None:
        """Add a key, or take it away."""
        for token in dict.fromkeys(key.text.split(" ")):
            self.counts[token] += sign * max(key.n, 1)
        for word in re.split(r"[\s-]+", key.name):
            if _is_name(word):
                self.names[singular(word.casefold())] += sign * max(key.n, 1)

    def find_variants(self, wanted: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return, for each of some words, those that differ in one letter, or in two that are exchanged or replaced."""
        needed = {word for word in set(wanted) if _is_compared(word)}
        groups = _group_words(self.counts) if self._groups is None else self._groups.find(needed)
        distance = load_library("rapidfuzz.distance").OSA.distance
        found: defaultdict[str, set[str]] = defaultdict(set)
        for group in groups.values():
            members = sorted(word for word in group if self.counts[word]) if len(group) > 1 else []
            for first, second in combinations(members[:MAX_GROUP], 2):
                if distance(first, second, score_cutoff=1) <= 1:
                    found[first].add(second)
                    found[second].add(first)
        return {word: tuple(sorted(others)) for word, others in found.items() if word in needed}

    def fills_a_group(self, changed: Iterable[str]) -> bool:
        """Return whether a group of words that share a deletion is too large to compare all of its words."""
        groups = WordGroups(self.counts) if self._groups is None else self._groups
        return any(len(group) >= MAX_GROUP for group in groups.find(changed).values())

    def refuse(self, first: str, second: str) -> str:
        """Return the rule that keeps two names apart that differ in one word; empty if none does."""
        if numbers_of(first) != numbers_of(second):
            return "number"
        for one, other in zip(first.split(" "), second.split(" "), strict=True):
            if one != other and (refusal := self.refuse_word(one, other)):
                return refusal
            if one != other and " " not in first and _kind_of_typo(one, other) in ("length", "replace"):
                return "single word"  # no other word shows that the same thing is meant
        return ""

    def refuse_word(self, one: str, other: str) -> str:
        """Return the rule that keeps two words apart; empty if none does."""
        if any(char.isdigit() for char in one + other):
            return "number"
        if any(2 * self.names[word] > self.counts[word] for word in (one, other)):
            return "name in capitals"
        if refusal := _refuse_affixes(one, other):
            return refusal
        rare, frequent = sorted((self._frequency(one), self._frequency(other)))
        if rare > max(_RARE, _RARE_SHARE * frequent) or frequent < _MIN_FREQUENT[_kind_of_typo(one, other)]:
            return "both words may be right"
        return ""

    def _frequency(self, word: str) -> int:
        return max(self.counts[word], self.in_text.get(word, 0) + self.in_text.get(f"{word}s", 0))


class WordGroups:
    """Words that share a deletion: what is left of a word without one letter, or the whole word.

    Only groups of the words that are asked for are made. Words without such a group are recognised by hashes of their
    deletions, because the deletions of all words are many texts.

    Args:
        words: All words.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._parts: list[tuple[list[str], Any]] = []
        self._found: dict[str, list[str]] = {}
        self.add(words)

    def add(self, words: Iterable[str]) -> None:
        """Add words that are not there yet."""
        new = list(filter(_is_compared, words))
        self._parts += _hash_deletions(new)
        for shorter, group in _group_words(new).items() if self._found else ():
            if shorter in self._found:
                self._found[shorter] += group

    def find(self, words: Iterable[str]) -> dict[str, list[str]]:
        """Return the groups of words, by what they share."""
        shared = {shorter for word in words if _is_compared(word) for shorter in _delete(word)}
        if missing := shared - self._found.keys():
            pa, pc = load_library("pyarrow"), load_library("pyarrow.compute")
            wanted = pa.concat_arrays([pa.array(hashes[:, -1]) for _, hashes in _hash_deletions(missing)])
            near: list[str] = []
            for part, hashes in self._parts:
                is_near = pc.is_in(pa.array(hashes.ravel()), wanted).to_numpy(zero_copy_only=False)
                near += (part[at] for at in is_near.reshape(hashes.shape).any(axis=1).nonzero()[0])
            groups = _group_words(near)
            self._found |= {shorter: groups[shorter] for shorter in missing}
        return {shorter: self._found[shorter] for shorter in shared}


def _hash_deletions(words: Iterable[str]) -> Iterator[tuple[list[str], Any]]:
    """Yield words of the same length with hashes of their deletions. The last column is that of the whole word."""
    np = load_library("numpy")
    by_length: defaultdict[int, list[str]] = defaultdict(list)
    for word in words:
        by_length[len(word)].append(word)
    for length, same in by_length.items():
        codes = np.array(same, f"U{length}").view(np.uint32).reshape(-1, length).astype(np.uint64)
        powers = np.multiply.accumulate(np.array([1, *[_HASH_BASE] * length], dtype=np.uint64))
        left, right = (np.zeros((len(same), length + 1), dtype=np.uint64) for _ in range(2))
        for at in range(length):
            left[:, at + 1] = left[:, at] * powers[1] + codes[:, at]
            right[:, length - at - 1] = right[:, length - at] + codes[:, length - at - 1] * powers[at]
        left[:, :length] = left[:, :length] * powers[length - 1 :: -1] + right[:, 1:]
        yield same, left


def _group_words(words: Iterable[str]) -> defaultdict[str, list[str]]:
    """Return the words that share a deletion, by what is left."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for word in filter(_is_compared, words):
        for shorter in _delete(word):
            found[shorter].append(word)
    return found


def numbers_of(text: str) -> list[str]:
    """Return the numbers of a text, also Roman ones."""
    return _NUMBER.findall(text)


def is_misspelling(one: Key, other: Key) -> bool:
    """Return whether two names differ by a doubled or exchanged letter of one word that neither writes as a name.

    Unlike :class:`WordCounts`, this does not know which of the two words is the right one.
    """
    first, second = one.text.split(" "), other.text.split(" ")
    pairs = [pair for pair in zip(first, second, strict=False) if pair[0] != pair[1]]
    if len(first) != len(second) or len(pairs) != 1 or not all(map(_is_compared, pairs[0])):
        return False
    words = [word for key in (one, other) for word in re.split(r"[\s-]+", key.name)]
    if {singular(word.casefold()) for word in words if _is_name(word)}.intersection(pairs[0]):
        return False
    # A replaced letter often makes another word: "semantic context" and "semantic content".
    if _refuse_affixes(*pairs[0]) or _kind_of_typo(*pairs[0]) in ("length", "replace"):
        return False
    return bool(load_library("rapidfuzz.distance").OSA.distance(*pairs[0], score_cutoff=1) <= 1)


@lru_cache(maxsize=1 << 16)  # a change compares the words as they were, and as they are
def _refuse_affixes(one: str, other: str) -> str:
    if one[:2] != other[:2] or _are_opposite(one, other):
        return "prefix"
    return "ending" if _differ_at_end(one, other) else ""


def _is_compared(word: str) -> bool:
    return len(word) >= MIN_LETTERS and word.isalpha()


def _delete(word: str) -> set[str]:
    """Return a word, and the word without each of its letters."""
    return {word, *[word[:at] + word[at + 1 :] for at in range(len(word))]}


def _is_name(word: str) -> bool:
    return any(char.isupper() or char.isdigit() for char in word[1:])


def _are_opposite(one: str, other: str) -> bool:
    for group in _OPPOSITES:
        first = [prefix for prefix in group if one.startswith(prefix)]
        second = [prefix for prefix in group if other.startswith(prefix)]
        if any(a != b and one[len(a) :] == other[len(b) :] for a in first for b in second):
            return True
        if any(one == a + other for a in first) or any(other == b + one for b in second):
            return True
    return False


def _differ_at_end(one: str, other: str) -> bool:
    """Return whether two words differ at the end only, so that one is another form of the other."""
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    first, second = one[same:], other[same:]
    return max(len(first), len(second)) <= _ENDING and (not first or not second or first[-1] != second[-1])


def _kind_of_typo(one: str, other: str) -> str:
    """Return what was done to a letter: exchange, double, length (left out or added) or replace."""
    if sorted(one) == sorted(other):
        return "exchange"
    if len(one) == len(other):
        return "replace"
    return "double" if re.sub(r"(.)\1", r"\1", one) == re.sub(r"(.)\1", r"\1", other) else "length"
