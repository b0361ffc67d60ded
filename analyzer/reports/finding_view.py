"""What text, page and document say of one finding beside its figures: the same words in each."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.wire.units import DAY_US, HOUR_US
from analyzer.charts.series import Chart, Trace, chart
from analyzer.findings.argue import Argument, Plot, RuledOut
from analyzer.findings.evidence import MODERATE_PERMILLE, SEVERE_PERMILLE, need_words
from analyzer.findings.finding import Finding, FindingDocument
from analyzer.findings.words import host_words
from analyzer.period import Period, local
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.recommendation_words import actor_words, saves_in_run, saves_words
from analyzer.states import Class
from analyzer.text.words import (
    counted,
    day,
    gpu_hours,
    moment_words,
    money,
    plain,
    plain_sentence,
    span_words,
    until_words,
)

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
        team = {"run": self.finding.team or "job owner"}
        return plain(team.get(self.finding.actor or "", self.finding.actor or "nobody"))

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
        words = [] if self.argument.need is None else [need_words(self.argument.need)]
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
