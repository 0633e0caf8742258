"""A colour for each label: eight that colour-blind readers can tell apart, then the same with a pattern.

The eight are those of Okabe and Ito (with a grey for black), in an order that keeps neighbours far apart. A label's
colour follows from its place in the schema, so that a corpus looks the same in every drawing. Each colour has
shades chosen so that text and lines can be made out in both themes:

* ``fill``: the bar under an entity, with ``ink`` for the label on it (contrast at least 4.5 : 1);
* ``tint``: behind the entity's words, which are written in the theme's own text colour (4.5 : 1);
* ``line``: a relation's arc on the background (3 : 1), with ``word`` for its label (4.5 : 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SEEDS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#0072b2", "#d55e00", "#f0e442", "#616a73")
PATTERNS = ("solid", "dashed", "dotted")


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of a page: its background, its text, its quieter text."""

    name: str
    background: str
    text: str
    quiet: str
    rule: str


LIGHT = Theme("light", "#ffffff", "#1b1f24", "#57606a", "#d0d7de")
DARK = Theme("dark", "#14181d", "#e6e9ed", "#a3adb8", "#3b444e")
THEMES = (LIGHT, DARK)

# How much of the background a tint holds, and the contrasts that text and lines must reach.
TINT, LEGIBLE, VISIBLE = 0.8, 4.5, 3.0


@dataclass(frozen=True, slots=True)
class Shades:
    """One colour as it is used in one theme."""

    fill: str
    ink: str
    tint: str
    line: str
    word: str

    def css(self) -> str:
        """As custom properties."""
        return f"--fill:{self.fill};--ink:{self.ink};--tint:{self.tint};--line:{self.line};--word:{self.word}"


def shades(seed: str, theme: Theme) -> Shades:
    """The shades of a colour in a theme."""
    ink = max(("#000000", "#ffffff"), key=lambda colour: contrast(colour, seed))
    tint = mix(seed, theme.background, TINT)
    return Shades(seed, ink, tint, _standing_out(seed, theme, VISIBLE), _standing_out(seed, theme, LEGIBLE))


def _standing_out(seed: str, theme: Theme, ratio: float) -> str:
    """The colour, moved towards the theme's text colour as far as it takes to stand out from the background."""
    for step in range(20):
        moved = mix(seed, theme.text, step / 20)
        if contrast(moved, theme.background) >= ratio:
            return moved
    return theme.text


def mix(one: str, other: str, share: float) -> str:
    """A colour between two; ``share`` is how much of it is the other."""
    parts = (round((1 - share) * int(one[at : at + 2], 16) + share * int(other[at : at + 2], 16)) for at in (1, 3, 5))
    return "#" + "".join(f"{part:02x}" for part in parts)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours as the Web Content Accessibility Guidelines define it, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance, from 0 to 1."""
    parts = []
    for at in (1, 3, 5):
        value = int(colour[at : at + 2], 16) / 255
        parts.append(value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4)
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def colour_class(label: str, labels: Sequence[str]) -> str:
    """The CSS classes that give a label its colour: the colour's number, and a pattern from the ninth label on.

    A label that is not among the labels is drawn in the last colour, grey.
    """
    place = labels.index(label) if label in labels else len(SEEDS) - 1
    pattern = PATTERNS[place // len(SEEDS) % len(PATTERNS)]
    number = f"c{place % len(SEEDS)}"
    return number if pattern == "solid" else f"{number} {pattern}"


def colour_rules() -> str:
    """The style sheet's part that defines themes and colours; dark where the reader's system asks for it."""
    light, dark = (_theme_rules(theme) for theme in THEMES)
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}@media print{{{light}}}"


def _theme_rules(theme: Theme) -> str:
    rules = [
        f".drawing{{--background:{theme.background};--text:{theme.text};--quiet:{theme.quiet};--rule:{theme.rule}}}"
    ]
    rules += [f".drawing .c{number}{{{shades(seed, theme).css()}}}" for number, seed in enumerate(SEEDS)]
    return "".join(rules)
