"""Acronyms and their long forms, found in text by the algorithm of Schwartz and Hearst (2003).

Two orders are found: "named entity recognition (NER)" and "NER (named entity recognition)".
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from cascade_srn.apps.graph.forest import Forest, Key, Merge
from cascade_srn.apps.graph.normalise import DETERMINERS, display_form, normalise, squeeze
from cascade_srn.apps.graph.tables import load_library

STEP = "acronym"
CLEAR_SHARE, CLEAR_LETTERS = 0.9, 4
"""An acronym means the same everywhere if this share of the documents agree, and it is this long or defined twice."""
SAME_LONG_FORM = 88
"""Similarity from which two long forms of the same acronym are spellings of one."""

_BRACKETS = re.compile(r"[(\[]([^()\[\]]{2,120})[)\]]")
_SENTENCE_END = re.compile(r"[.!?;:]\s+(?=[A-Z\"'(])|\n")
_SHORT_FORM = re.compile(r"^[^\W_](?:[\w&/+.-]*[^\W_])?$")
_PLURAL = re.compile(r"(?<=[A-Z0-9])s$")
_WORD_BEFORE = re.compile(r"([^\s()\[\],;:]+)\s*$")
_CUT = re.compile(r"[;,:]|\be\.g\b|\bi\.e\b")
_OWN_ACRONYM = re.compile(r"^([^()]+?)\s*\(\s*([^()\s]+)\s*\)\s*([^()]*)$")
_SEPARATOR = re.compile(r"[\s-]+")
_MAX_LENGTH = 10
# Words that a long form neither begins nor ends with.
_EDGE_LIST = "of and or for in on by with to from as is are we using"
_EDGES = DETERMINERS | frozenset(_EDGE_LIST.split())
_WORD = re.compile(r"[^\W_]+")
_HYPHENS = "-‐‑–"
_JOINTS = f"{_HYPHENS}/&'’"
# Words that an acronym often leaves out, and words that it writes as a digit.
_SMALL_LIST = "of and for in on the to with a an by from at"
_SMALL = frozenset(_SMALL_LIST.split())
_NUMBERS = {"2": "to", "4": "for"}


@dataclass(frozen=True, slots=True)
class Definition:
    """An acronym that a text defines.

    Attributes:
        short: The acronym, without the s of a plural.
        long: The long form, as the text writes it.
        start: Offset of the long form.
    """

    short: str
    long: str
    start: int


def find_definitions(text: str) -> list[Definition]:
    """Return the acronyms that a text defines, in their order.

    Example:
        >>> found = find_definitions("Named entity recognition (NER) with CRFs (conditional random fields)")
        >>> [(definition.short, definition.long) for definition in found]
        [('NER', 'Named entity recognition'), ('CRF', 'conditional random fields')]
    """
    found = []
    for match in _BRACKETS.finditer(text):
        first = match.start()
        inside = _CUT.split(match[1])[0].strip()
        before = _last_sentence(text[max(0, first - 200) : first])
        if is_short_form(inside):
            short = _PLURAL.sub("", inside)
            at = find_long_form(short, before)
            if at is not None:
                found.append(Definition(short, before[at:].strip(), first - len(before) + at))
                continue
        word = _WORD_BEFORE.search(before)
        if word is not None and is_short_form(word[1]) and len(inside.split()) >= 2:
            short = _PLURAL.sub("", word[1])
            if find_long_form(short, inside) == 0:
                start = match.start(1) + match[1].index(inside)
                found.append(Definition(short, inside, start))
    return found


def _last_sentence(text: str) -> str:
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    return text[ends[-1] :] if ends else text


def is_short_form(text: str) -> bool:
    """Return whether a text may be an acronym: one word of 2 to 10 characters, with two capitals at least."""
    stem = _PLURAL.sub("", text)
    return (
        2 <= len(stem) <= _MAX_LENGTH
        and _SHORT_FORM.match(stem) is not None
        and sum(char.isupper() for char in stem) >= 2
        and sum(char.isalpha() for char in stem) * 2 >= len(stem)
    )


def find_long_form(short: str, before: str) -> int | None:
    """Return where the long form of an acronym starts in the text before it; None if there is none.

    If the words before it begin with its letters, one for each word, they are the long form: "proximal policy
    optimization (PPO)". Otherwise, the characters of the acronym are matched from the right, and the first one must
    begin a word.
    """
    at_initials = _match_initials(short, before)
    if at_initials is not None:
        return at_initials
    words = list(re.finditer(r"\S+", before))
    n_words = min(len(short) + 5, 2 * len(short))
    if not words:
        return None
    low = words[-n_words].start() if len(words) > n_words else words[0].start()
    at = len(before)
    for number in range(len(short) - 1, -1, -1):
        char = short[number].casefold()
        if not char.isalnum():
            continue
        at -= 1
        while at >= low and (before[at].casefold() != char or (number == 0 and at > 0 and before[at - 1].isalnum())):
            at -= 1
        if at < low:
            return None
    if at > 1 and before[at - 1] == "-" and before[at - 2].isalnum():
        # Not a part of a compound: "test-time adaptation (TTA)".
        at = max(before.rfind(" ", 0, at) + 1, low)
        if before[at].casefold() != short[0].casefold():
            return None
    return at if _is_plausible(short, before[at:].strip()) else None


def _match_initials(short: str, before: str) -> int | None:
    """Return where words start whose first letters are the acronym; None if there are no such words.

    Small words may be left out: "bag of words (BW)". 2 and 4 stand for "to" and "for".
    """
    letters = [char for char in short.casefold() if char.isalnum()]
    words = list(_WORD.finditer(before))[-2 * len(letters) :]

    def match(n_letters: int, n_words: int) -> int | None:
        """Return the first word of a match of the first letters that ends with a word."""
        if not n_letters:
            return n_words
        if not n_words or (n_words < len(words) and not _is_joined(before, words[n_words - 1], words[n_words])):
            return None
        letter, word = letters[n_letters - 1], words[n_words - 1][0].casefold()
        found = None
        if word[0] == letter or _NUMBERS.get(letter) == word:
            found = match(n_letters - 1, n_words - 1)
        if found is None and word in _SMALL and n_letters < len(letters):
            found = match(n_letters, n_words - 1)
        return found

    first = match(len(letters), len(words))
    if first is None or len(words) - first < 2 or before[words[-1].end() :].strip():
        return None
    at, word = words[first].start(), words[first][0].casefold()
    if at and before[at - 1] in _HYPHENS:
        return None  # a part of a compound
    # "in-context learning", but not "in machine translation".
    return None if word in _EDGES and before[words[first].end()] not in _HYPHENS else at


def _is_joined(text: str, one: re.Match[str], other: re.Match[str]) -> bool:
    return all(char.isspace() or char in _JOINTS for char in text[one.end() : other.start()])


def _is_plausible(short: str, long: str) -> bool:
    """Refuse long forms that only happen to have the letters."""
    words = re.findall(r"[^\W_]+", long)
    capitals = [char.casefold() for char in short if char.isalpha()]
    if len(words) < 2 or len(words) > len(short) + 3 or len(long) <= len(short) or short in words:
        return False
    if words[0].casefold() in _EDGES or words[-1].casefold() in _EDGES or any(char in long for char in '()[]{}"“”'):
        return False
    # At least two thirds of the letters begin a word, in order.
    initials = [word[0].casefold() for word in words]
    return _common(capitals, initials) * 3 >= 2 * len(capitals)


def _common(first: list[str], second: list[str]) -> int:
    """Return the length of the longest common subsequence."""
    row = [0] * (len(second) + 1)
    for one in first:
        before = 0
        for at, other in enumerate(second, 1):
            before, row[at] = row[at], before + 1 if one == other else max(row[at], row[at - 1])
    return row[-1]


@dataclass(frozen=True)
class Expansions:
    """Long forms of acronyms, as positions of keys.

    Attributes:
        everywhere: Long form by acronym, for acronyms that mean the same in nearly all documents.
        local: Long form by document and acronym, for the documents that define another one.
        reasons: Reason by acronym and long form.
        long_forms: All long forms by acronym.
    """

    everywhere: dict[int, int] = field(default_factory=dict)
    local: dict[tuple[int, int], int] = field(default_factory=dict)
    reasons: dict[tuple[int, int], str] = field(default_factory=dict)
    long_forms: dict[int, list[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Definitions:
    """Acronyms that documents define. The first definition of a document counts.

    Attributes:
        by_short: Normalised long forms by normalised acronym and position of the document.
        names: How often each spelling of a long form occurs.
    """

    by_short: defaultdict[str, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    names: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, document: int, short: str, long: str, name: str) -> None:
        """Add a definition."""
        self.by_short[short][document] = long
        self.names[long][name] += 1


def define_acronyms(texts: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str, str]]:
    """Yield position of the document, acronym, long form and its spelling, for documents by position and text."""
    for document, text in texts:
        seen = set()
        for definition in find_definitions(text):
            short, long = normalise(definition.short), normalise(definition.long)
            if long and long != short and short not in seen:
                seen.add(short)
                yield document, short, long, display_form(definition.long)


def collect_expansions(
    forest: Forest, definitions: Definitions, ids: Callable[[int], str], labels: Sequence[str]
) -> Expansions:
    """Decide which acronyms are clear.

    An acronym is clear if nine in ten of the documents that define it give the same long form, and if it is defined
    twice or has at least four letters. Other acronyms are expanded in the documents that define them only.

    Args:
        forest: The keys. Long forms are added.
        definitions: The definitions of all documents.
        ids: Returns the id of a document.
        labels: Labels of the keys; an empty label if types are merged.
    """
    found = Expansions()
    for short, by_document in sorted(definitions.by_short.items()):
        keys = [(label, key) for label in labels if (key := forest.find(short, label)) is not None]
        # "recall" is not an acronym because of one "regular cascade of labelled lists (ReCaLL)".
        keys = [(label, key) for label, key in keys if is_short_form(forest.keys[key].name)]
        if not keys:
            continue
        groups = _group_long_forms(Counter(by_document.values()))
        counts = Counter(groups[long] for long in by_document.values())
        best, n_best = min(counts.items(), key=lambda item: (-item[1], item[0]))
        clear = n_best >= CLEAR_SHARE * len(by_document) and (n_best > 1 or len(short) >= CLEAR_LETTERS)
        for label, key in keys:
            targets = {}
            for long, n_documents in sorted(counts.items()):
                name = min(definitions.names[long].items(), key=lambda item: (-item[1], item[0]))[0]
                targets[long] = forest.add(long, label, name)
                first = min(document for document, other in by_document.items() if groups[other] == long)
                defined = f"defined in {n_documents} document{'' if n_documents == 1 else 's'}, such as {ids(first)}"
                found.reasons[key, targets[long]] = defined
            found.long_forms[key] = list(targets.values())
            if clear:
                found.everywhere[key] = targets[best]
            for document, long in by_document.items():
                if not clear or groups[long] != best:
                    found.local[document, key] = targets[groups[long]]
    return found


def _group_long_forms(counts: Counter[str]) -> dict[str, str]:
    """Return the most frequent spelling of each long form of an acronym."""
    similarity = load_library("rapidfuzz.fuzz").ratio
    groups: dict[str, str] = {}
    leaders: list[str] = []
    for long, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        near = (
            other
            for other in leaders
            if similarity(squeeze(long), squeeze(other)) >= SAME_LONG_FORM or _contains(long, other)
        )
        groups[long] = next(near, long)
        if groups[long] == long:
            leaders.append(long)
    return groups


def _contains(long: str, other: str) -> bool:
    """Return whether one of two long forms has all words of the other."""
    first, second = set(long.split()), set(other.split())
    return first < second or second < first


def acronym_merges(forest: Forest, expansions: Expansions) -> Iterator[Merge]:
    """Merge clear acronyms with their long forms, alone and as words of longer names."""
    for short, long in sorted(expansions.everywhere.items()):
        yield Merge(short, long, STEP, expansions.reasons[short, long])
    for at, key in enumerate(forest.keys[:]):
        if not key.n:
            continue
        own = split_own_acronym(key)
        if own is not None:
            into = forest.add(own[0], key.label, own[1])
            if into != at:
                yield Merge(at, into, STEP, own[2])
            continue
        text, used = expand(key, partial(_expansion, forest, expansions, key.label))
        target = forest.find(text, key.label) if used else None
        if target is not None and forest.keys[target].n and target != at:
            yield Merge(at, target, STEP, "; ".join(used))


def split_own_acronym(key: Key) -> tuple[str, str, str] | None:
    """Return normalised text and name of a key without the acronym that its name defines, and the reason."""
    own = _OWN_ACRONYM.match(key.name) if "(" in key.name else None
    if own is None or find_long_form(_PLURAL.sub("", own[2]), own[1]) is None:
        return None
    plain = f"{own[1]} {own[3].lstrip('-')}".strip()
    return normalise(plain), plain, f"{own[2]!r} is the acronym of {own[1]!r}"


def short_words(key: Key) -> list[str]:
    """Return the words of a longer name that may be acronyms."""
    words = _SEPARATOR.split(key.name)
    return [word for word in words if is_short_form(word)] if len(words) > 1 else []


def expand(key: Key, long_form: Callable[[str], str | None]) -> tuple[str, list[str]]:
    """Return the normalised text of a name with its acronyms spelled out, and what was spelled out.

    Args:
        key: The key.
        long_form: Returns the long form of a normalised acronym, if it means the same everywhere.
    """
    if not short_words(key):
        return "", []
    words, used = _SEPARATOR.split(key.name), []
    for at, word in enumerate(words):
        long = long_form(normalise(word)) if is_short_form(word) else None
        if long is not None:
            words[at] = long
            used.append(f"{word} is {long!r}")
    return normalise(" ".join(words)) if used else "", used


def _expansion(forest: Forest, expansions: Expansions, label: str, short: str) -> str | None:
    key = forest.find(short, label)
    return None if key not in expansions.everywhere else forest.keys[expansions.everywhere[key]].text
