"""Normalised text of entities: forms that differ only in spelling conventions get the same key."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from cascade_srn.text.forms import join_hyphenated

_DETERMINER_LIST = "a an the this that these those our their its your my his her such each every some any"
DETERMINERS = frozenset(_DETERMINER_LIST.split())
_QUOTES = dict.fromkeys(map(ord, "\"“”„«»`´'‘’‚‹›"))
_APOSTROPHES = {ord("’"): "'", ord("‘"): "'", ord("´"): "'", ord("`"): "'"}
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−﹘﹣－⁃"), "-")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff\x00-\x08\x0e-\x1f\x7f]")
_POSSESSIVE = re.compile(r"['’]s?$")
# Part of names such as C++, C#, A* and .NET, so that they are not removed from the ends.
_EDGE_LEFT, _EDGE_RIGHT = re.compile(r"^[^\w+#*%$@&.(\[{<-]+|^[.-]+(?!\w)|^-+"), re.compile(r"[^\w+#*%)\]}>]+$")
_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 -]*[A-Za-z0-9])?")
_PLURAL_ACRONYM = re.compile(r"^([A-Z0-9][\w-]*[A-Z0-9])['’]?s$")
_HYPHEN = re.compile(r"(?<=\w)[-_]+(?=[\w+#*%$@&(])")
# A word that was divided at the end of a line, but not "pre- and post-editing".
_DIVIDED = re.compile(r"(?<=[a-z])- (?!(?:and|or|to)\b)(?=[a-z])")
_DIGITS_APART = re.compile(r"(?<=\d) (?=\d)")
_BRITISH = (
    (re.compile(r"(?<!w)is(ations?|ational|ing|ed|ers?|e|es|able|ability)$"), r"iz\1"),
    (re.compile(r"(label|model|travel|signal|level|channel|cancel|counsel)l(ing|ed|er|ers|or|ors)$"), r"\1\2"),
    (re.compile(r"^(dia|cata|ana|mono)logue"), r"\1log"),
    (re.compile(r"^(judg|acknowledg)ement"), r"\1ment"),
    (re.compile(r"^(behavi|col|fav|neighb|hum|lab|flav|hon|vap)our"), r"\1or"),
    (re.compile(r"^(an|par|cat)alys(e|ed|er|ers|ing)$"), r"\1alyz\2"),
    (re.compile(r"^(cent|met|theat)re$"), r"\1er"),
)
_IRREGULAR_LIST = """
    analyses:analysis axes:axis caches:cache calories:calorie characteristics:characteristic children:child
    comics:comic cookies:cookie corpora:corpus criteria:criterion crises:crisis formulae:formula halves:half
    headaches:headache heuristics:heuristic hypotheses:hypothesis indices:index lens:lens lenses:lens lexica:lexicon
    logics:logic matrices:matrix men:man metrics:metric movies:movie news:news niches:niche paraphrases:paraphrase
    parentheses:parenthesis phenomena:phenomenon quizzes:quiz schemata:schema series:series shoes:shoe species:species
    stimuli:stimulus syntheses:synthesis theses:thesis topics:topic vertices:vertex women:woman
"""
_IRREGULAR = dict(pair.split(":") for pair in _IRREGULAR_LIST.split())
_PLURALS = (
    (re.compile(r"(?<=..)ies$"), "y"),
    (re.compile(r"sses$"), "ss"),
    (re.compile(r"(?<![ao])uses$"), "us"),
    (re.compile(r"iases$"), "ias"),
    (re.compile(r"(ch|sh|x|o)es$"), r"\1"),
)
_NO_PLURAL = re.compile(r"(s|u|i|ic|ia)s$")


@lru_cache(maxsize=1 << 16)  # the same names are compared in several steps
def normalise(text: str, *, leave_out: str = "") -> str:
    """Return the key of an entity: forms with the same key are the same thing.

    The key ignores the form of characters, quotes, case, hyphens, leading determiners, British spelling and the
    plural of the last word. The case of a single word in capitals is kept, because "US" is not "us".

    Args:
        text: Surface form.
        leave_out: Name of a step to leave out, one of those of :func:`describe_difference`.

    Example:
        >>> normalise("the Named-Entity  Recognisers"), normalise("SVMs"), normalise("C++")
        ('named entity recognizer', 'SVM', 'C++')
    """
    for name, step in _STEPS:
        if name != leave_out:
            text = step(text)
    return text


def describe_difference(text: str, other: str) -> str:
    """Name the steps without which two forms of the same key would differ, such as ``case, plural``."""
    names = [name for name, _ in _STEPS if normalise(text, leave_out=name) != normalise(other, leave_out=name)]
    return ", ".join(names) or "characters"


def squeeze(key: str) -> str:
    """Return a key without spaces, except those between digits, and in lower case.

    Example:
        >>> squeeze("data set"), squeeze("section 1 2")
        ('dataset', 'section1 2')
    """
    kept = _DIGITS_APART.sub("\x00", key)
    return kept.replace(" ", "").replace("\x00", " ").casefold()


def display_form(text: str) -> str:
    """Return a surface form as it is shown: without line breaks, determiners, and punctuation around it."""
    return _determiner(_strip(_spaces(_INVISIBLE.sub("", join_hyphenated(text))))) or text


def _characters(text: str) -> str:
    text = _INVISIBLE.sub("", join_hyphenated(text))
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text).translate(_DASHES).translate(_APOSTROPHES)
    return unicodedata.normalize("NFC", _without_marks(unicodedata.normalize("NFD", text)))


def _without_marks(text: str) -> str:
    """Remove the accents of Latin letters. Marks of other scripts are part of the word."""
    kept: list[str] = []
    latin = False
    for char in text:
        if unicodedata.combining(char):
            if not latin:
                kept.append(char)
        else:
            latin = char.isascii()
            kept.append(char)
    return "".join(kept)


def _spaces(text: str) -> str:
    return " ".join(text.split())


def _punctuation(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else _spaces(_strip(text).translate(_QUOTES))


def _strip(text: str) -> str:
    """Remove punctuation, brackets and a possessive from the ends."""
    before = None
    while text != before:
        before = text
        text = _EDGE_RIGHT.sub("", _EDGE_LEFT.sub("", text.strip()))
        for left, right in _BRACKETS.items():
            if text.startswith(left) and (text.endswith(right) or right not in text):
                text = text[1:].removesuffix(right)
            elif text.endswith(right) and left not in text:
                text = text[:-1]
            elif left in text and right not in text:
                # The entity ends inside the brackets, as in "named entity recognition (NER".
                text = text.replace(left, " ")
    return _POSSESSIVE.sub("", text) or text


def _determiner(text: str) -> str:
    words = text.split()
    first = 0
    while first < len(words) - 1 and words[first].lower() in DETERMINERS:
        first += 1
    return " ".join(words[first:])


def _hyphens(text: str) -> str:
    if "-" not in text and "_" not in text:
        return text
    return _spaces(_HYPHEN.sub(" ", _DIVIDED.sub("-", text)))


def is_acronym(word: str) -> bool:
    """Return whether a word is written in capitals, with digits or the s of a plural at most.

    Example:
        >>> [is_acronym(word) for word in ("US", "SVMs", "F1", "BiLSTM", "us", "I")]
        [True, True, True, False, False, False]
    """
    stem = _PLURAL_ACRONYM.sub(r"\1", word)
    letters = [char for char in stem if char.isalpha()]
    return len(stem) >= 2 and len(letters) >= 1 and all(char.isupper() for char in letters)


def _case(text: str) -> str:
    if " " not in text and (len(text) == 1 or is_acronym(text) or not any(char.isalpha() for char in text)):
        return text
    if " " not in text and len(text) <= 3 and any(char in "+#*" for char in text):
        return text.upper()  # c++
    return text.casefold()


def _plural(text: str) -> str:
    rest, space, last = text.rpartition(" ")
    return rest + space + singular(last)


@lru_cache(maxsize=1 << 16)
def singular(word: str) -> str:
    """Return the singular of an English noun, by simple rules. Words in capitals lose a small s only.

    Example:
        >>> [singular(word) for word in ("networks", "corpora", "classes", "databases", "analysis", "CNNs", "AWS")]
        ['network', 'corpus', 'class', 'database', 'analysis', 'CNN', 'AWS']
    """
    if any(char.isupper() for char in word):
        return _PLURAL_ACRONYM.sub(r"\1", word)
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 3 or not word.endswith("s") or _NO_PLURAL.search(word):
        return word
    for pattern, ending in _PLURALS:
        changed, found = pattern.subn(ending, word)
        if found:
            return changed
    return word[:-1]


def _spelling(text: str) -> str:
    if text.isupper():
        return text
    return " ".join(_american(word) for word in text.split(" "))


@lru_cache(maxsize=1 << 16)
def _american(word: str) -> str:
    if len(word) > 5:
        for pattern, ending in _BRITISH:
            word = pattern.sub(ending, word)
    return word


_STEPS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("characters", _characters),
    ("spaces", _spaces),
    ("punctuation", _punctuation),
    ("determiner", _determiner),
    ("hyphen", _hyphens),
    ("case", _case),
    ("plural", _plural),
    ("British spelling", _spelling),
)
