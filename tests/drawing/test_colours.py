"""Colours: contrast in both themes, and distance for colour-blind readers."""

from itertools import combinations

import pytest

from cascade_srn.drawing.colours import SEEDS, THEMES, colour_class, colour_rules, contrast_ratio, make_shades, mix

# Linear sRGB without the cones for red or green (Machado, Oliveira and Fernandes, 2009).
BLINDNESS = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}


def linear(colour):
    values = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]


def lab(rgb):
    x, y, z = (
        sum(weight * value for weight, value in zip(row, rgb, strict=True))
        for row in ((0.4339, 0.3762, 0.1899), (0.2126, 0.7152, 0.0722), (0.0177, 0.1095, 0.8727))
    )
    f = [value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in (x, y, z)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def perceive(colour, blindness):
    rgb = linear(colour)
    return lab([min(1, max(0, sum(m * v for m, v in zip(row, rgb, strict=True)))) for row in BLINDNESS[blindness]])


@pytest.mark.parametrize("blindness", BLINDNESS)
def test_bars_are_distinguishable(blindness):
    for one, other in combinations(SEEDS, 2):
        distance = (
            sum((a - b) ** 2 for a, b in zip(perceive(one, blindness), perceive(other, blindness), strict=True)) ** 0.5
        )
        assert distance > 11, f"{one} and {other} look alike"


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize("seed", SEEDS)
def test_contrast_of_text_and_lines(seed, theme):
    shade = make_shades(seed, theme)
    assert contrast_ratio(shade.ink, shade.fill) >= 4.5
    assert contrast_ratio(theme.text, shade.tint) >= 4.5
    assert contrast_ratio(shade.word, theme.background) >= 4.5
    assert contrast_ratio(shade.line, theme.background) >= 3


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_contrast_of_page_text(theme):
    assert contrast_ratio(theme.text, theme.background) >= 7
    assert contrast_ratio(theme.quiet, theme.background) >= 4.5


def test_contrast_ratio_of_known_colours():
    assert contrast_ratio("#000000", "#ffffff") == pytest.approx(21)
    assert contrast_ratio("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert mix("#000000", "#ffffff", 0.5) == "#808080"


def test_colour_follows_the_position_of_the_label():
    labels = [f"label {number}" for number in range(30)]
    classes = [colour_class(label, labels) for label in labels]
    assert classes[:9] == ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c0 dashed"]
    assert len(set(classes[:24])) == 24
    assert classes[16] == "c0 dotted"
    assert classes[24] == "c0"
    assert colour_class("unheard of", labels) == "c7"


def test_every_colour_has_a_rule_in_both_themes_and_in_print():
    rules = colour_rules()
    for number in range(len(SEEDS)):
        assert rules.count(f".drawing .c{number}{{") == 3
    assert "@media (prefers-color-scheme:dark){" in rules
    assert rules.count("{") == rules.count("}")
