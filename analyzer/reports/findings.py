"""The findings of a period and how they moved since the one before; and what text, page and document say of one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agent.wire.units import DAY_US, HOUR_MS, HOUR_US, MICROS
from analyzer.charts.series import Chart, Trace, chart
from analyzer.findings.argue import Argument, Plot, RuledOut
from analyzer.findings.evidence import MODERATE_PERMILLE, SEVERE_PERMILLE, need_words
from analyzer.findings.finding import Finding, FindingDocument, finding_documents
from analyzer.findings.health.notice import Notice
from analyzer.findings.judgement import FindingHistory, Record, RuleTally
from analyzer.findings.ledger_findings import StillCosts
from analyzer.findings.life import Life
from analyzer.findings.words import host_words, in_tense
from analyzer.ledger.coverage import Measured
from analyzer.period import Period, local
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.recommendation_words import actor_words, saves_in_run, saves_words
from analyzer.reports.request import LedgerFilter
from analyzer.states import Class
from analyzer.text.words import (
    apportion,
    counted,
    day,
    decimal,
    gpu_hours,
    moment_words,
    money,
    nearest,
    nothing_avoidable,
    owner_word,
    plain,
    plain_sentence,
    span_words,
    until_words,
)

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


_RUNS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Words:
    """What is said of findings and recommendations in one site's currency and clock; `span` is a run's own."""

    currency: str
    timezone: str
    span: Period | None = None
    running: bool = False

    def stake(self, finding: Finding) -> str:
        """Return the estimated waste, in money where it is known, and in GPU-hours."""
        hours = f"{gpu_hours(finding.milliseconds)} GPU-hours"
        if finding.at_stake_micros is None:
            return f"{hours} estimated waste, price not known"
        return f"{money(finding.at_stake_micros, self.currency)} estimated waste, {hours}"

    def when(self, finding: Finding) -> str:
        """Return from when to when it was seen; whether it is closed is the book's to say."""
        if finding.still_open:
            return f"since {moment_words(finding.first_at, self.timezone)}, still open"
        return f"seen {span_words(finding.first_at, finding.last_at, self.timezone)}"

    def saves(self, advice: Recommendation) -> str:
        """Return the predicted saving: a week, or on the page of a run each run, or of what it has lost."""
        if self.span is None:
            return saves_words(advice, self.currency)
        return saves_in_run(advice, self.span.end - self.span.start, self.currency, running=self.running)

    def actor(self, advice: Recommendation) -> str:
        """Return the owner."""
        return actor_words(advice)


@dataclass(frozen=True, slots=True)
class Explained:
    """One finding of a period, its argument, and what would help; in words, as templates and text take them."""

    period: Period
    currency: str
    finding: FindingDocument
    argument: Argument | None = None
    advice: tuple[Recommendation, ...] = ()

    @property
    def timezone(self) -> str:
        """By whose clock it is read."""
        return self.period.timezone

    @property
    def words(self) -> Words:
        """The site's words."""
        return Words(self.currency, self.timezone)

    @property
    def stake(self) -> str:
        """The estimated waste, in money where it is known, and in GPU-hours."""
        return self.words.stake(self.finding)

    @property
    def state(self) -> str:
        """Its state: "open 6 d", "closed 14 Nov", "open again 2 d"; without a book what the period itself shows."""
        life = self.finding.life
        if life is None:
            return "open" if self.finding.still_open else "ended"
        if life.closed_at is not None:
            return f"closed {day(local(life.closed_at - 1, self.timezone)).split(' ', 1)[1]}"
        age = life.updated_at - life.opened_at
        lasted = f"{age // DAY_US} d" if age >= DAY_US else f"{-(-age // HOUR_US)} h"
        return f"open again {lasted}" if life.reopened else f"open {lasted}"

    @property
    def actor(self) -> str:
        """The owner: of a run its team."""
        actor, team = self.finding.actor, self.finding.team
        return plain(team if actor == "run" and team else owner_word(actor, "nobody"))

    @property
    def when(self) -> str:
        """From when to when it was seen."""
        return span_words(self.finding.first_at, self.finding.last_at, self.timezone)

    @property
    def hosts(self) -> str:
        """Its hosts; empty where it has none."""
        return host_words(self.finding.hosts) if self.finding.hosts else ""

    @property
    def root(self) -> str:
        """The GPU or run that caused it and where it is; empty where none is known."""
        finding = self.finding
        if finding.caused_by is None:
            return ""
        return plain(finding.caused_by) + (f" on {plain(finding.caused_on)}" if finding.caused_on else "")

    @property
    def rule(self) -> str:
        """The rule with its version, and the date of all rules and thresholds by which its hours were judged."""
        dates = sorted({version.partition("+")[0] for version in self.argument.rules}) if self.argument else []
        rule = plain(" ".join(filter(None, (self.finding.rule, self.finding.rule_version))))
        return rule + (f", rules of {', '.join(map(plain, dates))}" if dates else "")

    @property
    def need(self) -> str:
        """The counterfactual and how severe the waiting is; empty where neither is known."""
        if self.argument is None:
            return ""
        words = (
            []
            if self.argument.need is None
            else [in_tense(need_words(self.argument.need), past=not self.finding.still_open)]
        )
        if self.argument.severity is not None:
            bands = f"moderate from {MODERATE_PERMILLE // 10}%, severe from {SEVERE_PERMILLE // 10}% of a step"
            words.append(f"{self.argument.severity} ({bands})")
        return "; ".join(words)

    @property
    def ruled_out(self) -> tuple[str, ...]:
        """The other explanations with what speaks against each."""
        return causes_out(self.argument.ruled_out) if self.argument else ()

    @property
    def apart(self) -> tuple[str, ...]:
        """What else these runs spent and is booked apart: overhead, and findings of their own."""
        out = self.argument.ruled_out if self.argument else ()
        overhead = [f"{one.what}: {plain_sentence(one.why)}" for one in out if one.kind == "overhead"]
        others = [plain_sentence(one.what) for one in out if one.kind == "finding"]
        own = [f"findings of their own: {', '.join(others)}"] if others else []
        return (*overhead, *own)

    @property
    def judged(self) -> str:
        """What was said of it, when and why; empty where nobody has."""
        if (word := self.finding.judgement) is None:
            return ""
        when = day(local(word.recorded_at, self.timezone))
        return f"{word.verdict}, said {when} of {plain(word.period_label)}: {plain_sentence(word.because)}"

    @property
    def muted(self) -> str:
        """Until when it is muted and why; empty where it is not."""
        if (mute := self.finding.mute) is None:
            return ""
        return f"until {until_words(mute.until, self.timezone)}: {plain_sentence(mute.because)}"

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs that are listed, those that lost most first."""
        return self.finding.run_ids[:_RUNS_SHOWN]

    @property
    def more_runs(self) -> int:
        """How many are not."""
        return max(0, len(self.finding.run_ids) - _RUNS_SHOWN)


def causes_out(ruled_out: Sequence[RuledOut]) -> tuple[str, ...]:
    """Return those that are causes, and not time of the same runs that is booked apart."""
    return tuple(f"{one.what}: {plain_sentence(one.why)}" for one in ruled_out if one.kind == "cause")


def of_runs(finding: Finding) -> str:
    """Return " of 3 runs", or nothing for what is of a host."""
    return f" of {counted(len(finding.run_ids), 'run')}" if finding.run_ids else ""


def whose_gpus(finding: Finding, plot: Plot) -> str:
    """Return whose GPUs a finding's plot shows: of many runs the one that lost most."""
    short = plain(plot.run_id.rpartition("/")[2])
    if len(finding.run_ids) > 1:
        return f"{short}, 1 of {len(finding.run_ids):,} runs"
    name = plain(finding.subject)
    return name if short in name else f"{name} ({short})"


def finding_charts(finding: Finding, plot: Plot | None, timezone: str) -> tuple[Chart, ...]:
    """Return what a finding's verdict stands on: the states of its run, and below them the signal that decided."""
    if plot is None:
        return ()
    lost: Class = "unknown" if finding.suspicion else "avoidable"
    states = (Trace("productive", "useful", plot.working), Trace(plot.label, lost, plot.lost))
    found = [chart(f"What the GPUs did: {whose_gpus(finding, plot)}", "% of its GPUs", plot.times, timezone, states)]
    if (signal := plot.signal) is not None:
        mark = "" if signal.mark is None else f"; the rule's mark is {signal.mark:g}"
        trace = Trace(signal.name, "overhead", signal.values)
        title = f"{signal.name[:1].upper()}{signal.name[1:]}, {signal.unit}{mark}"
        found.append(chart(title, signal.unit, plot.times, timezone, (trace,), signal.mark))
    return tuple(found)
