"""Samples out of Prometheus's text format: those of a few names, from a page that may have thousands of others.

Every line that is not wanted is passed over by its first characters, which makes a page of 2,000 lines cost what its
50 wanted ones do. Source: Prometheus's exposition format 0.0.4, and OpenMetrics where it reads the same.
"""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

SAMPLES_MAX = 20_000
LINE_CHARACTERS_MAX = 8192

_LINE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?[ \t]+(\S+)')
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series."""

    labels: Mapping[str, str]
    value: float


def samples(text: str, wanted: Collection[str]) -> dict[str, list[Sample]]:
    """Return the samples of these names, each name's in order; what cannot be read, and NaN, is left out.

    Pure, and safe on any text: what it keeps and what a line may cost are bounded.
    """
    found: dict[str, list[Sample]] = {}
    starts = tuple(wanted)
    kept = 0
    for line in text.split("\n"):
        if not line.startswith(starts) or len(line) > LINE_CHARACTERS_MAX:
            continue
        match = _LINE.match(line)
        if match is None or match[1] not in wanted or (value := _number(match[3])) is None:
            continue
        found.setdefault(match[1], []).append(Sample(dict(_LABEL.findall(match[2] or "")), value))
        kept += 1
        if kept >= SAMPLES_MAX:
            break
    return found


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value
