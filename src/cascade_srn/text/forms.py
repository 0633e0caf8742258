"""The form of each word that a model reads.

Texts, words and offsets never change: only the tokenizer of the encoder reads forms. The natural form of a word has
plain quotes, hyphens and spaces, no invisible characters, and no line break inside. Corpora from the Penn Treebank
escape brackets and quotes instead (``-LRB-``). Readers of formats with tokens use :func:`unescape`, and models
that were trained on escapes use the text form ``escaped``.
"""

import re
import unicodedata
from collections.abc import Sequence

_ESCAPES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
_ESCAPED_QUOTES = {"``": '"', "''": '"'}
_ESCAPED = re.compile(r"-[LR][RSC]B-|-[lr][rsc]b-|\\[/*]")
_UNESCAPED = {escape: char for char, escape in _ESCAPES.items()} | {r"\/": "/", r"\*": "*"}
# Words that are opening or closing quotes by themselves. A plain quote is one or the other by its position.
_OPENING, _CLOSING = frozenset(["``", "“", "„", "«"]), frozenset(["''", "”", "»"])

_REPLACED = (
    dict.fromkeys("‘’‚‛‹›", "'")
    | dict.fromkeys("“”„‟«»", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-")  # hyphens, figure dash, en dash, minus
    | dict.fromkeys("\u2014\u2015", "--")  # em dash, horizontal bar
    | {"…": "..."}
    # Soft hyphen, zero-width spaces, marks and overrides of the direction, invisible operators.
    | dict.fromkeys("\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\ufeff", "")
    | dict.fromkeys(map(chr, (*range(0x202A, 0x202F), *range(0x2060, 0x2070))), "")
)
# Latin ligatures, full-width ASCII, and letters and digits of mathematics.
_COMPATIBLE = ((0xFB00, 0xFB06), (0xFF01, 0xFF5E), (0x1D400, 0x1D7FF))
_JOINERS = str.maketrans("", "", "\u200c\u200d")

# A hyphen at the end of a line. Hyphens that are not soft may belong to the word.
_HYPHENATION = re.compile(r"([-\u2010\u2011\u00ad])[^\S\r\n\x85\u2028]*+[\r\n\x85\u2028]\s*+")
# Words with such hyphens.
_HYPHENATED = re.compile(r"\S++(?:(?<=[-\u2010\u2011\u00ad])[^\S\r\n\x85\u2028]*+[\r\n\x85\u2028]\s*+\S++)++")


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


_HYPHENS = re.compile(r"[-/\u2010\u2011]")
# Parts that usually keep their hyphen in English text, if a line ends after them or starts with them.
_KEPT_AT_END = _names(
    "aspect attention best black closed coarse code continuous cross decision document domain encoder "
    "end feature few fine finite first fixed full fully gradient graph high higher human image information "
    "instance intra k knowledge language large learning long low lower machine meta multi n near network non "
    "one open post pseudo question real resource rule sample second self semi sentence sequence single state "
    "step target task three time token trade transformer tree two user well widely word worst zero"
)
_KEPT_AT_START = _names(
    "adaptive agent agnostic annotated answering armed art attention augmented autoregressive aware based box "
    "called case centric class consuming context convex crafted decoder defined dependent dimensional "
    "distribution document domain driven efficient end free generated grained guided head hop image independent "
    "invariant known label language layer learning length level like likelihood linear making mixed modal "
    "objective of off optimal order oriented parametric performing preserving processing purpose quality range "
    "rank related resolution resource resourced rich sample scale score sensitive sentence sequence shelf shot "
    "size specific speech stage step structured studied supervised task tasks temporal term the theoretic time to "
    "trained training translation trivial truth tuned tuning turn type valued view vocabulary wise word world"
)
# Parts that keep it in the middle of a compound.
_KEPT_INSIDE = _names("a and as at by for in of on or the to")


class _Characters(dict[int, str]):
    """Table for ``str.translate``, filled as characters occur."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char in _REPLACED:
            found = _REPLACED[char]
        elif char.isspace():
            found = " "
        elif any(low <= code <= high for low, high in _COMPATIBLE):
            found = unicodedata.normalize("NFKC", char)
        else:
            found = char
        self[code] = found
        return found


_CHARACTERS = _Characters()


def model_form(word: str) -> str:
    r"""Return the natural form of a word. It is empty for a word of invisible characters only.

    Example:
        >>> [model_form(word) for word in ("of\ufb01ce", "\u201c", "Li\u2019s", "sys-\ntem", "BERT-\nbase")]
        ['office', '"', "Li's", 'system', 'BERT-base']
    """
    if word.isascii() and word.isprintable():
        return _ESCAPED_QUOTES.get(word, word)
    form = _join_lines(word).translate(_CHARACTERS)
    # Joiners distinguish words of some scripts, and are noise in others.
    bare = form.translate(_JOINERS)
    return bare if bare.isascii() else unicodedata.normalize("NFC", form)


def join_hyphenated(text: str) -> str:
    r"""Join the words of a text that are hyphenated at the end of lines. Other line breaks stay.

    Example:
        >>> join_hyphenated("GPU optimiza-\ntions of\nBERT-\nbase")
        'GPU optimizations of\nBERT-base'
    """
    if text.isprintable():
        return text
    return _HYPHENATED.sub(lambda match: _join_lines(match[0]), text)


def _join_lines(word: str) -> str:
    """Join the parts of a word that is hyphenated at the end of lines, with or without the hyphens."""
    before, *rest = _HYPHENATION.split(word)
    joined, is_kept = [before], False
    for hyphen, after in zip(rest[::2], rest[1::2], strict=True):
        is_kept = hyphen != "\u00ad" and not _is_dropped(before, after, is_inside=is_kept)
        joined += ["-", after] if is_kept else [after]
        before = after
    return "".join(joined)


def _is_dropped(before: str, after: str, *, is_inside: bool) -> bool:
    """Return whether a hyphen between two parts of a word is there for the end of the line only."""
    *others, first = _HYPHENS.split(before)
    second = _HYPHENS.split(after)[0]
    if not (first[-1:].isalpha() and second[:1].islower()):
        return False  # COVID-19, F1-score, non-English
    if any(char.isdigit() for char in first) or any(char.isupper() for char in first[1:]):
        return False  # BERT-base, but Sys-tem
    if (others or is_inside) and first in _KEPT_INSIDE:
        return False  # state-of-the-art, but cross-lin-gual
    return not (first.lower() in _KEPT_AT_END or second in _KEPT_AT_START)


def model_words(words: Sequence[str], text_form: str) -> Sequence[str]:
    """Return the forms of the words of a sentence that a model reads.

    ``text_form`` is ``natural``; ``escaped``, which writes brackets and double quotes as the Penn Treebank does; or
    ``verbatim``, which changes nothing.
    """
    if text_form == "verbatim":
        return words
    if text_form == "natural":
        return [model_form(word) for word in words]
    forms, is_open = [], False
    for word in words:
        form = model_form(word)
        if form == '"':
            is_open = word in _OPENING or (word not in _CLOSING and not is_open)
            form = "``" if is_open else "''"
        forms.append(_ESCAPES.get(form, form))
    return forms


def unescape(word: str) -> str:
    r"""Replace the escapes of the Penn Treebank in a token.

    Brackets, ``\/`` and ``\*`` are replaced anywhere in a token, and ````` and ``''`` if they are the whole token.

    Example:
        >>> [unescape(word) for word in ("-LRB-", "``", "and\\/or", "''", "-rrb-")]
        ['(', '"', 'and/or', '"', ')']
    """
    return _ESCAPED_QUOTES.get(word) or _ESCAPED.sub(lambda found: _UNESCAPED[found[0].upper()], word)
