"""The findings of a period, how they moved since the period before, and their column of money."""

from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.findings import Finding
from analyzer.notices.notice import Notice
from analyzer.period import Period
from analyzer.report.rounding import apportion, nearest
from analyzer.report.words import MICROS, MS_PER_HOUR, decimal, money

MOVED_PERMILLE = 100  # a finding grows or shrinks where it changed by more than a tenth
CENTS = 100


@dataclass(frozen=True, slots=True)
class FindingsReport:
    """Findings by money; suspicions and hardware to look at apart.

    `previous` is None where the period before is not wholly known.
    """

    period: Period
    currency: str
    findings: tuple[Finding, ...]
    suspicions: tuple[Finding, ...]
    previous: tuple[Finding, ...] | None
    not_judged: int
    notices: tuple[Notice, ...] = ()
    everything: bool = False

    @property
    def priced(self) -> bool:
        """Whether all of them are priced."""
        return all(finding.at_stake_micros is not None for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Trend:
    """How many findings are new, grew, stayed, shrank and went."""

    new: int
    growing: int
    steady: int
    shrinking: int
    gone: int


def findings_report(
    period: Period,
    currency: str,
    found: Sequence[Finding],
    previous: Sequence[Finding] | None,
    not_judged: int,
    noticed: Sequence[Notice] = (),
    *,
    everything: bool = False,
) -> FindingsReport:
    """Sort findings by what is at stake: money where all of it is known, else time."""
    proven = [finding for finding in found if not finding.suspicion]
    priced = all(finding.at_stake_micros is not None for finding in proven)

    def size(finding: Finding) -> tuple[int, str]:
        return -((finding.at_stake_micros or 0) if priced else finding.milliseconds), finding.id

    before = None if previous is None else tuple(finding for finding in previous if not finding.suspicion)
    suspicions = sorted((finding for finding in found if finding.suspicion), key=lambda f: (-f.milliseconds, f.id))
    return FindingsReport(
        period,
        currency,
        tuple(sorted(proven, key=size)),
        tuple(suspicions),
        before,
        not_judged,
        tuple(noticed),
        everything,
    )


def trend(report: FindingsReport) -> Trend | None:
    """Return how findings moved since the period before; None where that is not known."""
    if report.previous is None:
        return None
    before = {finding.id: finding.milliseconds for finding in report.previous}
    changes = [finding.milliseconds - before[finding.id] for finding in report.findings if finding.id in before]
    sizes = [before[finding.id] for finding in report.findings if finding.id in before]
    growing = sum(1000 * change > MOVED_PERMILLE * size for change, size in zip(changes, sizes, strict=True))
    shrinking = sum(-1000 * change > MOVED_PERMILLE * size for change, size in zip(changes, sizes, strict=True))
    new = len(report.findings) - len(changes)
    gone = len(before.keys() - {finding.id for finding in report.findings})
    return Trend(new, growing, len(changes) - growing - shrinking, shrinking, gone)


def at_stake_column(findings: Sequence[Finding], currency: str) -> tuple[list[str], str]:
    """Return what each has at stake and the sum, adding up as printed: money, or GPU-hours without prices."""
    exact = [finding.at_stake_micros for finding in findings if finding.at_stake_micros is not None]
    if len(exact) == len(findings):
        total = nearest(sum(exact) * CENTS, MICROS)
        units = apportion(total, [micros * CENTS for micros in exact], MICROS)
        return [decimal(unit, 2) for unit in units], money(sum(exact), currency)
    times = [finding.milliseconds * 10 for finding in findings]
    total = nearest(sum(times), MS_PER_HOUR)
    return [decimal(unit, 1) for unit in apportion(total, times, MS_PER_HOUR)], f"{decimal(total, 1)} GPU-hours"
