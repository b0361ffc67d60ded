"""The colours of the five classes: told apart by every eye, and read as words on every ground."""

import re
from itertools import combinations

import pytest

from analyzer.states import CLASSES
from analyzer.text.templating import TEMPLATES

RATIO = 4.5  # WCAG 2.2, 1.4.3: classes are words too, and letters on cells
APART = 15.0  # CIE 1976 delta E; below 10 two colours are told apart at a second look alone
# Machado, Oliveira and Fernandes 2009, severity 1: linear RGB as people without one kind of cone see it.
EYES = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
Linear = tuple[float, ...]


def _schemes() -> dict[str, dict[str, Linear]]:
    text = (TEMPLATES / "palette.css").read_text("utf-8").partition("@media print")[0]
    light, dark = text.split("@media screen")
    return {"light": _colours(light), "dark": _colours(dark)}


def _colours(css: str) -> dict[str, Linear]:
    return {name: _linear(value) for name, value in re.findall(r"--([\w-]+): #(\w{6});", css)}


def _linear(value: str) -> Linear:
    parts = [int(value[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    return tuple(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)


def _contrast(one: Linear, other: Linear) -> float:
    bright = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (one, other))
    return (bright[1] + 0.05) / (bright[0] + 0.05)


def _lab(colour: Linear) -> Linear:
    r, g, b = colour
    found = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047, 0.2126 * r + 0.7152 * g + 0.0722 * b
    x, y, z = (
        part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116
        for part in (*found, (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _seen(colour: Linear, eyes: str) -> Linear:
    rows = (sum(m * part for m, part in zip(row, colour, strict=True)) for row in EYES[eyes])
    return tuple(min(1.0, max(0.0, part)) for part in rows)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("eyes", EYES)
def test_any_two_classes_look_different(scheme: str, eyes: str) -> None:
    """One man in twelve does not see red as red; waste must not look like overhead to him."""
    colours = _schemes()[scheme]
    for one, other in combinations(CLASSES, 2):
        labs = (_lab(_seen(colours[klass], eyes)) for klass in (one, other))
        apart = sum((a - b) ** 2 for a, b in zip(*labs, strict=True)) ** 0.5
        assert apart >= APART, (one, other)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_class_is_read_as_a_word_and_as_a_ground(scheme: str) -> None:
    """Verdicts and warnings are written in these colours, and letters of cells upon them."""
    colours = _schemes()[scheme]
    for klass in CLASSES:
        for ground in ("paper", "on-class"):
            assert _contrast(colours[klass], colours[ground]) >= RATIO, (klass, ground)
    for word in ("ink", "quiet", "link", "avoidable"):
        assert _contrast(colours[word], colours["card"]) >= RATIO, word


def test_colours_stand_in_one_file() -> None:
    """A second palette would be changed in one of two places."""
    for path in TEMPLATES.glob("*.css"):
        found = re.findall(r"#[0-9a-fA-F]{3,8}\b", path.read_text("utf-8"))
        assert bool(found) == (path.name == "palette.css"), path.name
