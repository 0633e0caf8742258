"""Text patterns that may be expensive to process, and random changes to them."""

import base64
import random
import uuid
from dataclasses import dataclass
from functools import cache
from itertools import cycle

from cascade_srn.errors import ConfigError, did_you_mean

# Ordinary technical prose: the cost of every other text is compared with this.
_PROSE = (
    "We describe a parser that combines a neural encoder with a small set of hand-written rules.",
    "The encoder is trained on newspaper text, and the rules correct errors that are frequent in other domains.",
    "On the test set the parser reaches an F1 score of 91.4%, which is 0.8 points above the previous system.",
    "Most of the improvement comes from long sentences, where the baseline often attaches modifiers incorrectly.",
    "We also report results for machine translation, although the differences there are not significant.",
    "A second experiment measures how much training data the method needs.",
    "With half of the sentences the accuracy drops by two points (see Table 3), and with a tenth by nine.",
    "Annotation was done by two linguists, who agreed on 87% of the relations before discussion.",
    "In contrast to earlier work, our approach does not require a separate model for each language.",
    "The source code, the trained models and the annotation guidelines are available on request.",
    "Future work will extend the parser to spoken language, where sentence boundaries are uncertain.",
    "Finally, we discuss the limits of the evaluation and suggest a larger benchmark.",
)
# Long enough that tiling a random unit to the largest text does not make it regular.
_RANDOM_UNIT = 4_000
_SEPARATORS = (" ", ". ", ", ", "\n", "\n\n", "-", "/", "'", "(", ") ", "\u00a0", "\u200b", "A ", "")
_ALPHABET = "aA1-.,;:!?'\"()[]{}/\\|@#&=~_ \n\t\u00a0\u0301\u200b\u200d漢👍é"
_LONGEST_UNIT = 2 * _RANDOM_UNIT
_MOST_PARTS = 6
_MOST_REPEATS = 1_000


@dataclass(frozen=True)
class PatternPart:
    """A unit of text and how many times it is repeated before the next part."""

    unit: str
    repeats: int = 1


@dataclass(frozen=True)
class Pattern:
    """A recipe for a text of any length: the parts in turn, over and over."""

    name: str  # Name of a built-in pattern, or how a changed one was made
    parts: tuple[PatternPart, ...]  # The parts, at least one, none of them with an empty unit
    family: str = ""  # Name of the built-in pattern that this one is, or was made from

    def text(self, n_characters: int) -> str:
        """Return the pattern as a text of exactly ``n_characters`` characters.

        >>> Pattern("example", (PatternPart("ab", 2), PatternPart(". "))).text(8)
        'abab. ab'
        """
        chunks: list[str] = []
        missing = n_characters
        for part in cycle(self.parts):
            if missing <= 0:
                break
            # A part with many repeats need not be built beyond what is missing.
            chunk = part.unit * min(part.repeats, missing // len(part.unit) + 1)
            chunks.append(chunk)
            missing -= len(chunk)
        return "".join(chunks)[:n_characters]


@cache
def ordinary() -> Pattern:
    """Return the reference: paragraphs of ordinary prose whose sentences change their order."""
    rng = random.Random(0)
    paragraphs = []
    for _ in range(20):
        paragraphs.append(" ".join(rng.sample(_PROSE, len(_PROSE))) + "\n\n")
    return Pattern("ordinary", (PatternPart("".join(paragraphs)),), "ordinary")


def seed_patterns(names: tuple[str, ...] = ()) -> list[Pattern]:
    """Return the built-in patterns, or those with these names."""
    known = {name: Pattern(name, (PatternPart(unit),), name) for name, unit in _seed_units().items()}
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no text pattern {name!r}", did_you_mean(name, known), option="patterns")
    return [known[name] for name in names] if names else list(known.values())


@cache
def _seed_units() -> dict[str, str]:
    rng = random.Random(1)
    binary = base64.b64encode(rng.randbytes(_RANDOM_UNIT * 3 // 4)).decode()
    uuids = " ".join(str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(_RANDOM_UNIT // 37))
    address = "https://example.org/" + "/".join(f"{rng.getrandbits(64):x}" for _ in range(_RANDOM_UNIT // 17))
    prose = " ".join(_PROSE)
    han = "自然言語処理研究解析器翻訳認識構文意味抽出関係知識学習"
    return {
        "keyword list": "SVM , HMM , ",
        "keyword list, dense": "SVM,HMM,CRF,LSTM,BERT,",
        "entity names": "named entity recognition and machine translation and speech recognition and ",
        "entities with relations": "We use a CRF for named entity recognition. ",
        "entities with relations, no stops": "a CRF for named entity recognition and an HMM for tagging and ",
        "hyphens": "a-",
        "slashes": "a/b/",
        "apostrophes": "n't'",
        "periods in a word": "a.b.",
        "one word": "a",
        "one word, capitals": "ABCDEFGHIJ",
        "one word, random": "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=_RANDOM_UNIT)),
        "long words": "antidisestablishmentarianism ",
        "long address": address,
        "addresses": "http://a.b/c ",
        "base64": binary,
        "UUIDs": uuids + " ",
        "open brackets": "([{",
        "nested brackets": "(" * 50 + "a" + ")" * 50,
        "nested quotes": "\"'“‘" + "a" + "’”'\" ",
        "one sentence": prose.replace(".", "").replace("\n", " ").lower() + " ",
        "one-word sentences": "A. B. C. ",
        "short sentences": "It is. ",
        "abbreviations": "et al. e.g. i.e. Fig. ",
        "digits": "0123456789",
        "numbers": "3.14 -1,000 2e10 ",
        "thousands": "1,000,",
        "CJK": han,
        "CJK with stops": han[:6] + "。",
        "emoji": "👩‍👩‍👧🇩🇪👍🏽",
        "combining characters": "a" + "\u0301\u0308\u0327" * 10,
        "combining characters only": "\u0301",
        "zero-width characters": "a\u200b\u200d",
        "zero-width characters only": "\u200b",
        "unknown characters": "\ue000\U000f0000 ",
        "table": "| 0.91 | 0.87 | SVM | \n",
        "table, tabs": "a\t1\tb\t2\n",
        "LaTeX": r"$\frac{\alpha_{i,j}}{\sum_{k} x^{2}_{k}}$ \cite{smith2010} ",
        "HTML": '<div class="a"><b>x</b>&nbsp;</div>',
        "JSON": '{"a":[1,2,{"b":null}]},',
        "spaces": " " * 99 + "a",
        "whitespace only": " \t",
        "newlines only": "\n",
        "one letter a line": "a\n",
        "one letter a paragraph": "a\n\n",
        "no-break spaces": "a\u00a0",
        "letters": "a b ",
        "commas": ", ",
        "full stops": ". ",
        "ellipses": "... ",
        "right to left": "שלום עולם مرحبا بالعالم ",
        "mixed": "SVM, a-b-c http://x.y/z?q=1 漢字 👍 (a. B) 3.14% [1,2] é\u0301 \u200b\n",
    }


def mutate(pattern: Pattern, other: Pattern, rng: random.Random) -> Pattern:
    """Return a random change of a pattern, which may take parts of another one."""
    change = rng.choice(("combine", "repeat", "separate", "cut out", "double", "replace", "recase"))
    parts = [part for part in _change(change, pattern, other, rng) if part.unit][:_MOST_PARTS] or pattern.parts
    name = f"mutation of {pattern.family}"
    if change == "combine" and other.family != pattern.family:
        name += f" and {other.family}"
    shortened = tuple(PatternPart(part.unit[:_LONGEST_UNIT], part.repeats) for part in parts)
    return Pattern(name, shortened, pattern.family)


def _change(change: str, pattern: Pattern, other: Pattern, rng: random.Random) -> list[PatternPart]:
    parts = list(pattern.parts)
    if change == "combine":
        parts += other.parts
        rng.shuffle(parts)
        return parts
    if change == "separate":
        parts.insert(rng.randrange(len(parts) + 1), PatternPart(rng.choice(_SEPARATORS)))
        return parts
    at = rng.randrange(len(parts))
    unit, repeats = parts[at].unit, parts[at].repeats
    if change == "repeat":
        repeats = min(_MOST_REPEATS, max(1, round(repeats * rng.choice((0.5, 2, 5, 20)))))
        parts[at] = PatternPart(unit, repeats)
        return parts
    low = rng.randrange(len(unit))
    high = rng.randint(low + 1, len(unit))
    if change == "replace":
        high, piece = low + 1, rng.choice(_ALPHABET)
    else:
        piece = {"cut out": "", "double": unit[low:high] * 4, "recase": unit[low:high].swapcase()}[change]
    parts[at] = PatternPart(unit[:low] + piece + unit[high:], repeats)
    return parts
