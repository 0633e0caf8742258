"""Texts that no one would write, but someone will paste: of many kinds, any number of them, the same for a seed."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

# How long the longest texts are, in characters, and one in how many is of such a kind.
LONGEST, RARE = 100_000, 1000

_SENTENCES = (
    "We train a conditional random field for named entity recognition (NER), cf. Smith et al. (2010).",
    "On WSJ section 23 it reaches 93.4% F1, i.e. 0.5 points more than the state-of-the-art parser [3,4].",
    "Dr. Li's approach doesn't use hand-crafted features; it uses pre-trained word embeddings, e.g. word2vec.",
    "Results on the WMT'14 English-German task are given in Fig. 3 and Tab. 2 (see also http://example.org/a?b=c#d).",
    "Is speech recognition harder than machine translation? Not w.r.t. BLEU!",
)
_ALPHABETS = {
    "letters": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ  ",
    "marks": "aeo\u0301\u0308\u0327\u20dd\u0e4a\u200d\ufe0f \u0300",
    "emoji": "👍🏽👩‍👩‍👧🇩🇪🇫🇷😀❤️\u200d🔥 ⚕️🏳️‍🌈",
    "right to left": "שלום עולם مرحبا بالعالم \u202e\u202d\u2066\u2069\u200f,.(12)",
    "cjk": "我们训练一个模型。自然言語処理、한국어 ！？「」（）",
    "indic": "नमस्ते दुनिया। ভাষা தமிழ் ภาษาไทย ",
    "whitespace": " \t\n\r\x0b\x0c\x1c\x85\u00a0\u1680\u2003\u2028\u2029\u3000a",
    "control": "\x00\x01\x07\x08\x1b[31m\x7f\ufeff\ufffe\uffff\u200b a",
    "punctuation": "..,,;:!?''\"\"``()[]{}<>-–—/\\&@#%$*=~_+|^ …“”‘’«»",
    "markup": "<script>alert(1)</script>&amp;&#x0;</style><!--]]>{{x}}{%y%}${z}\"' onload=",
    "digits": "0123456789.,:;-+eE%$/ ()",
    "brackets": "([{)]} ",
}


class FuzzText(NamedTuple):
    """A text, and the kind it is of."""

    kind: str
    text: str


def fuzz_texts(n_texts: int, *, seed: int = 0) -> Iterator[FuzzText]:
    """That many texts, of all kinds in turn; one text in :data:`RARE` or so is very long."""
    generator = random.Random(seed)
    kinds = list(_KINDS.items())
    for number in range(n_texts):
        if number % RARE == RARE - 1:
            name = sorted(_LONG)[number // RARE % len(_LONG)]
            yield FuzzText(name, _LONG[name](generator))
        else:
            name, make = kinds[number % len(kinds)]
            yield FuzzText(name, make(generator))


def _length(generator: random.Random) -> int:
    """Mostly short, sometimes long, now and then nothing at all."""
    return min(2000, int(generator.expovariate(1 / 60)))


def _from(alphabet: str) -> Callable[[random.Random], str]:
    return lambda generator: "".join(generator.choices(alphabet, k=_length(generator)))


def _unicode(generator: random.Random) -> str:
    """Characters from everywhere, assigned or not."""
    points = (generator.randrange(sys.maxunicode + 1) for _ in range(_length(generator)))
    return "".join(chr(point) for point in points if not 0xD800 <= point <= 0xDFFF)


def _blocks(generator: random.Random) -> str:
    """Runs of neighbouring characters, as real scripts give them."""
    runs = []
    for _ in range(1 + _length(generator) // 10):
        block = generator.randrange(0x20, 0x3100)
        runs.append(
            "".join(chr(min(0xD7FF, block + generator.randrange(40))) for _ in range(generator.randrange(1, 9)))
        )
    return " ".join(runs)


def _sentences(generator: random.Random) -> str:
    count = generator.randrange(1, 6)
    parted = generator.choice((" ", "\n", "\r\n\r\n", "\t", "", "\u00a0"))
    return parted.join(generator.choices(_SENTENCES, k=count))


def _mutated(generator: random.Random) -> str:
    """Sentences with characters left out, doubled, exchanged and put in."""
    chars = list(_sentences(generator))
    for _ in range(generator.randrange(1, 12)):
        at = generator.randrange(len(chars))
        strange = generator.choice(_ALPHABETS[generator.choice(sorted(_ALPHABETS))])
        chars[at] = generator.choice(("", chars[at] * 2, strange, chars[at] + strange))
    return "".join(chars)


def _mixed(generator: random.Random) -> str:
    """Pieces of all alphabets next to each other."""
    return "".join(
        "".join(generator.choices(_ALPHABETS[generator.choice(sorted(_ALPHABETS))], k=generator.randrange(1, 8)))
        for _ in range(1 + _length(generator) // 8)
    )


def _repeated(generator: random.Random) -> str:
    unit = generator.choice(
        ("a", ".", "-", "((", "a.", "1,", "'", "\u0301", "👍", "the ", ". A ", "\n\n", "http://", "字")
    )
    return unit * generator.randrange(1, 300)


def _long_word(generator: random.Random) -> str:
    return generator.choice("aé字-") * LONGEST


def _long_sentence(generator: random.Random) -> str:
    """Words without end and without a full stop."""
    words = ("model", "uses", "a", "CRF", "for", "parsing", "and", "state-of-the-art", "(", ")", ",")
    return " ".join(generator.choices(words, k=LONGEST // 50))


def _long_document(generator: random.Random) -> str:
    return "\n".join(generator.choices(_SENTENCES, k=LONGEST // 1000))


_KINDS: dict[str, Callable[[random.Random], str]] = {
    **{name: _from(alphabet) for name, alphabet in _ALPHABETS.items()},
    "any characters": _unicode,
    "blocks": _blocks,
    "sentences": _sentences,
    "mutated sentences": _mutated,
    "mixed": _mixed,
    "repeated": _repeated,
}
_LONG: dict[str, Callable[[random.Random], str]] = {
    "long document": _long_document,
    "long sentence": _long_sentence,
    "long word": _long_word,
}
