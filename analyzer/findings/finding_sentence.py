"""A finding in one sentence that a person understands: who, where, why, and what it has cost since when."""

from agent.wire.units import WEEK_US
from analyzer.findings.finding import Finding
from analyzer.period import WEEKDAYS, local
from analyzer.text.words import CENTS_UNDER, day, gpu_hours, money


def finding_sentence(finding: Finding, currency: str, timezone: str) -> str:
    """Return the sentence with its figures: "... 12.3 GPU-hours, $84 since Monday." """
    return f"{finding.sentence} {figures(finding, currency, timezone)}."


def figures(finding: Finding, currency: str, timezone: str) -> str:
    """Return "12.3 GPU-hours, $84 since Monday"; what is longer ago has a date, and what has ended both ends."""
    hours = f"{gpu_hours(finding.milliseconds)} GPU-hours"
    stake = finding.at_stake_micros
    paid = "" if stake is None else f", {money(stake, currency, 2 if stake < CENTS_UNDER else 0)}"
    return f"{hours}{paid} {_since(finding, timezone)}"


def _since(finding: Finding, timezone: str) -> str:
    first, last = local(finding.first_at, timezone), local(finding.last_at - 1, timezone)
    if not finding.still_open:
        return f"on {day(first)}" if first.date() == last.date() else f"from {day(first)} to {day(last)}"
    if finding.last_at - finding.first_at < WEEK_US:
        return f"since {WEEKDAYS[first.weekday()].capitalize()}"
    return f"since {day(first)}"
