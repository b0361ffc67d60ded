"""Model FLOPs utilisation: 6 x parameters x tokens per second over what the GPUs could do (PaLM, appendix B).

The six are two for the forward and four for the backward pass of each parameter and token; attention is left out, as
there. Of a run that trains adapters only the figure is too high, since most of its parameters have no gradient.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from analyzer.measures.efficiency.figure import Figure, withheld
from analyzer.settings.toml_entry import read_toml

_TABLE = Path(__file__).with_name("peaks.toml")
_FLOP_PER_PARAMETER_AND_TOKEN = 6
# Of a mixture of experts those that a token meets count; nothing is guessed from a model's name.
_PARAMETER_LABELS = ("active_params", "params", "model_params")
_PRECISION_LABELS = ("precision", "dtype")
_SIXTEEN_BITS = frozenset({"bf16", "bfloat16", "fp16", "float16", "half", "bf16-mixed", "16-mixed"})
_COUNT = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*(?:([kmbt])|e(\d{1,2}))?")
_LETTERS = {"k": 3, "m": 6, "b": 9, "t": 12}
_FEWEST, _MOST = 10**5, 10**14  # parameters; what lies beyond is a slip of the pen


@dataclass(frozen=True, slots=True)
class Peak:
    """What GPUs of a SKU do at most: dense 16-bit matrix FLOP/s; of boards with a power limit above `above_watts`."""

    sku: str
    flop_per_second: int
    source: str
    above_watts: int | None = None


@cache
def peaks() -> tuple[Peak, ...]:
    """Return the table of peaks, as it is shipped."""
    known = ("sku", "above_watts", "tflops", "source", "seen")
    rows = read_toml(_TABLE, ("peak",)).entries("peak", known)
    found = []
    for row in rows:
        row.day("seen")
        watts = row.count("above_watts") if row.has("above_watts") else None
        found.append(Peak(row.text("sku"), row.micros("tflops") * 10**6, row.text("source"), watts))
    return tuple(found)


def peak_of(sku: str | None, power_limit_watts: float | None) -> Peak | str:
    """Return the peak of a SKU, or why none is known."""
    if sku is None:
        return "its GPUs are not of one known model"
    peak = next((peak for peak in peaks() if peak.sku == sku), None)
    if peak is None:
        return f"no 16-bit peak of {sku} is in the table"
    if peak.above_watts is not None and (power_limit_watts is None or power_limit_watts <= peak.above_watts):
        seen = "an unknown power limit" if power_limit_watts is None else f"a power limit of {power_limit_watts:g} W"
        return f"boards of {sku} differ, and {seen} does not tell which these are"
    return peak


def parameters(labels: Mapping[str, str]) -> int | str:
    """Return how many parameters a run's labels say that its model has, or why that is not known."""
    for name in _PARAMETER_LABELS:
        if name in labels:
            return (
                parameter_count(labels[name])
                or f"its label {name} says {labels[name][:24]!r}, and not a number such as 7b"
            )
    return "its parameters are not known: label params, such as 7b"


def parameter_count(text: str) -> int | None:
    """Return how many parameters a text says: 7b, 1.3e9, 6738415616; None where it says none, or not so many."""
    match = _COUNT.fullmatch(text.strip().lower().replace("_", "").replace(",", ""))
    if match is None:
        # A plain count of any length: 6738415616.
        plain = text.strip().replace("_", "").replace(",", "")
        number = int(plain) if plain.isdecimal() and len(plain) <= 15 else 0
    else:
        exponent = _LETTERS[match[2]] if match[2] else int(match[3] or 0)
        number = round(float(match[1]) * 10**exponent)
    return number if _FEWEST <= number <= _MOST else None


def mfu(
    labels: Mapping[str, str],
    tokens_per_second: Figure,
    gpus: int,
    sku: str | None,
    power_limit_watts: float | None,
) -> Figure:
    """Return the share of the GPUs' peak that the model's arithmetic took while the run worked; 0 to 1."""
    if tokens_per_second.value is None:
        return tokens_per_second
    count = parameters(labels)
    if isinstance(count, str):
        return withheld(count)
    precision = next((labels[name].lower() for name in _PRECISION_LABELS if name in labels), "bf16")
    if precision not in _SIXTEEN_BITS:
        return withheld(f"peaks are known for 16 bits, and it says {precision[:24]!r}")
    peak = peak_of(sku, power_limit_watts)
    if isinstance(peak, str):
        return withheld(peak)
    share = _FLOP_PER_PARAMETER_AND_TOKEN * count * tokens_per_second.value / (gpus * peak.flop_per_second)
    if share > 1:
        return withheld(f"it would be {share:.0%}: its parameters or its tokens are not what they are called")
    return Figure(share)
