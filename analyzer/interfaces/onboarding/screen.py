"""The screen of an import as lines: what was found, what it cost to read, what it can tell, and the sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10

from agent.wire.units import HOUR_MS, MICROS
from analyzer.interfaces.onboarding.prices import PriceCoverage, hint
from analyzer.interfaces.onboarding.signals import ANSWERS, Capability, by_answer
from analyzer.text.layout import TextLayout, at_column
from analyzer.text.words import counted, duration, money, percent

COLUMN = 14
_BAR = 32


@dataclass(frozen=True, slots=True)
class Result:
    """What the ledger says of the span: GPU-milliseconds and millionths of money (None: not all has a price)."""

    label: str  # "4 weeks"
    currency: str
    milliseconds: int
    avoidable_ms: int
    unexplained_ms: int
    cost: int | None
    avoidable: int | None
    unexplained: int | None


def line(layout: TextLayout, label: str, text: str) -> list[str]:
    """Return "label         text", wrapped under the text."""
    return layout.wrap(text, at_column(label, COLUMN), " " * COLUMN)


def prices_line(layout: TextLayout, found: PriceCoverage) -> list[str]:
    """Return how many kinds of GPU have a price, and what to say of those that have none."""
    of = len(found.known) + len(found.unknown)
    text = f"{len(found.known)} of {counted(of, 'GPU type')}"
    if found.unknown:
        named = "; ".join(f"{sku}{hint(sku)}" for sku in found.unknown)
        text += f"; add --price {found.unknown[0].lower()}=DOLLARS: no price of {named}"
    if found.unused:
        text += f"; there is no {' or '.join(found.unused)} here"
    return line(layout, "prices", text)


def reading_line(layout: TextLayout, done: int, days: int, seconds: float | None) -> str:
    """Return the bar of the days that are read."""
    lasted = f"   {_plain_duration(seconds)}" if seconds is not None else ""
    bar = layout.bar(done, max(1, days), _BAR)
    return f"{at_column('reading', COLUMN)}{bar}  {done} of {counted(days, 'day')}{lasted}"


def stored_line(layout: TextLayout, expected: int, found: int) -> list[str]:
    """Return how many samples there should be, and are."""
    return line(layout, "stored", f"{expected:,} samples expected, {found:,} found ({percent(found, expected)})")


def tells(layout: TextLayout, found: Sequence[Capability]) -> list[str]:
    """Return what this source can tell, a paragraph an answer."""
    lines = ["WHAT THIS SOURCE CAN TELL"]
    by = by_answer(list(found))
    for answer in ANSWERS:
        separator = "; " if answer == "some" else ", "
        if by[answer]:
            lines += layout.wrap(separator.join(by[answer]), at_column(f"  {answer}", 8), " " * 8)
    return lines


def sentence(layout: TextLayout, result: Result) -> list[str]:
    """Return the answer in a sentence; amounts that rules made are told to three figures."""
    return layout.wrap(
        f"{result.label}: {_amount(result, result.cost, result.milliseconds, exact=True)}, of which about "
        f"{_amount(result, result.avoidable, result.avoidable_ms)} avoidable and "
        f"{_amount(result, result.unexplained, result.unexplained_ms)} unexplained.",
        "",
    )


def _plain_duration(seconds: float) -> str:
    """Return a span in its two largest units, with seconds from one up."""
    return duration(max(1, round(seconds)))


def _rounded(number: int, figures: int = 3) -> int:
    """Return a number with so many leading figures: 31,913 is 31,900."""
    if number == 0:
        return 0
    step: int = 10 ** max(0, floor(log10(abs(number))) + 1 - figures)
    return (2 * number + step) // (2 * step) * step


def _amount(result: Result, micros: int | None, milliseconds: int, *, exact: bool = False) -> str:
    if result.cost is None or micros is None:
        hours = (2 * milliseconds + HOUR_MS) // (2 * HOUR_MS)
        return f"{hours if exact else _rounded(hours):,} GPU-hours"
    whole = (2 * micros + MICROS) // (2 * MICROS)
    return money((whole if exact else _rounded(whole)) * MICROS, result.currency, 0)
