"""The week as two tables for a spreadsheet: its teams and its findings, exact, no cell a formula."""

import csv
from collections.abc import Iterable, Sequence
from io import StringIO

from analyzer.findings.finding import Finding
from analyzer.interfaces.mail.content import Attachment
from analyzer.period import local
from analyzer.queries.ledger_query import Breakdown
from analyzer.reports.week import WeekReport
from analyzer.text.table import decimal_digits, hours_digits, money_digits, safe_cell
from analyzer.text.words import plain_sentence

FINDINGS_MOST = 2_000  # of more, those with most at stake: about 400 KB
_TEAMS = (
    "week", "team", "gpu_hours", "currency", "cost", "useful_gpu_hours", "useful", "avoidable_gpu_hours", "avoidable",
)  # fmt: skip
_FINDINGS = (
    "week", "finding", "rule", "subject", "team", "what", "confidence", "who_can_act", "gpu_hours", "currency",
    "at_stake", "first", "last", "still_open", "told",
)  # fmt: skip


def attachments(report: WeekReport, team: str | None) -> tuple[Attachment, ...]:
    """Return the files of the fleet's mail (None), or of one team's, whose report this is; an empty table is none."""
    week = report.period.label
    rows = [(report.by_team.words(row), row.breakdown) for row in report.by_team.rows]
    if team is not None and report.breakdown.entries:
        rows = [(team, report.breakdown)]
    found = [one for one in report.findings if not one.suspicion]
    found = sorted(found, key=lambda one: (-(one.at_stake_micros or 0), -one.milliseconds, one.id))
    tables = (
        (f"{week}-teams.csv", _TEAMS, [_team(week, name, of, report.currency) for name, of in rows]),
        (f"{week}-findings.csv", _FINDINGS, [_finding(one, report) for one in found[:FINDINGS_MOST]]),
    )
    return tuple(Attachment(name, _csv(head, body)) for name, head, body in tables if body)


def _team(week: str, name: str, of: Breakdown, currency: str) -> list[str]:
    useful, avoidable = of.of("useful"), of.of("avoidable")
    cells = [week, name, _hours(of.milliseconds), currency, _money(of.cost_micros)]
    if of.milliseconds and not of.measured.milliseconds:  # nobody measured it: neither is known, and neither is 0
        return [*cells, "", "", "", ""]
    for part in (useful, avoidable):
        cost = part.cost_micros if part.entries else 0
        cells += [_hours(part.milliseconds), _money(None if of.cost_micros is None else cost)]
    return cells


def _finding(one: Finding, report: WeekReport) -> list[str]:
    zone = report.period.timezone
    return [
        report.period.label, one.id, one.rule, one.subject, one.team or "", one.what, one.confidence, one.actor or "",
        _hours(one.milliseconds), report.currency, _money(one.at_stake_micros),
        *(local(at, zone).isoformat(timespec="minutes") for at in (one.first_at, one.last_at)),
        "yes" if one.still_open else "no", one.claim,
    ]  # fmt: skip


def _csv(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; no cell begins as a formula does."""
    out = StringIO()
    file = csv.writer(out, lineterminator="\r\n")
    file.writerow(head)
    for row in rows:
        file.writerow([safe_cell(plain_sentence(cell)) for cell in row])
    return out.getvalue()


def _hours(milliseconds: int) -> str:
    return decimal_digits(hours_digits(milliseconds))


def _money(micros: int | None) -> str:
    """Return an exact amount; what is not known is an empty cell, never 0."""
    return "" if micros is None else decimal_digits(money_digits(micros))
