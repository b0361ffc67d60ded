"""The screen of an import as lines: what was found, what it cost to read, what its source can tell, the sentence."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import floor, log10
from typing import Literal

from agent.wire.units import HOUR_MS, MICROS
from analyzer.interfaces.onboarding.prices import PriceCoverage, hint
from analyzer.text.layout import TextLayout, at_column
from analyzer.text.words import counted, duration, money, percent

SignalAnswer = Literal["yes", "some", "no"]
ANSWERS: tuple[SignalAnswer, ...] = ("yes", "some", "no")
_Columns = Mapping[str, Set[str]]

_ACTIVITY = {"utilization_ratio", "sm_active_ratio"}
_LIMITS = {"throttle_power_seconds", "throttle_thermal_seconds", "throttle_hardware_seconds"}
_CLOCKS = {"sm_clock_hertz", "sm_clock_reference_hertz"}
# What names the cause of input starvation, in the words of the screen.
_CAUSES: dict[str, tuple[str, str]] = {
    "disk": ("disk_samples", "busy_ratio"),
    "CPU": ("host_samples", "cpu_busy_ratio"),
    "worker": ("process_samples", "workers_busiest_cpu_ratio"),
}


@dataclass(frozen=True, slots=True)
class ImportedSignals:
    """What came: columns of each table, whether runs and how they ended are known, prices, and the time of a scrape."""

    columns: _Columns
    runs: int
    endings: int  # of these, how many are known to have ended in some way
    priced: bool
    scrape_seconds: float | None = None

    def has(self, table: str, *names: str) -> bool:
        """Whether all these columns had values."""
        return set(names) <= set(self.columns.get(table, ()))

    @property
    def sees_checkpoints(self) -> bool:
        """Whether it would show that work was saved."""
        return self.has("disk_samples", "written_bytes") or self.has("progress", "checkpoint")

    def has_any(self, table: str, names: Set[str]) -> bool:
        """Whether one of these columns had values."""
        return bool(names & set(self.columns.get(table, ())))


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing that a ledger tells, and whether this source can tell it; `why` says what is missing."""

    what: str
    answer: SignalAnswer
    why: str = ""

    @property
    def words(self) -> str:
        """The capability as it stands on the screen."""
        return f"{self.what}: {self.why}" if self.why and self.answer == "some" else self.what


def capabilities(told: ImportedSignals) -> list[Capability]:
    """Return everything a ledger tells, in the order of the screen, each with what this source makes of it."""
    held, active = told.runs > 0, told.has_any("gpu_samples", _ACTIVITY)
    found = [
        Capability("allocation", _yes(held)),
        Capability("idle", _yes(held and active)),
        _lost(told, held and active),
        _throttling(told),
        Capability("underuse", _yes(told.has_any("gpu_samples", {"sm_active_ratio", "power_watts"}))),
        Capability("cost by run", _yes(held and told.priced)),
        Capability(
            "energy", _yes(told.has_any("gpu_samples", {"energy_joules", "energy_joules_total", "power_watts"}))
        ),
        _input(told, held and active),
        Capability("cross-rack", _yes(told.has("inventory", "rack") and told.has("network_samples", "transmit_bytes"))),
        Capability("checkpoint cost", _yes(told.sees_checkpoints)),
    ]
    return [*found, *_stalls(told)]


def by_answer(found: list[Capability]) -> dict[SignalAnswer, list[str]]:
    """Return the capabilities' words by answer, in order."""
    return {answer: [one.words for one in found if one.answer == answer] for answer in ANSWERS}


def explains_input(told: ImportedSignals) -> bool:
    """Whether everything came that names the cause of input starvation."""
    return all(told.has(*column) for column in _CAUSES.values())


def _yes(is_told: bool) -> SignalAnswer:
    return "yes" if is_told else "no"


def _lost(told: ImportedSignals, seen: bool) -> Capability:
    """What was saved is lost to nobody: without a sight of checkpoints nobody knows what a run that failed lost."""
    return Capability("lost work", _yes(seen and told.endings > 0 and told.sees_checkpoints))


def _throttling(told: ImportedSignals) -> Capability:
    """Clocks say how much is lost, and the driver's counters by what; the ledger needs both."""
    if told.has("gpu_samples", *_CLOCKS) and told.has_any("gpu_samples", _LIMITS):
        return Capability("throttling by heat or power", "yes")
    return Capability("throttling by heat or power", "no")


def _input(told: ImportedSignals, seen: bool) -> Capability:
    missing = [name for name, column in _CAUSES.items() if not told.has(*column)]
    if not seen:
        return Capability("input starvation", "no")
    if not missing:
        return Capability("input starvation", "yes")
    listed = missing[0] if len(missing) == 1 else f"{', '.join(missing[:-1])} or {missing[-1]}"
    seen_why = "seen, but not why" if len(missing) == len(_CAUSES) else "seen, and why only in part"
    return Capability("input starvation", "some", f"{seen_why} (no {listed} figures)")


def _stalls(told: ImportedSignals) -> list[Capability]:
    """A reading every half minute shows no pause that is shorter, unless the driver's own samples came with it."""
    if told.scrape_seconds is None or told.scrape_seconds <= 1 or told.has("gpu_samples", "utilization_zero_ratio"):
        return []
    return [Capability(f"stalls under {told.scrape_seconds:g} s", "no")]


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
    lasted = f"   {duration(max(1, round(seconds)))}" if seconds is not None else ""
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
