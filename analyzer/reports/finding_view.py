"""What text, page and document say of one finding beside its figures: the same words in each."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.wire.units import DAY_US, HOUR_US
from analyzer.findings.explain.argue import Argument
from analyzer.findings.explain.ruled_out import RuledOut
from analyzer.findings.finding import Finding
from analyzer.findings.finding_sentence import finding_sentence
from analyzer.findings.history.judgement import Judgement, Mute
from analyzer.findings.history.life import Life
from analyzer.findings.rules.needs import MODERATE_PERMILLE, SEVERE_PERMILLE, need_words
from analyzer.findings.rules.sentence import host_words
from analyzer.period import Period, local
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.recommendation_words import actor_words, saves_in_run, saves_words
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
class Explained:
    """One finding of a period, its argument, what is kept of it, and what would help."""

    finding: Finding
    currency: str
    timezone: str
    argument: Argument | None = None
    life: Life | None = None
    judgement: Judgement | None = None
    mute: Mute | None = None
    advice: tuple[Recommendation, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Words:
    """What is said of findings and recommendations in one site's currency and clock; `span` is a run's own."""

    currency: str
    timezone: str
    span: Period | None = None
    running: bool = False

    def stake(self, finding: Finding) -> str:
        """Return what is at stake, in money where it is known, and in GPU-hours."""
        hours = f"{gpu_hours(finding.milliseconds)} GPU-hours"
        if finding.at_stake_micros is None:
            return f"{hours} at stake, no price known"
        return f"{money(finding.at_stake_micros, self.currency)} at stake, {hours}"

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
        """Return who can act."""
        return actor_words(advice)


@dataclass(frozen=True, slots=True)
class FindingView:
    """One finding in words, for templates."""

    finding: Finding
    argument: Argument | None
    words: Words
    sentence: str
    stake: str
    state: str
    actor: str
    when: str
    hosts: str
    root: str
    rule: str
    need: str
    ruled_out: tuple[str, ...]
    apart: tuple[str, ...]
    advice: tuple[Recommendation, ...]
    judged: str
    muted: str
    runs: tuple[str, ...]
    more_runs: int


def finding_view(explained: Explained) -> FindingView:
    """Return what is said of it."""
    finding, argument, zone = explained.finding, explained.argument, explained.timezone
    words = Words(explained.currency, zone)
    return FindingView(
        finding,
        argument,
        words,
        finding_sentence(finding, explained.currency, zone),
        words.stake(finding),
        state_words(finding, explained.life, zone),
        actor_of(finding),
        span_words(finding.first_at, finding.last_at, zone),
        host_words(finding.hosts) if finding.hosts else "",
        root_of(finding),
        rules_words(finding, argument),
        needs_of(argument),
        ruled_out_of(argument),
        apart_of(argument),
        explained.advice,
        judged_of(explained),
        muted_of(explained),
        finding.run_ids[:_RUNS_SHOWN],
        max(0, len(finding.run_ids) - _RUNS_SHOWN),
    )


def state_words(finding: Finding, life: Life | None, timezone: str) -> str:
    """Return "open 6 d", "closed 14 Nov" or "open again 2 d"; without a book what the period itself shows."""
    if life is None:
        return "open" if finding.still_open else "ended"
    if life.closed_at is not None:
        return f"closed {day(local(life.closed_at - 1, timezone)).split(' ', 1)[1]}"
    age = life.updated_at - life.opened_at
    lasted = f"{age // DAY_US} d" if age >= DAY_US else f"{-(-age // HOUR_US)} h"
    return f"open again {lasted}" if life.reopened else f"open {lasted}"


def rules_words(finding: Finding, argument: Argument | None) -> str:
    """Return the rule with its version, and the date of all rules and thresholds by which its hours were judged."""
    dates = sorted({version.partition("+")[0] for version in argument.rules}) if argument else []
    rule = plain(" ".join(filter(None, (finding.rule, finding.rule_version))))
    return rule + (f", rules of {', '.join(map(plain, dates))}" if dates else "")


def actor_of(finding: Finding) -> str:
    """Return who can act: of a run its team."""
    return plain({"run": finding.team or "the run's owner"}.get(finding.actor or "", finding.actor or "nobody"))


def root_of(finding: Finding) -> str:
    """Return the GPU or run that caused it and where it is; empty where none is known."""
    if finding.caused_by is None:
        return ""
    return plain(finding.caused_by) + (f" on {plain(finding.caused_on)}" if finding.caused_on else "")


def needs_of(argument: Argument | None) -> str:
    """Return the counterfactual and how severe the waiting is; empty where neither is known."""
    if argument is None:
        return ""
    words = [] if argument.need is None else [need_words(argument.need)]
    if argument.severity is not None:
        bands = f"moderate from {MODERATE_PERMILLE // 10} %, severe from {SEVERE_PERMILLE // 10} % of a step"
        words.append(f"{argument.severity} ({bands})")
    return "; ".join(words)


def ruled_out_of(argument: Argument | None) -> tuple[str, ...]:
    """Return the other explanations with what speaks against each."""
    return causes_out(_out(argument))


def causes_out(ruled_out: Sequence[RuledOut]) -> tuple[str, ...]:
    """Return those that are causes, and not time of the same runs that is booked apart."""
    return tuple(f"{one.what}: {plain_sentence(one.why)}" for one in ruled_out if one.kind == "cause")


def apart_of(argument: Argument | None) -> tuple[str, ...]:
    """Return what else these runs spent and is booked apart: overhead, and findings of their own."""
    overhead = [f"{one.what}: {plain_sentence(one.why)}" for one in _out(argument) if one.kind == "overhead"]
    others = [plain_sentence(one.what) for one in _out(argument) if one.kind == "finding"]
    own = [f"findings of their own: {', '.join(others)}"] if others else []
    return (*overhead, *own)


def _out(argument: Argument | None) -> tuple[RuledOut, ...]:
    return () if argument is None else argument.ruled_out


def judged_of(explained: Explained) -> str:
    """Return what was said of it, when and why; empty where nobody has."""
    if (word := explained.judgement) is None:
        return ""
    when = day(local(word.recorded_at, explained.timezone))
    return f"{word.verdict}, said {when} of {plain(word.period_label)}: {plain_sentence(word.because)}"


def muted_of(explained: Explained) -> str:
    """Return until when it is muted and why; empty where it is not."""
    if (mute := explained.mute) is None:
        return ""
    return f"until {until_words(mute.until, explained.timezone)}: {plain_sentence(mute.because)}"


def of_runs(finding: Finding) -> str:
    """Return " of 3 runs", or nothing for what is of a host."""
    return f" of {counted(len(finding.run_ids), 'run')}" if finding.run_ids else ""
