"""Split raw text into sentences and words by rules for English, in linear time and without a model.

Words are split as in the Penn Treebank and in corpora that follow it, such as SciERC: punctuation, brackets, quotes and
the percent sign are words of their own, *don't* is *do n't* and *cannot* is *can not*, while hyphenated words, numbers,
abbreviations, addresses and *and/or* stay whole. Scripts written without spaces are split into single characters
(Chinese, Japanese) or stay whole between spaces (Thai, Khmer, Lao).

There are no rules for the abbreviations and ordinals of other languages. Pass another :data:`Segmenter` for them.

Rules look at a *shadow* of the text: of the same length, so that offsets in one are offsets in the other, and
with one character for all that play the same part.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a text lies in the words of its sentences; whitespace (``str.isspace``) does not count.

    ``missed`` holds the half-open character offsets of what does not, whitespace around it left off.
    """

    n_characters: int
    n_covered: int
    missed: tuple[tuple[int, int], ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every character that is no whitespace lies in a word of a sentence."""
        return not self.missed

    @property
    def share(self) -> float:
        """The share of the characters that do, from 0 to 1; 1 where there are none."""
        return self.n_covered / self.n_characters if self.n_characters else 1.0


def coverage_of(text: str, words: Iterable[tuple[int, int]]) -> Coverage:
    """The coverage of a text by words, given as half-open offsets that rise."""
    n_characters = n_covered = at = 0
    missed = []
    for start, end in (*words, (len(text), len(text))):
        between = text[at:start]
        if bare := between.strip():
            first = at + len(between) - len(between.lstrip())
            missed.append((first, first + len(bare)))
            n_characters += _n_visible(bare)
        covered = _n_visible(text[start:end])
        n_characters, n_covered, at = n_characters + covered, n_covered + covered, end
    return Coverage(n_characters, n_covered, tuple(missed))


def _n_visible(text: str) -> int:
    return sum(map(len, text.split()))


Segmenter = Callable[[str], Sequence[Sequence[tuple[int, int]]]]
"""A text to its sentences, each the half-open character offsets of its words."""

_MARK, _JOINER, _HAN = "\u02b9", "\u02ba", "\u4e00"  # what stands in the shadow for a whole kind; all are \w
_SAME = {
    "\u2019": "'",  # the typographic apostrophe
    "\u2010": "-",
    "\u2011": "-",
    "\u200d": _JOINER,
    "\x85": "\n",
    "\u2028": "\n",
}
_LINE_BREAKS = "\r\n\u2029"
# Characters of scripts that have no spaces between words and no letters within them.
_HAN_RANGES = (
    (0x3005, 0x3007),
    (0x3040, 0x312F),
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),
    (0x1B000, 0x1B16F),
    (0x20000, 0x3FFFF),
)


class _Shadow(dict[int, str]):
    """The table from characters to what stands for them, filled as characters are met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char in _SAME:
            found = _SAME[char]
        elif char.isspace():
            found = char if char in _LINE_BREAKS else " "
        elif unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf") or 0x1F3FB <= code <= 0x1F3FF:
            found = _MARK  # combining marks, invisible characters within words, skin tones of emoji
        elif char.isalnum() and any(low <= code <= high for low, high in _HAN_RANGES):
            found = _HAN
        else:
            found = char
        self[code] = found
        return found


_SHADOW = _Shadow()


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


# Abbreviations that keep their period, by what may follow. A name, a number or an example follows these:
_TITLES = _names("Capt Col Dr Fr Gen Gov Hon Lt Mr Mrs Ms Mt Prof Rep Rev Sen Sgt St")
_BEFORE_MORE = _names("approx avg ca cf e.g eg eq eqn eqns eqs esp et fig figs i.e ie incl viz vs")
# A number follows these, or they are words (no, sec, app) at the end of a sentence:
_BEFORE_NUMBERS = _names(
    "alg app apr art aug ch chap cor dec def defn ex feb jan jul jun lem mar no nos nov nr oct p pp prop ref "
    "refs sec secs sect sep sept tab tel thm vol vols"
)
# These may end a sentence, and do where a word follows that opens sentences:
_ANYWHERE = _names("al b.sc bros co corp dept et.al inc jr ltd m.sc ph.d resp sr univ")
_OPENERS = _names(
    "a additionally after all also although an and another as at based because before besides both but by "
    "compared consequently despite do does due during each empirical evaluation every experimental "
    "experiments extensive finally first for from further furthermore given he hence here how however i "
    "if in instead is it its later many moreover most my nevertheless next no not on once one or other "
    "our recent recently results second several she since so some specifically such that the their then "
    "there therefore these they this those though through thus to two under unfortunately unlike using we "
    "what when where whereas whether which while who why with within without you your"
)

# Every quantifier is possessive and every look around is bounded or consumed, so a text is read once.
_LETTER = rf"[^\W{_HAN}{_MARK}{_JOINER}]"
_LETTERS = rf"{_LETTER}[^\W{_HAN}]*+"
# A period before one of these ends a sentence even where the space after it was lost ("this task.However").
_GLUED = "|".join(sorted(name.capitalize() for name in _OPENERS if len(name) > 1))
_WITHIN = rf"""(?: [-/'&@]
  | \.(?! (?<=[^\W\d_][^\W\d_]\.) (?:{_GLUED}) (?!\w) )
  | (?<=\d):(?=\d)
  | (?<=\d)(?<!\d\d\d\d),(?=\d\d\d(?!\d)) )"""
_WORD = re.compile(
    rf"""\s*+(?:
    (?P<url> (?i:(?:https?|ftp)://|www\.) [^\s<>"“”{_HAN}。，、]++ )
  | (?P<run>
      (?: (?<![^\s(\[{{<>=~$,:;/]) [-−] (?=\.?\d) )?+                # a sign, not a hyphen
      (?: (?<![\w.]) \. (?=\d) | (?<!\w) [@#] (?={_LETTER})(?!\d) )?+  # .01, @name, #tag
      (?: C\+\+ | [CF]\#(?!\w) | {_LETTERS} (?: {_WITHIN} {_LETTERS} )*+ )
    ) (?P<stop> \.(?!\.) )?+
  | ' (?i:s|re|ve|ll|d|m) (?!\w)                                     # cut off, or after a bracket or quote
  | \.{{2,}}+ | [!?]{{2,}}+ | (?P<rule>[-=*~]) (?P=rule)++ | `` | ''
  | [\U0001F1E6-\U0001F1FF]{{2}}                                     # a flag is two letters of its own
  | {_HAN}[{_MARK}{_JOINER}]*+
  | [{_MARK}{_JOINER}]++
  | \S (?: {_MARK} | {_JOINER}[^\w\s]?+ )*+                          # anything else; joined emoji are one
    )""",
    re.VERBOSE,
)
_CLITIC = re.compile(r"(?i:n't|'(?:s|re|ve|ll|d|m))$")
_ACRONYM = re.compile(r"(?:[^\W\d_]\.)++[^\W\d_]")
_BLANK_LINE = re.compile(r"(?>\r\n|[\r\n])[^\S\r\n]*+[\r\n]|\u2029")
_NUMBERING = re.compile(r"\s*+(?:[\d(\[#§]|[IVXLC]{2,}+(?!\w)|[B-HJ-Z](?!\w))")
_CITATION = re.compile(r"\[[\d\s,;–-]{1,40}+\]")
_ENUMERATOR = re.compile(r"(?:[a-z]|[ivx]{2,5}+)\s?\)")
_NEXT_WORD = re.compile(r"\s++(\w*+)")
# Abbreviations with a letter and a space for each word, the first letter in lower case: i. e., e. g., w. r. t.
_LETTER_FOLLOWS = re.compile(r"[^\S\r\n][^\W\d_]\.")
_LETTER_PRECEDES = re.compile(r"(?<![\w.])[a-z]\.[^\S\r\n]\Z")

_TERMINATORS = frozenset(".!?…؟۔।॥‼⁇⁈⁉")
_TERMINATORS_WITHOUT_SPACE = frozenset("。！？｡．")
_CLOSERS = frozenset([")", "]", "}", "”", "»", "''", "」", "』", "）", "】", "》"])
# These close what is before them where nothing parts them from it, and open what follows otherwise:
_QUOTES = frozenset(['"', "'"])
_OPENING = frozenset(["(", "[", "{", "“", "«", "‘", "„", "``", "`", '"', "'", "¿", "¡", "「", "『", "（"])


LONGEST_SENTENCE = 200
"""Words after which a sentence is cut at a pause: longer ones are lists, tables or noise, and cost the more."""

# What a sentence that is too long is cut after, the better ones first; a line break is better than all of them.
_PAUSES = (frozenset(";:"), frozenset(",)]}"), frozenset(["-", "–", "—", "--", "|", "/"]))


class _Ends(IntEnum):
    """Whether a sentence can end with a word."""

    NEVER = 0
    BEFORE_OPENER = 1  # an abbreviation: only where a word follows that opens sentences
    BEFORE_START = 2  # a terminator: where what follows can start a sentence
    ALWAYS = 3  # a terminator of a script without spaces


def segment(text: str) -> list[list[tuple[int, int]]]:
    """Sentences of words, each word its half-open character offsets in the text.

    Every character that is no whitespace (``str.isspace``) belongs to exactly one word, no word holds
    whitespace, no word and no sentence is empty, and all stand in the order of the text. A blank line always
    ends a sentence; a line break alone does not, unless the sentence would be longer than ``LONGEST_SENTENCE``.

    >>> text = "Dr. Li's parser isn't slow."
    >>> [[text[start:end] for start, end in sentence] for sentence in segment(text)]
    [['Dr.', 'Li', "'s", 'parser', 'is', "n't", 'slow', '.']]
    """
    shadow = text.translate(_SHADOW)
    words, ends = _words(shadow)
    return _sentences(shadow, words, ends)


def segment_words(text: str) -> list[tuple[int, int]]:
    """The words alone, as :func:`segment` cuts them, whatever sentences they make."""
    return _words(text.translate(_SHADOW))[0]


def _words(shadow: str) -> tuple[list[tuple[int, int]], list[_Ends]]:
    """The words' offsets, and whether a sentence can end with each."""
    words: list[tuple[int, int]] = []
    ends: list[_Ends] = []
    at = 0
    while match := _WORD.match(shadow, at):
        kind, at = match.lastgroup, match.end()
        if kind == "url":
            start, at = match.start(kind), _url_end(shadow, *match.span(kind))
            words.append((start, at))
            ends.append(_Ends.NEVER)
        elif match["run"]:
            start, end = match.span("run")
            kept = _kept_stop(shadow, start, end) if match["stop"] else None
            if kept is not None:
                words.append((start, end + 1))
                ends.append(kept)
                continue
            at = end  # a period that is not the word's is a word of the next turn
            cut = _inner_cut(shadow, start, end)
            words += [(start, cut), (cut, end)] if cut else [(start, end)]
            ends += [_Ends.NEVER] * (2 if cut else 1)
        else:
            # The whitespace before a word is part of the match, not of the word.
            word = match[0].lstrip()
            words.append((at - len(word), at))
            ends.append(_terminates(word[0]))
    return words, ends


def _url_end(shadow: str, start: int, end: int) -> int:
    """Where an address ends, once the punctuation of the sentence around it is taken off."""
    url = shadow[start:end]
    around = ".,;:!?…'*" + "".join(close for open, close in ("()", "[]", "{}") if open not in url)
    return start + len(url.rstrip(around))


def _inner_cut(shadow: str, start: int, end: int) -> int | None:
    """Where a contraction or possessive falls in two."""
    if end - start == len("cannot") and shadow[start:end].lower() == "cannot":
        return start + len("can")
    clitic = _CLITIC.search(shadow, max(start + 1, end - len("n't")), end)
    return clitic.start() if clitic else None


def _kept_stop(shadow: str, start: int, end: int) -> _Ends | None:
    """Whether the period at ``end`` is part of the word before, and whether that can then end a sentence."""
    word = shadow[start:end].replace("/", "-").rpartition("-")[2]
    name = word.lower()
    if word in _TITLES or name in _BEFORE_MORE:
        return _Ends.NEVER
    if name == "etc":
        return _Ends.BEFORE_START if shadow[end + 1 : end + 2].isspace() else _Ends.NEVER
    if name in _BEFORE_NUMBERS and _NUMBERING.match(shadow, end + 1):
        return _Ends.NEVER
    if name in _ANYWHERE or _ACRONYM.fullmatch(word):
        return _Ends.BEFORE_OPENER
    if len(word) == 1 and word.isupper() and _is_initial(shadow, end + 1):
        return _Ends.NEVER
    # A small letter alone is a variable, more often than not, with which a sentence may end.
    if len(word) == 1 and word.islower() and _LETTER_FOLLOWS.match(shadow, end + 1):
        return _Ends.NEVER
    if len(word) == 1 and _LETTER_PRECEDES.search(shadow, max(0, start - 4), start):
        return _Ends.BEFORE_OPENER
    return None


def _is_initial(shadow: str, at: int) -> bool:
    """Whether a capital letter and a period that end at ``at`` are of a name (J. Smith; Smith, J., 2010)."""
    if shadow[at : at + 1] in (",", ";", ":", "-"):
        return True
    follows = _NEXT_WORD.match(shadow, at)
    if not follows or follows.end() == follows.start(1) == len(shadow):
        return False
    if _BLANK_LINE.search(shadow, at, follows.start(1)):
        return False
    return follows[1].lower() not in _OPENERS


def _terminates(first: str) -> _Ends:
    if first in _TERMINATORS:
        return _Ends.BEFORE_START
    return _Ends.ALWAYS if first in _TERMINATORS_WITHOUT_SPACE else _Ends.NEVER


def _sentences(shadow: str, words: list[tuple[int, int]], ends: list[_Ends]) -> list[list[tuple[int, int]]]:
    """Words in sentences, in one pass that remembers a terminator while only closing signs follow it."""
    firsts: list[int] = []  # the index of each sentence's first word
    before, depth, pending, cited = 0, 0, _Ends.NEVER, 0
    for index, (start, end) in enumerate(words):
        word, spaced = shadow[start:end], before < start
        closes = word in _CLOSERS or (word in _QUOTES and not spaced) or start < cited
        if pending and not closes and not spaced and (citation := _CITATION.match(shadow, start)):
            closes, cited = True, citation.end()
        blank = spaced and _BLANK_LINE.search(shadow, before, start)
        if not firsts or blank or (not closes and _starts(shadow, words, index, pending, spaced, depth)):
            firsts.append(index)
            depth, pending = 0, _Ends.NEVER
        depth = max(0, depth + (word in ("(", "[")) - (word in (")", "]")))
        if ends[index]:
            numbering = index == firsts[-1] + 1 and _is_numbering(shadow, *words[index - 1])
            pending = _Ends.NEVER if numbering else ends[index]
        elif not closes or pending == _Ends.BEFORE_OPENER:
            # The period of "(Smith et al.)" is the abbreviation's alone, whatever follows the bracket.
            pending = _Ends.NEVER
        before = end
    return [
        words[low:high]
        for first, after in pairwise([*firsts, len(words)])
        for low, high in _cut(shadow, words, first, after)
    ]


def _cut(shadow: str, words: list[tuple[int, int]], first: int, after: int) -> Iterator[tuple[int, int]]:
    """The words ``[first, after)`` whole, or in parts that are not too long, each to the best of its last pauses."""
    while after - first > LONGEST_SENTENCE:
        ends = range(first + LONGEST_SENTENCE // 2, first + LONGEST_SENTENCE + 1)
        cut = max(ends, key=lambda end: (_pause(shadow, words[end - 1], words[end]), end))
        yield first, cut
        first = cut
    yield first, after


def _pause(shadow: str, word: tuple[int, int], following: tuple[int, int]) -> int:
    """How much of a pause there is between two words."""
    between = shadow[word[1] : following[0]]
    if "\n" in between or "\r" in between:
        return len(_PAUSES) + 1
    written = shadow[slice(*word)]
    return next((len(_PAUSES) - rank for rank, pauses in enumerate(_PAUSES) if written in pauses), 0)


def _starts(shadow: str, words: list[tuple[int, int]], index: int, pending: _Ends, spaced: bool, depth: int) -> bool:
    """Whether a word starts a sentence, given the terminator before it and how many brackets are open."""
    if pending == _Ends.NEVER:
        return False
    if pending == _Ends.ALWAYS:
        return _terminates(shadow[words[index][0]]) == _Ends.NEVER
    if not spaced:
        word = shadow[slice(*words[index])]
        return pending == _Ends.BEFORE_START and len(word) > 1 and word[0].isupper() and word.lower() in _OPENERS
    while index < len(words) - 1 and shadow[slice(*words[index])] in _OPENING:
        index += 1
    word = shadow[slice(*words[index])]
    if pending == _Ends.BEFORE_OPENER:
        return word[0].isupper() and word.lower() in _OPENERS
    if word[0].isdigit():
        return depth == 0  # "(Smith. 2010)"
    if _ENUMERATOR.match(shadow, words[index][0]):
        return True
    # Letters without case can start one, and names such as mBERT; so can bullets, emoji and amounts of money.
    if word[0].isalpha():
        return not word.islower()
    return word[0] in "•‣" or unicodedata.category(word[0]) in ("So", "Sc")


def _is_numbering(shadow: str, start: int, end: int) -> bool:
    """Whether a word is the number of a heading or a list item, such as *2* or *3.1*."""
    return end - start <= 6 and shadow[start:end].replace(".", "").isdigit()
