"""Colours of labels in the light and the dark theme, and the appearance of annotations.

The eight colours are those of Okabe and Ito, which colour-blind readers can distinguish, with grey instead of black and
in an order that keeps neighbours far apart. From the ninth label on, they repeat with a dashed or dotted pattern. The
position of a label in the schema decides its colour, so a corpus looks the same in every drawing.

Each colour has five shades per theme:

* ``fill``: the bar under an entity, with ``ink`` for the label on it (contrast at least 4.5 : 1)
* ``tint``: the background of the entity's words, which have the text colour of the theme (4.5 : 1)
* ``line``: the arc of a relation on the background (3 : 1), with ``word`` for its label (4.5 : 1)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cascade_srn.schema import Schema
from cascade_srn.types import Sentence, Span, Triple

SEEDS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#0072b2", "#d55e00", "#f0e442", "#616a73")
PATTERNS = ("solid", "dashed", "dotted")


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of the background, the text, secondary text and rules."""

    name: str
    background: str
    text: str
    quiet: str
    rule: str


LIGHT = Theme("light", "#ffffff", "#1b1f24", "#57606a", "#d0d7de")
DARK = Theme("dark", "#14181d", "#e6e9ed", "#a3adb8", "#3b444e")
THEMES = (LIGHT, DARK)

TINT_BACKGROUND_SHARE = 0.8
MIN_TEXT_CONTRAST, MIN_LINE_CONTRAST = 4.5, 3.0


@dataclass(frozen=True, slots=True)
class Shades:
    """The shades of one colour in one theme."""

    fill: str
    ink: str
    tint: str
    line: str
    word: str

    def css(self) -> str:
        """Return the shades as CSS custom properties."""
        return f"--fill:{self.fill};--ink:{self.ink};--tint:{self.tint};--line:{self.line};--word:{self.word}"


def make_shades(seed: str, theme: Theme) -> Shades:
    """Return the shades of a colour in a theme."""
    return Shades(
        fill=seed,
        ink=max(("#000000", "#ffffff"), key=lambda colour: contrast_ratio(colour, seed)),
        tint=mix(seed, theme.background, TINT_BACKGROUND_SHARE),
        line=_raise_contrast(seed, theme, MIN_LINE_CONTRAST),
        word=_raise_contrast(seed, theme, MIN_TEXT_CONTRAST),
    )


def _raise_contrast(seed: str, theme: Theme, min_contrast: float) -> str:
    """Mix a colour with the text colour until it has enough contrast to the background."""
    for step in range(20):
        mixed = mix(seed, theme.text, step / 20)
        if contrast_ratio(mixed, theme.background) >= min_contrast:
            return mixed
    return theme.text


def mix(first: str, second: str, share: float) -> str:
    """Mix two colours. ``share`` is the share of the second one."""
    parts = (round((1 - share) * int(first[i : i + 2], 16) + share * int(second[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{part:02x}" for part in parts)


def contrast_ratio(first: str, second: str) -> float:
    """Return the contrast ratio of the Web Content Accessibility Guidelines, from 1 to 21."""
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    values = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def colour_class(label: str, labels: Sequence[str]) -> str:
    """Return the CSS classes of a label: the number of its colour, and a pattern from the ninth label on.

    An unknown label has the last colour, grey.
    """
    position = labels.index(label) if label in labels else len(SEEDS) - 1
    pattern = PATTERNS[position // len(SEEDS) % len(PATTERNS)]
    number = f"c{position % len(SEEDS)}"
    return number if pattern == "solid" else f"{number} {pattern}"


@dataclass(frozen=True, slots=True)
class Mark:
    """The appearance of one entity or relation: CSS classes, a tag after its label, and a note on hover."""

    css: str
    tag: str = ""
    note: str = ""


Marks = Mapping[Span | Triple, Mark]


@dataclass(frozen=True, slots=True)
class LabelColours:
    """Entity types and relation types in the order of their colours, and the symmetric relations."""

    entity_types: tuple[str, ...] = ()
    relation_types: tuple[str, ...] = ()
    symmetric: frozenset[str] = field(default=frozenset())

    @classmethod
    def collect(cls, schema: Schema | None, sentences: Iterable[Sentence]) -> LabelColours:
        """Return the labels of the schema, then all other labels of the sentences in alphabetical order."""
        sentences = list(sentences)
        known = cls() if schema is None else cls(schema.entity_types, schema.relation_types, schema.symmetric)
        entities = {entity.label for sentence in sentences for entity in sentence.entities}
        relations = {triple.label for sentence in sentences for triple in sentence.triples}
        return cls(
            known.entity_types + tuple(sorted(entities - set(known.entity_types))),
            known.relation_types + tuple(sorted(relations - set(known.relation_types))),
            known.symmetric,
        )

    def make_marks(self, sentence: Sentence) -> dict[Span | Triple, Mark]:
        """Return a mark with the colour of its label for each entity and relation."""
        marks: dict[Span | Triple, Mark] = {}
        for entity in sentence.entities:
            marks[entity] = Mark(colour_class(entity.label, self.entity_types))
        for triple in sentence.triples:
            marks[triple] = Mark(colour_class(triple.label, self.relation_types))
        return marks


def colour_rules() -> str:
    """Return the CSS rules of both themes. The dark one follows the system setting; print is always light."""
    light, dark = (_theme_rules(theme) for theme in THEMES)
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}@media print{{{light}}}"


def _theme_rules(theme: Theme) -> str:
    rules = [
        f".drawing{{--background:{theme.background};--text:{theme.text};--quiet:{theme.quiet};--rule:{theme.rule}}}"
    ]
    rules += [f".drawing .c{number}{{{make_shades(seed, theme).css()}}}" for number, seed in enumerate(SEEDS)]
    return "".join(rules)
