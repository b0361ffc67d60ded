"""What changed since the period before: the states that moved most, and the findings that came, grew and went."""

from dataclasses import dataclass

from agent.wire.units import HOUR_MS, MICROS
from analyzer.findings.finding import Finding
from analyzer.queries.ledger_query import Breakdown, BreakdownEntry
from analyzer.reports.finding_list import FindingsReport, Trend, trend
from analyzer.reports.week import WeekReport
from analyzer.states import CLASSES, Class
from analyzer.text.rounding import nearest
from analyzer.text.words import decimal, signed

_STATES_SHOWN = 6
_FINDINGS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class StateChange:
    """One state: what it was, what it is, and the difference, as people read them."""

    klass: Class
    label: str
    before: str
    now: str
    difference: str


@dataclass(frozen=True, slots=True)
class Changes:
    """States that moved most, and findings that are new or grew, largest first. `unit` is "$" or "GPU-hours"."""

    unit: str
    states: tuple[StateChange, ...]
    trend: Trend | None
    came: tuple[tuple[Finding, str], ...]


def changes(report: WeekReport, previous: Breakdown, found: FindingsReport) -> Changes:
    """Return the changes since the period before, of which `previous` is the breakdown."""
    is_money = report.breakdown.priced and previous.priced
    before, now = _amounts(previous, is_money), _amounts(report.breakdown, is_money)
    keys = sorted(before.keys() | now.keys(), key=lambda key: (-abs(now.get(key, 0) - before.get(key, 0)), key))
    shown = [key for key in keys if now.get(key, 0) != before.get(key, 0)][:_STATES_SHOWN]
    shown.sort(key=lambda key: CLASSES.index(key[0]))
    followed = [(finding, found.follow(finding.id)) for finding in found.findings]
    came = [(finding, one.moved) for finding, one in followed if one and one.moved in ("new", "growing")]
    return Changes(
        "money" if is_money else "GPU-hours",
        tuple(_moved(key, before.get(key, 0), now.get(key, 0), is_money) for key in shown),
        trend(found),
        tuple((finding, str(moved)) for finding, moved in came[:_FINDINGS_SHOWN]),
    )


def _amounts(breakdown: Breakdown, is_money: bool) -> dict[tuple[Class, str], int]:
    def amount(entry: BreakdownEntry) -> int:
        return (entry.cost_micros or 0) if is_money else entry.milliseconds

    return {(entry.klass, entry.label): amount(entry) for entry in breakdown.entries}


def _moved(key: tuple[Class, str], before: int, now: int, is_money: bool) -> StateChange:
    """Round both figures and tell the difference of what is printed, so that the row adds up."""
    unit = MICROS if is_money else HOUR_MS
    then, here = nearest(before, unit), nearest(now, unit)
    return StateChange(*key, decimal(then, 0), decimal(here, 0), signed(here - then, 0))
