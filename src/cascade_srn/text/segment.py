"""Split raw text into sentences and words by rules for English, in linear time and without a model.

Words follow the Penn Treebank and corpora such as SciERC. Punctuation, brackets, quotes and the percent sign are words;
*don't* becomes *do n't* and *cannot* becomes *can not*. Hyphenated words, numbers, abbreviations, web addresses and
*and/or* stay whole. A word that is hyphenated at the end of a line is one word. Chinese and Japanese text is split into
single characters. Thai, Khmer and Lao text is split at spaces only. There are no rules for abbreviations and
ordinals of other languages: pass another :data:`Segmenter`.

The rules match a normalized copy of the text, in which one character stands for each kind of similar characters. The
copy has the same length, so that offsets are the same in both.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from enum import IntEnum
from functools import partial
from itertools import pairwise

from cascade_srn.config import require_choice
from cascade_srn.errors import ConfigError
from cascade_srn.text.layout import SKIPPABLE, find_layout
from cascade_srn.text.lines import OPENERS as _OPENERS

Segmenter = Callable[[str], Sequence[Sequence[tuple[int, int]]]]
"""A function from a text to its sentences. A sentence is a list of half-open character offsets of its words."""

# In the normalized text, these stand for all characters of a kind. All match \w.
_MARK, _JOINER, _SOFT_HYPHEN, _HAN = "\u02b9", "\u02ba", "\ua788", "\u4e00"
_REPLACED = {
    "\u2019": "'",  # typographic apostrophe
    "\u2010": "-",
    "\u2011": "-",
    "\u200d": _JOINER,
    "\u00ad": _SOFT_HYPHEN,
    "\x85": "\n",
    "\u2028": "\n",
}
_LINE_BREAKS = "\r\n\u2029"
# Scripts without spaces between words, in which a character is a word.
_HAN_RANGES = (
    *((0x3005, 0x3007), (0x3040, 0x312F), (0x31A0, 0x31BF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF)),
    *((0xF900, 0xFAFF), (0xFF66, 0xFF9F), (0x1B000, 0x1B16F), (0x20000, 0x3FFFF)),
)


class _Normalization(dict[int, str]):
    """Table for ``str.translate``, filled as characters occur."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char in _REPLACED:
            found = _REPLACED[char]
        elif char.isspace():
            found = char if char in _LINE_BREAKS else " "
        elif unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf") or 0x1F3FB <= code <= 0x1F3FF:
            found = _MARK  # combining marks, invisible characters, skin tones of emoji
        elif char.isalnum() and any(low <= code <= high for low, high in _HAN_RANGES):
            found = _HAN
        else:
            found = char
        self[code] = found
        return found


_NORMALIZATION = _Normalization()


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


# Abbreviations, which keep their period, by what may follow. After these, the sentence goes on:
_TITLES = _names("Capt Col Dr Fr Gen Gov Hon Lt Mr Mrs Ms Mt Prof Rep Rev Sen Sgt St")
_BEFORE_MORE = _names("approx avg ca cf e.g eg eq eqn eqns eqs esp et fig figs i.e ie incl viz vs")
# These are abbreviations before a number, else words (no, sec, app) that can end a sentence:
_BEFORE_NUMBERS = _names(
    "alg app apr art aug ch chap cor dec def defn ex feb jan jul jun lem mar no nos nov nr oct p pp prop ref "
    "refs sec secs sect sep sept tab tel thm vol vols"
)
# These end a sentence if the next word is one of _OPENERS, and so does the mark of _MARKED_NAMES:
_ANYWHERE = _names("al b.sc bros co corp dept et.al inc jr ltd m.sc ph.d proc resp sr univ")
_MARKED_NAMES = _names("Airplane! E! Guess? Jeopardy! Joomla! Kahoot! Oklahoma! Panic! Wham! Which? Yahoo! Yum!")

# Quantifiers are possessive and lookarounds are bounded, so that matching takes linear time.
_MARKS = _MARK + _SOFT_HYPHEN
_LETTER = rf"[^\W{_HAN}{_MARKS}{_JOINER}]"
_LETTERS = rf"{_LETTER}[^\W{_HAN}]*+"
# A period before one of these ends a sentence even if the space after it is missing ("this task.However").
_GLUED = "|".join(sorted(name.capitalize() for name in _OPENERS if len(name) > 1))
_WITHIN = rf"""(?: [-/'&@]
  | \.(?! (?<=[^\W_][^\W_]\.) (?:{_GLUED}) (?!\w) )
  | (?<=\d):(?=\d)
  | (?<=\d)(?<!\d\d\d\d),(?=\d\d\d(?!\d)) )"""
# A line break within a word: "sys-\ntem", but not between two numbers, nor in "pre-\nand post-processing".
_LINE_END = r"[ ]*+ (?:\r\n|[\r\n]) [ ]*+"
_HYPHENATION = rf"""(?: (?<!\d)-{_LINE_END} | -{_LINE_END}(?!\d) | (?<={_SOFT_HYPHEN}){_LINE_END} )
  (?! (?:and|or|nor|to) (?![\w-]) )"""
_WORD = re.compile(
    rf"""\s*+(?:
    (?P<url> (?i:(?:https?|ftp)://|www\.) [^\s<>"“”{_HAN}。，、]++ )
  | (?P<run>
      (?: (?<![^\s(\[{{<>=~$,:;/]) [-−] (?=\.?\d) )?+                # a sign, not a hyphen
      (?: (?<![\w.]) \. (?=\d) | (?<!\w) [@#] (?={_LETTER})(?!\d) )?+  # .01, @name, #tag
      (?: C\+\+ | [CF]\#(?!\w) | {_LETTERS} (?: (?: {_WITHIN} | {_HYPHENATION} ) {_LETTERS} )*+ )
    ) (?P<stop> \.(?!\.) )?+
  | ' (?i:s|re|ve|ll|d|m) (?!\w)                                     # a clitic on its own, or after a bracket or quote
  | \.{{2,}}+ | [!?]{{2,}}+ | (?P<rule>[-=*~]) (?P=rule)++ | `` | ''
  | [\U0001F1E6-\U0001F1FF]{{2}}                                     # a flag is a pair of letters
  | {_HAN}[{_MARKS}{_JOINER}]*+
  | [{_MARKS}{_JOINER}]++
  | \S (?: [{_MARKS}] | {_JOINER}[^\w\s]?+ )*+                          # anything else; joined emoji are one word
    )""",
    re.VERBOSE,
)
# Words of plain letters, one space between them: most words. One match for several of them is faster than one for each.
# A colon may belong to a web address, and "cannot" is two words.
_PLAIN = re.compile(r"(?:[ ]?(?!(?i:cannot)\b)[a-zA-Z]++(?=[ ,;)\n]))++")
_CLITIC = re.compile(r"(?i:n't|'(?:s|re|ve|ll|d|m))$")
_ACRONYM = re.compile(r"(?:[^\W\d_]\.)++[^\W\d_]")
_BLANK_LINE = re.compile(r"(?>\r\n|[\r\n])[^\S\r\n]*+[\r\n]|\u2029")
_NUMBERING = re.compile(r"\s*+(?:[\d(\[#§]|[IVXLC]{2,}+(?!\w)|[B-HJ-Z](?!\w))")
_CITATION = re.compile(r"\[[\d\s,;–-]{1,40}+\]")
_ENUMERATOR = re.compile(r"(?:[a-z]|[ivx]{2,5}+)\s?\)")
# A name with a mark that does not end the sentence: "the Foo! service", "Foo!'s".
_MARKED_NAME = re.compile(r"(?<=[\w,]\s)[A-Z]\w{1,30}+[!?](?='s|,\s|\s[a-z])")
_NEXT_WORD = re.compile(r"\s++(\w*+)")
# Abbreviations written with spaces, the first letter in lower case: i. e., e. g., w. r. t.
_LETTER_FOLLOWS = re.compile(r"[^\S\r\n][^\W\d_]\.")
_LETTER_PRECEDES = re.compile(r"(?<![\w.])[a-z]\.[^\S\r\n]\Z")

_TERMINATORS = frozenset(".!?…؟۔।॥‼⁇⁈⁉")
_TERMINATORS_WITHOUT_SPACE = frozenset("。！？｡．")
_CLOSERS = frozenset([")", "]", "}", "”", "»", "''", "」", "』", "）", "】", "》"])
# These close a quotation if no space precedes them, and open one otherwise:
_QUOTES = frozenset(['"', "'"])
_OPENING = frozenset(["(", "[", "{", "“", "«", "‘", "„", "``", "`", '"', "'", "¿", "¡", "「", "『", "（"])


LONGEST_SENTENCE = 200
"""Maximum number of words of a sentence. Longer ones are usually lists, tables or noise, and are cut at a pause."""

# Characters from which a text without capitals is taken as one whose author uses none.
_MIN_LOWER_CASE = 200

# A text whose punctuation was lost: _UNPUNCTUATED words without any of these. It is cut where sentences may start,
# in parts of at most _LONGEST_PART words. A sentence with a mark only at its end has at least twice as many words.
_UNPUNCTUATED, _LONGEST_PART, _SHORTEST_PART = 30, 50, 4
_PUNCTUATION = frozenset('.,;:!?…()[]{}"“”|•·。、，')
# Capitalised words that start a sentence, beside those of _OPENERS and adverbs such as "Secondly":
_MORE_OPENERS = _OPENERS | _names(
    "among conventional current existing experiment i'm i've inspired let's meanwhile more motivated numerical overall "
    "previous prior rather theoretical traditional yet yes"
)
# After these, a clause goes on: "shows that we", "and the".
_BEFORE_CLAUSE = _names(
    "a after although an and as at because before between both but by for from how if in into is of on or over since "
    "so than that the through to under using what when where whether which while who why with without"
)
_SUBJECTS = _names("he i our she these they this we")
_LINKS = _names("additionally finally furthermore hence however moreover nevertheless specifically therefore thus")

# Words after which a long sentence is cut, best first. A line break is better than all of them.
_PAUSES = (frozenset(";:"), frozenset(",)]}"), frozenset(["-", "–", "—", "--", "|", "/"]))


class _Ends(IntEnum):
    """Whether a sentence can end after a word."""

    NEVER = 0
    BEFORE_OPENER = 1  # abbreviation: only if a word of _OPENERS follows
    BEFORE_START = 2  # terminator: if the next word can start a sentence
    ALWAYS = 3  # terminator of a script without spaces


def segment(text: str, *, skip: Collection[str] = ()) -> list[list[tuple[int, int]]]:
    """Split a text into sentences and words.

    Every non-whitespace character is in exactly one word, except for markup: bullets, numbers of list items and
    headings, borders of tables, HTML tags, LaTeX commands and the like. No word contains whitespace, except where
    a line ends within a hyphenated word. Blocks (see :mod:`cascade_srn.text.layout`) and blank lines end a sentence. A
    line break does not, unless the sentence would have more than ``LONGEST_SENTENCE`` words.

    Args:
        text: The text.
        skip: Parts to leave out: "references", "code", "tables".

    Returns:
        The half-open character offsets of the words of each sentence, in the order of the text.

    Example:
        >>> text = "- Dr. Li's parser isn't slow."
        >>> [[text[start:end] for start, end in sentence] for sentence in segment(text)]
        [['Dr.', 'Li', "'s", 'parser', 'is', "n't", 'slow', '.']]
    """
    _check_skip(skip)
    plain = find_layout(text, text.translate(_NORMALIZATION), skip=skip).plain
    words, ends = _find_words(plain)
    return _group_sentences(plain, words, ends)


def make_segmenter(segmenter: Segmenter = segment, skip: Collection[str] = ()) -> Segmenter:
    """Return a segmenter that leaves out the parts ``skip`` of a text. Only :func:`segment` can do so."""
    _check_skip(skip)
    if isinstance(segmenter, partial) and segmenter.func is segment:
        skip = {*skip, *segmenter.keywords.get("skip", ())}
        segmenter = segment
    if not skip:
        return segmenter
    if segmenter is not segment:
        raise ConfigError(
            "this segmenter cannot skip parts of a text", "Use the built-in rules, or skip nothing", option="skip"
        )
    return partial(segment, skip=frozenset(skip))


def _check_skip(skip: Collection[str]) -> None:
    if isinstance(skip, str):
        raise ConfigError(f"skip is {skip!r}", f"Give a list of names, such as [{skip!r}]", option="skip")
    for name in skip:
        require_choice("skip", name, tuple(SKIPPABLE), option="skip")


def find_markup(text: str) -> tuple[tuple[int, int], ...]:
    """Return the half-open offsets of the markup of a text, in ascending order."""
    return find_layout(text, text.translate(_NORMALIZATION)).markup


def segment_words(text: str) -> list[tuple[int, int]]:
    """Split a text into words, without sentences."""
    return _find_words(text.translate(_NORMALIZATION))[0]


def _find_words(normal: str) -> tuple[list[tuple[int, int]], list[_Ends]]:
    """Return the offsets of the words, and whether a sentence can end after each."""
    words: list[tuple[int, int]] = []
    ends: list[_Ends] = []
    at, never, has_apostrophes = 0, _Ends.NEVER, "'" in normal
    while True:
        if match := _PLAIN.match(normal, at):
            start, at = match.span()
            for word in match[0].split(" "):
                # The first one is empty after a space.
                if word:
                    words.append((start, start + len(word)))
                    ends.append(never)
                start += len(word) + 1
        if not (match := _WORD.match(normal, at)):
            return words, ends
        kind, at = match.lastgroup, match.end()
        # The group "stop" follows "run".
        if kind == "run" or kind == "stop":
            start, end = match.span("run")
            kept = _abbreviation_end(normal, start, end) if kind == "stop" else None
            if kept is not None:
                words.append((start, end + 1))
                ends.append(kept)
                continue
            at = end  # The period is the next word.
            cut = _clitic_start(normal, start, end) if has_apostrophes or end - start == len("cannot") else None
            if cut:
                words += (start, cut), (cut, end)
                ends += never, never
            else:
                words.append((start, end))
                ends.append(never)
        elif kind == "url":
            start, at = match.start(kind), _url_end(normal, *match.span(kind))
            words.append((start, at))
            ends.append(never)
        else:
            # The match includes the whitespace before the word.
            word = match[0].lstrip()
            words.append((at - len(word), at))
            ends.append(_terminator(word[0]))


def _url_end(normal: str, start: int, end: int) -> int:
    """Return the end of a web address without the punctuation of the sentence around it."""
    url = normal[start:end]
    around = ".,;:!?…'*" + "".join(close for open, close in ("()", "[]", "{}") if open not in url)
    return start + len(url.rstrip(around))


def _clitic_start(normal: str, start: int, end: int) -> int | None:
    """Return where a contraction or possessive is split, or None."""
    if end - start == len("cannot") and normal[start:end].lower() == "cannot":
        return start + len("can")
    first = max(start + 1, end - len("n't"))
    clitic = _CLITIC.search(normal, first, end) if normal.find("'", first, end) >= 0 else None
    return clitic.start() if clitic else None


def _abbreviation_end(normal: str, start: int, end: int) -> _Ends | None:
    """Return None if the period at ``end`` is a word of its own, else whether a sentence can end after it."""
    word = normal[start:end].replace("/", "-").rpartition("-")[2]
    name = word.lower()
    if word in _TITLES or name in _BEFORE_MORE:
        return _Ends.NEVER
    if name == "etc":
        return _Ends.BEFORE_START if normal[end + 1 : end + 2].isspace() else _Ends.NEVER
    if name in _BEFORE_NUMBERS and _NUMBERING.match(normal, end + 1):
        return _Ends.NEVER
    if name in _ANYWHERE or _ACRONYM.fullmatch(word):
        return _Ends.BEFORE_OPENER
    if len(word) == 1 and word.isupper() and _is_initial(normal, end + 1):
        return _Ends.NEVER
    # A single lower-case letter is usually a variable, and a sentence can end with it.
    if len(word) == 1 and word.islower() and _LETTER_FOLLOWS.match(normal, end + 1):
        return _Ends.NEVER
    if len(word) == 1 and _LETTER_PRECEDES.search(normal, max(0, start - 4), start):
        return _Ends.BEFORE_OPENER
    return None


def _is_initial(normal: str, at: int) -> bool:
    """Return whether a capital letter and a period before ``at`` are an initial (J. Smith; Smith, J., 2010)."""
    if normal[at : at + 1] in (",", ";", ":", "-"):
        return True
    follows = _NEXT_WORD.match(normal, at)
    if not follows or follows.end() == follows.start(1) == len(normal):
        return False
    if _BLANK_LINE.search(normal, at, follows.start(1)):
        return False
    if len(follows[1]) == 1 and follows[1].isupper() and normal[follows.end() : follows.end() + 1] == ".":
        return True  # "Smith, S. A., 2010"
    return follows[1].lower() not in _OPENERS


def _terminator(first: str) -> _Ends:
    if first in _TERMINATORS:
        return _Ends.BEFORE_START
    return _Ends.ALWAYS if first in _TERMINATORS_WITHOUT_SPACE else _Ends.NEVER


def _group_sentences(normal: str, words: list[tuple[int, int]], ends: list[_Ends]) -> list[list[tuple[int, int]]]:
    """Group words into sentences. A terminator stays pending while only closing brackets and quotes follow it."""
    firsts: list[int] = []  # index of the first word of each sentence
    names, no_capitals = _find_marked_names(normal), len(normal) >= _MIN_LOWER_CASE and normal.islower()
    before, depth, pending, cited, never = 0, 0, _Ends.NEVER, 0, _Ends.NEVER
    for index, (start, end) in enumerate(words):
        # Most words only extend a sentence. A blank line has at least two characters, or is a separator of paragraphs.
        is_near = start - before <= 1 and (start == before or normal[before] != "\u2029")
        if is_near and firsts and pending is never and ends[index] is never:
            if end - start == 1:
                depth = _change_depth(depth, normal[start])
            before = end
            continue
        word, spaced = normal[start:end], before < start
        closes = word in _CLOSERS or (word in _QUOTES and not spaced) or start < cited
        if pending and not closes and not spaced and (citation := _CITATION.match(normal, start)):
            closes, cited = True, citation.end()
        blank = spaced and _BLANK_LINE.search(normal, before, start)
        starts = not closes and _starts_sentence(normal, words, index, pending, spaced, depth, no_capitals)
        if not firsts or blank or starts:
            firsts.append(index)
            depth, pending = 0, _Ends.NEVER
        depth = _change_depth(depth, word)
        if ends[index]:
            numbering = index == firsts[-1] + 1 and _is_numbering(normal, *words[index - 1])
            pending = _Ends.NEVER if numbering else ends[index]
            if word in ("!", "?") and not spaced and index and normal[words[index - 1][0] : end] in names:
                pending = _Ends.BEFORE_OPENER
        elif not closes or pending == _Ends.BEFORE_OPENER:
            # The period of "(Smith et al.)" belongs to the abbreviation, whatever follows the bracket.
            pending = _Ends.NEVER
        before = end
    return [
        words[low:high]
        for first, after in pairwise([*firsts, len(words)])
        for low, high in _cut(normal, words, first, after)
    ]


def _change_depth(depth: int, word: str) -> int:
    """Return the number of open brackets after a word."""
    return max(0, depth + (word in ("(", "[")) - (word in (")", "]")))


def _find_marked_names(normal: str) -> Collection[str]:
    """Return names that end with a mark: known ones, and those after which a sentence of this text goes on."""
    return _MARKED_NAMES.union(_MARKED_NAME.findall(normal)) if "!" in normal or "?" in normal else _MARKED_NAMES


def _cut(normal: str, words: list[tuple[int, int]], first: int, after: int) -> Iterator[tuple[int, int]]:
    """Yield the words ``[first, after)`` as one sentence, or cut a long one at the best pauses."""
    parts = [first, after]
    if after - first > _UNPUNCTUATED and _is_unpunctuated(normal, words, first, after):
        parts[1:1] = _find_lost_starts([normal[slice(*word)] for word in words[first:after]], first)
    for first, after in pairwise(parts):
        while after - first > LONGEST_SENTENCE:
            ends = range(first + LONGEST_SENTENCE // 2, first + LONGEST_SENTENCE + 1)
            cut = max(ends, key=lambda end: (_pause(normal, words[end - 1], words[end]), end))
            yield first, cut
            first = cut
        yield first, after


def _is_unpunctuated(normal: str, words: list[tuple[int, int]], first: int, after: int) -> bool:
    """Return whether words are prose without punctuation, except for a mark at the end if they are many."""
    inner = words[first : after - 1 if after - first > 2 * _UNPUNCTUATED else after]
    if any(normal[end - 1] in _PUNCTUATION for _, end in inner):
        return False
    return sum(normal[start].isalpha() and normal[end - 1].isalnum() for start, end in inner) > 0.85 * len(inner)


def _find_lost_starts(names: Sequence[str], first: int) -> Iterator[int]:
    """Yield the numbers of words that start sentences by their capitals, and of those that divide long parts."""
    starts = [0]
    for at in range(_SHORTEST_PART, len(names) - _SHORTEST_PART + 1):
        if at - starts[-1] >= _SHORTEST_PART and _is_capital_start(*names[at - 1 : at + 2]):
            starts.append(at)
    for low, high in pairwise([*starts, len(names)]):
        if low:
            yield first + low
        while high - low > _LONGEST_PART:
            rates = {
                at: _rate_start(names[at - 1], names[at])
                for at in range(low + _LONGEST_PART // 4, low + _LONGEST_PART + 1)
            }
            low = max(rates, key=lambda at: (rates[at], at))
            if not rates[low]:
                break
            yield first + low


def _is_capital_start(before: str, word: str, after: str) -> bool:
    """Return whether a word between two others starts a sentence by its capital."""
    lower = word.lower()
    return (
        word[0].isupper()
        and word[1:] == lower[1:]
        and (lower in _MORE_OPENERS or lower.endswith("ly"))
        and before not in _BEFORE_CLAUSE
        and (len(word) > 1 or (before[0].islower() and after[0].islower() and word == "A"))
    )


def _rate_start(before: str, word: str) -> int:
    """Rate a word as the start of a clause. Higher is better."""
    before, word = before.lower(), word.lower()
    if before in _BEFORE_CLAUSE or not before[-1].isalnum():
        return 0
    return 3 if word in _LINKS else 2 if word in _SUBJECTS else 1 if word in _OPENERS else 0


def _pause(normal: str, word: tuple[int, int], following: tuple[int, int]) -> int:
    """Rate the boundary between two words as a place to cut a sentence. Higher is better."""
    between = normal[word[1] : following[0]]
    if "\n" in between or "\r" in between:
        return len(_PAUSES) + 1
    last = normal[slice(*word)]
    return next((len(_PAUSES) - rank for rank, pauses in enumerate(_PAUSES) if last in pauses), 0)


def _starts_sentence(
    normal: str, words: list[tuple[int, int]], index: int, pending: _Ends, spaced: bool, depth: int, no_capitals: bool
) -> bool:
    """Return whether a word starts a sentence, given the pending terminator and the number of open brackets.

    In a long text without capitals, any word after a terminator does.
    """
    if pending == _Ends.NEVER:
        return False
    if pending == _Ends.ALWAYS:
        return _terminator(normal[words[index][0]]) == _Ends.NEVER
    if not spaced:
        word = normal[slice(*words[index])]
        return pending == _Ends.BEFORE_START and len(word) > 1 and word[0].isupper() and word.lower() in _OPENERS
    while index < len(words) - 1 and normal[slice(*words[index])] in _OPENING:
        index += 1
    word = normal[slice(*words[index])]
    if pending == _Ends.BEFORE_OPENER:
        return word[0].isupper() and word.lower() in _OPENERS
    if word[0].isdigit():
        return depth == 0  # "(Smith. 2010)"
    if _ENUMERATOR.match(normal, words[index][0]):
        return True
    # Caseless letters, names such as mBERT, bullets, emoji and currency signs can start a sentence.
    if word[0].isalpha():
        return no_capitals or not word.islower()
    return word[0] in "•‣" or unicodedata.category(word[0]) in ("So", "Sc")


def _is_numbering(normal: str, start: int, end: int) -> bool:
    """Return whether a word is the number of a heading or a list item, such as *2* or *3.1*."""
    return end - start <= 6 and normal[start:end].replace(".", "").isdigit()
