"""The findings of a period, how they moved since the period before, and their column of money."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agent.wire.units import HOUR_MS, MICROS
from analyzer.findings.finding import Finding
from analyzer.findings.health.notice import Notice
from analyzer.findings.history.case import FindingHistory
from analyzer.findings.history.judgement import Verdict
from analyzer.findings.history.life import Life, State
from analyzer.findings.history.record import Record, RuleTally
from analyzer.findings.still_costs import StillCosts
from analyzer.ledger.coverage import Measured
from analyzer.period import Period
from analyzer.reports.ledger_filter import LedgerFilter
from analyzer.text.rounding import apportion, nearest
from analyzer.text.words import decimal, money, nothing_avoidable

_MOVED_PERMILLE = 100  # a finding grows or shrinks where it changed by more than a tenth
_CENTS = 100

FindingTrend = Literal["new", "growing", "as before", "shrinking"]


@dataclass(frozen=True, slots=True)
class Followed:
    """What is kept of one finding beside its figures. Times are microseconds UTC.

    `moved` is None where the period before is not wholly known; `state` where the book has no such finding yet.
    """

    id: str
    moved: FindingTrend | None
    state: State | None
    opened_at: int | None
    closed_at: int | None
    reopened: int
    verdict: Verdict | None
    muted_until: int | None


@dataclass(frozen=True, slots=True)
class FindingsReport:
    """Findings by money; suspicions and hardware to look at apart.

    `findings` are all, muted ones too, so that they sum to what was avoidable. `previous` is None where the period
    before is not wholly known; `closed` is None where there is no book.
    """

    period: Period
    currency: str
    findings: tuple[Finding, ...]
    suspicions: tuple[Finding, ...]
    previous: tuple[Finding, ...] | None
    not_judged: int
    notices: tuple[Notice, ...] = ()
    everything: bool = False
    followed: tuple[Followed, ...] = ()
    closed: int | None = None
    record: Record | None = None
    sure: str | None = None
    alarming: tuple[str, ...] = ()  # the ids for which --check fails
    still: StillCosts | None = None  # what goes on costing most until somebody lets go
    part: LedgerFilter | None = None  # of which runs they are, where not of all
    measured: Measured | None = None  # how much of what runs held was: what was not has no finding

    @property
    def nothing(self) -> str:
        """What is said where there is none: of what was measured."""
        known = self.measured
        said = nothing_avoidable(known.held, known.silent) if known else nothing_avoidable(1, 0)
        return f"{said}{' in this period' if known is None or known.silent < known.held else ''}."

    @property
    def priced(self) -> bool:
        """Whether all of them are priced."""
        return all(finding.at_stake_micros is not None for finding in self.findings)

    @property
    def shown(self) -> tuple[Finding, ...]:
        """Those that are asked for: without muted ones, unless everything is, and of one confidence alone."""
        return tuple(finding for finding in self.findings if not self.why_not_shown(finding))

    @property
    def muted_until(self) -> tuple[int, ...]:
        """Until when the muted ones among them are."""
        return tuple(one.muted_until for one in self.followed if one.muted_until is not None)

    @property
    def overconfident(self) -> tuple[RuleTally, ...]:
        """The rules whose "high" has not kept its promise."""
        return self.record.overconfident if self.record is not None else ()

    def is_open(self, finding: Finding) -> bool:
        """Whether it is open by the book; where the book has no such finding, by the period's own last hours."""
        followed = self.follow(finding.id)
        if followed is None or followed.state is None:
            return finding.still_open
        return followed.state != "closed"

    def standing(self, finding: Finding) -> str:
        """Return whether it is open, and how it moved: "open, new", "closed", "muted"."""
        followed = self.follow(finding.id)
        if followed is not None and followed.muted_until is not None:
            return "muted"
        if not self.is_open(finding):
            return "closed"
        moved = followed.moved if followed is not None else None
        return "open" if moved in (None, "as before") else f"open, {moved}"

    @property
    def still_open(self) -> int:
        """How many of them are open."""
        return sum(map(self.is_open, self.findings))

    def follow(self, finding_id: str) -> Followed | None:
        """Return what is kept of a finding."""
        return next((one for one in self.followed if one.id == finding_id), None)

    def why_not_shown(self, finding: Finding) -> str:
        """Return why the list leaves a finding out, as its own row says it; nothing where it does not."""
        if self.sure is not None and finding.confidence != self.sure:
            return f"not of {self.sure} confidence"
        followed = self.follow(finding.id)
        is_muted = followed is not None and followed.muted_until is not None
        return "muted" if is_muted and not self.everything else ""


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
    proven = [finding for finding in found if not finding.suspicion]
    priced = all(finding.at_stake_micros is not None for finding in proven)

    def size(finding: Finding) -> tuple[int, str]:
        return -((finding.at_stake_micros or 0) if priced else finding.milliseconds), finding.id

    before = None if previous is None else tuple(finding for finding in previous if not finding.suspicion)
    sizes = None if before is None else {one.id: one.milliseconds for one in before}
    suspicions = sorted((finding for finding in found if finding.suspicion), key=lambda f: (-f.milliseconds, f.id))
    known = case or FindingHistory()
    report = FindingsReport(
        period,
        currency,
        tuple(sorted(proven, key=size)),
        tuple(suspicions),
        before,
        not_judged,
        tuple(noticed),
        everything,
        tuple(_followed(finding, sizes, known, period) for finding in sorted(proven, key=size)),
        known.closed if known.lives else None,
        known.record,
        sure,
        still=still,
        measured=measured,
    )
    return replace(report, alarming=tuple(one.id for one in report.findings if _is_alarming(report, one)))


def _followed(finding: Finding, sizes: Mapping[str, int] | None, case: FindingHistory, period: Period) -> Followed:
    life, word, mute = case.lives.get(finding.id), case.word(finding.id, period), case.mutes.get(finding.id)
    return Followed(
        finding.id,
        None if sizes is None else _moved(finding, sizes.get(finding.id), life, period),
        life.state if life else None,
        life.opened_at if life else None,
        life.closed_at if life else None,
        life.reopened if life else 0,
        word.verdict if word else None,
        mute.until if mute else None,
    )


def _moved(finding: Finding, before: int | None, life: Life | None, period: Period) -> FindingTrend:
    """Return how a finding moved since the period before; one that was opened again in this period is new."""
    if before is None or (life is not None and life.opened_at >= period.start):
        return "new"
    change = 1000 * (finding.milliseconds - before)
    if change > _MOVED_PERMILLE * before:
        return "growing"
    return "shrinking" if -change > _MOVED_PERMILLE * before else "as before"


def trend(report: FindingsReport) -> Trend | None:
    """Return how findings moved since the period before; None where that is not known."""
    if report.previous is None:
        return None
    counts = Counter(one.moved for one in report.followed)
    gone = len({finding.id for finding in report.previous} - {finding.id for finding in report.findings})
    again = sum(one.moved == "new" and one.reopened > 0 for one in report.followed)
    return Trend(counts["new"], counts["growing"], counts["as before"], counts["shrinking"], gone, again, report.closed)


def _is_alarming(report: FindingsReport, finding: Finding) -> bool:
    """Whether --check fails for it: new in this period, high, still open, and nobody has judged or muted it yet."""
    one = report.follow(finding.id)
    if finding.confidence != "high" or not report.is_open(finding) or finding.suspicion:
        return False
    if one is None:
        return True
    is_new = one.opened_at is None or one.opened_at >= report.period.start
    return is_new and one.verdict is None and one.muted_until is None


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
