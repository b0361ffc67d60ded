"""The findings of a period, how they moved since the period before, and their column of money."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agent.wire.units import HOUR_MS, MICROS
from analyzer.findings.finding import Finding, FindingDocument, finding_documents
from analyzer.findings.health.notice import Notice
from analyzer.findings.judgement import FindingHistory, Record, RuleTally
from analyzer.findings.ledger_findings import StillCosts
from analyzer.findings.life import Life
from analyzer.ledger.coverage import Measured
from analyzer.period import Period
from analyzer.reports.request import LedgerFilter
from analyzer.text.words import apportion, decimal, money, nearest, nothing_avoidable

_MOVED_PERMILLE = 100  # a finding grows or shrinks where it changed by more than a tenth
_CENTS = 100

FindingTrend = Literal["new", "growing", "as before", "shrinking"]


@dataclass(frozen=True, slots=True)
class Trend:
    """How many findings are new (of them opened `again`), grew, stayed, shrank; closed in the period, or else gone."""

    new: int
    growing: int
    steady: int
    shrinking: int
    gone: int
    again: int = 0
    closed: int | None = None


@dataclass(frozen=True, slots=True)
class FindingsReport:
    """Findings by money; suspicions and hardware to look at apart.

    `findings` are all, muted ones too, so that they sum to what was avoidable. `trend` is None, and `moved` (by id) is
    empty, where the period before is not wholly known; `closed` is None where there is no book.
    """

    period: Period
    currency: str
    findings: tuple[FindingDocument, ...]
    suspicions: tuple[FindingDocument, ...]
    moved: Mapping[str, FindingTrend]
    trend: Trend | None
    not_judged: int
    notices: tuple[Notice, ...] = ()
    everything: bool = False
    closed: int | None = None
    record: Record | None = None
    sure: str | None = None
    alarming: tuple[str, ...] = field(init=False)  # the ids for which --check fails
    still: StillCosts | None = None  # what goes on costing most until somebody lets go
    part: LedgerFilter | None = None  # of which runs they are, where not of all
    measured: Measured | None = None  # how much of what runs held was: what was not has no finding

    def __post_init__(self) -> None:
        alarming = tuple(one.id for one in self.findings if _is_alarming(one, self.period))
        object.__setattr__(self, "alarming", alarming)

    @property
    def nothing(self) -> str:
        """What is said where there is none: of what was measured."""
        known = self.measured
        said = (
            nothing_avoidable(known.held_milliseconds, known.not_measured_milliseconds)
            if known
            else nothing_avoidable(1, 0)
        )
        is_part = known is None or known.not_measured_milliseconds < known.held_milliseconds
        return f"{said}{' in this period' if is_part else ''}."

    @property
    def priced(self) -> bool:
        """Whether all of them are priced."""
        return all(finding.at_stake_micros is not None for finding in self.findings)

    @property
    def shown(self) -> tuple[FindingDocument, ...]:
        """Those that are asked for: without muted ones, unless everything is, and of one confidence alone."""
        return tuple(finding for finding in self.findings if not self.why_not_shown(finding))

    @property
    def muted_until(self) -> tuple[int, ...]:
        """Until when the muted ones among them are."""
        return tuple(finding.mute.until for finding in self.findings if finding.mute is not None)

    @property
    def overconfident(self) -> tuple[RuleTally, ...]:
        """The rules whose "high" has not kept its promise."""
        return self.record.overconfident if self.record is not None else ()

    def standing(self, finding: FindingDocument) -> str:
        """Return whether it is open, and how it moved: "open, new", "closed", "muted"."""
        if finding.mute is not None:
            return "muted"
        if not finding.is_open:
            return "closed"
        moved = self.moved.get(finding.id)
        return "open" if moved in (None, "as before") else f"open, {moved}"

    @property
    def still_open(self) -> int:
        """How many of them are open."""
        return sum(finding.is_open for finding in self.findings)

    def why_not_shown(self, finding: FindingDocument) -> str:
        """Return why the list leaves a finding out, as its own row says it; nothing where it does not."""
        if self.sure is not None and finding.confidence != self.sure:
            return f"not of {self.sure} confidence"
        return "muted" if finding.mute is not None and not self.everything else ""


def finding_order(finding: Finding) -> tuple[bool, int, int, str]:
    """Return what sorts a list of findings: the most expensive first, suspicions last."""
    return finding.suspicion, -(finding.at_stake_micros or 0), -finding.milliseconds, finding.id


def findings_report(
    period: Period,
    currency: str,
    found: Sequence[Finding],
    previous: Sequence[Finding] | None,
    not_judged: int,
    noticed: Sequence[Notice] = (),
    *,
    everything: bool = False,
    sure: str | None = None,
    case: FindingHistory | None = None,
    still: StillCosts | None = None,
    measured: Measured | None = None,
) -> FindingsReport:
    """Sort findings by what is at stake: money where all of it is known, else time. `case` is what is kept of them."""
    known = case or FindingHistory()
    proven = [finding for finding in found if not finding.suspicion]
    priced = all(finding.at_stake_micros is not None for finding in proven)

    def size(finding: Finding) -> tuple[int, str]:
        return -((finding.at_stake_micros or 0) if priced else finding.milliseconds), finding.id

    findings = finding_documents(sorted(proven, key=size), period, currency, known)
    suspicions = sorted((finding for finding in found if finding.suspicion), key=lambda f: (-f.milliseconds, f.id))
    closed = known.closed if known.lives else None
    moved: dict[str, FindingTrend] = {}
    trend = None
    if previous is not None:
        sizes = {finding.id: finding.milliseconds for finding in previous if not finding.suspicion}
        moved = {one.id: _moved(one, sizes.get(one.id), one.life, period) for one in findings}
        trend = _trend(findings, moved, len(sizes.keys() - moved.keys()), closed)
    return FindingsReport(
        period,
        currency,
        findings,
        finding_documents(suspicions, period, currency, known),
        moved,
        trend,
        not_judged,
        tuple(noticed),
        everything,
        closed,
        known.record,
        sure,
        still=still,
        measured=measured,
    )


def _moved(finding: Finding, before: int | None, life: Life | None, period: Period) -> FindingTrend:
    """Return how a finding moved since the period before; one that was opened again in this period is new."""
    if before is None or (life is not None and life.opened_at >= period.start):
        return "new"
    change = 1000 * (finding.milliseconds - before)
    if change > _MOVED_PERMILLE * before:
        return "growing"
    return "shrinking" if -change > _MOVED_PERMILLE * before else "as before"


def _trend(
    findings: Sequence[FindingDocument], moved: Mapping[str, FindingTrend], gone: int, closed: int | None
) -> Trend:
    counts = Counter(moved.values())
    again = sum(moved[one.id] == "new" and one.life is not None and one.life.reopened > 0 for one in findings)
    return Trend(counts["new"], counts["growing"], counts["as before"], counts["shrinking"], gone, again, closed)


def _is_alarming(finding: FindingDocument, period: Period) -> bool:
    """Whether --check fails for it: new in this period, high, still open, and nobody has judged or muted it yet."""
    if finding.confidence != "high" or not finding.is_open or finding.suspicion:
        return False
    is_new = finding.life is None or finding.life.opened_at >= period.start
    return is_new and finding.judgement is None and finding.mute is None


def at_stake_column(findings: Sequence[Finding], currency: str) -> tuple[list[str], str]:
    """Return what each has at stake and the sum, adding up as printed: money, or GPU-hours without prices."""
    exact = [finding.at_stake_micros for finding in findings if finding.at_stake_micros is not None]
    if len(exact) == len(findings):
        total = nearest(sum(exact) * _CENTS, MICROS)
        units = apportion(total, [micros * _CENTS for micros in exact], MICROS)
        return [decimal(unit, 2) for unit in units], money(sum(exact), currency)
    times = [finding.milliseconds * 10 for finding in findings]
    total = nearest(sum(times), HOUR_MS)
    return [decimal(unit, 1) for unit in apportion(total, times, HOUR_MS)], f"{decimal(total, 1)} GPU-hours"
