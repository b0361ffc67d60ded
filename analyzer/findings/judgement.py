"""What people say of findings (right, wrong, planned, mutes), what is kept of it, and how often we were right.

`planned` means right, and accepted: nobody will change it, and it counts as right. `wrong` changes no second of the
ledger, which says what was measured; it is counted against the rule.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args
from zoneinfo import ZoneInfo

from pydantic import ConfigDict, Field

from analyzer.errors import ConfigError
from analyzer.findings.life import Life, Spell, as_of
from analyzer.ledger.thresholds import Thresholds
from analyzer.period import Period, iso, local, micros
from analyzer.states import Confidence
from analyzer.text.as_json import WHOLE, Iso, Micros, Milliseconds, Sentence

if TYPE_CHECKING:
    from collector.store.session import Session

Verdict = Literal["right", "wrong", "planned"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
BECAUSE_MAX = 500
MUTE_DAYS_MAX = 90  # a quarter: long enough for a planned change, short enough that somebody looks again (our choice)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One word on one finding in one period; the last on a finding and a period counts. Who said it, the audit has.

    `confidence`, `milliseconds`, `rule` and `rule_version` are those of the finding when it was judged: they are
    kept, so that a later analysis does not change what was judged.
    """

    __pydantic_config__: ClassVar[ConfigDict] = WHOLE

    judgement_id: str
    finding_id: str
    verdict: Verdict
    because: Sentence
    period_start: Micros
    period_end: Micros
    period_label: str
    recorded_at: Micros
    confidence: Confidence
    milliseconds: Milliseconds
    rule: str
    rule_version: Annotated[str | None, Field(description="The version of the rule at the time; null: not kept.")]
    recorded_at_iso: Iso = field(default="", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "recorded_at_iso", iso(self.recorded_at))


@dataclass(frozen=True, slots=True)
class Mute:
    """Until when lists leave a finding out."""

    __pydantic_config__: ClassVar[ConfigDict] = WHOLE

    mute_id: str
    finding_id: str
    until: Micros
    because: Sentence
    recorded_at: Micros
    until_iso: Iso = field(default="", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "until_iso", iso(self.until))


def verdict_of(word: str) -> Verdict:
    """Return the verdict that a word means.

    Raises:
        ConfigError: it is none of the three.
    """
    for verdict in VERDICTS:
        if word == verdict:
            return verdict
    raise ConfigError(f"a verdict is {', '.join(VERDICTS[:-1])} or {VERDICTS[-1]}, not {word!r}")


def reason_of(text: str) -> str:
    """Return a reason as it is kept: one line, without control characters.

    Raises:
        ConfigError: it is empty or too long.
    """
    reason = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if not reason:
        raise ConfigError('say why: --because "the augmentation is meant to be that heavy"')
    if len(reason) > BECAUSE_MAX:
        raise ConfigError(f"a reason has a maximum of {BECAUSE_MAX} characters, and this one has {len(reason)}")
    return reason


def mute_until(text: str, timezone: str, now_us: int) -> int:
    """Return the moment that a date or a time means; of a date its end, in the site's time zone.

    Raises:
        ConfigError: it is no date, has passed, or is further away than a mute may last.
    """
    zone = ZoneInfo(timezone)
    try:
        if len(text) == len("2026-12-01"):
            until = micros(datetime.combine(date.fromisoformat(text) + timedelta(days=1), time(), tzinfo=zone))
        else:
            moment = datetime.fromisoformat(text)
            until = micros(moment if moment.tzinfo else moment.replace(tzinfo=zone))
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{text!r} is not a date to mute until: give 2026-12-01 or 2026-12-01T08:00") from error
    longest = local(now_us, timezone).date() + timedelta(days=MUTE_DAYS_MAX)
    if until <= now_us:
        raise ConfigError(f"{text} has passed: a mute must end in the future")
    if until > micros(datetime.combine(longest + timedelta(days=1), time(), tzinfo=zone)):
        raise ConfigError(
            f"{text} is too far ahead: a mute lasts no more than {MUTE_DAYS_MAX} days, until {longest}; if it is "
            "planned, say so with gpuledger findings judge"
        )
    return until


def last_words(judgements: Iterable[Judgement]) -> list[Judgement]:
    """Return the word that counts of each finding and period: the last, of words of one moment the later id."""
    ordered = sorted(judgements, key=lambda each: (each.recorded_at, each.judgement_id))
    return list({(one.finding_id, one.period_start, one.period_end): one for one in ordered}.values())


def muted(mutes: Iterable[Mute], now_us: int) -> dict[str, Mute]:
    """Return the mutes that hold at a moment, by finding; the last word on a finding counts."""
    ordered = sorted(mutes, key=lambda each: (each.recorded_at, each.mute_id))
    last = {mute.finding_id: mute for mute in ordered}
    return {finding_id: mute for finding_id, mute in last.items() if mute.until > now_us}


def word_on(judgements: Iterable[Judgement], finding_id: str, period: Period) -> Judgement | None:
    """Return the word that counts on a finding in a period: on the period itself, else the last on one within it."""
    words = [one for one in last_words(judgements) if one.finding_id == finding_id]
    exact = [one for one in words if (one.period_start, one.period_end) == (period.start, period.end)]
    within = [one for one in words if one.period_start < period.end and one.period_end > period.start]
    chosen = exact or within
    return chosen[-1] if chosen else None


PROMISED_PERMILLE = 950  # what "high" promises: at least 95 of 100 are right
JUDGED_LEAST = 20  # of fewer, one wrong word more or less decides


@dataclass(frozen=True, slots=True)
class FindingTally:
    """Findings of one kind that somebody judged. `right` holds those that are planned, too."""

    __pydantic_config__: ClassVar[ConfigDict] = WHOLE

    judged: int
    right: int
    planned: int
    permille: Annotated[
        int | None, Field(description="The share that was right, rounded down; null where none has feedback.")
    ] = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "permille", self.right * 1000 // self.judged if self.judged else None)

    @property
    def percent(self) -> str | None:
        """The share for a person: the nearest whole, but 100% only where all were right and 0% where none was."""
        if not self.judged:
            return None
        nearest = (200 * self.right + self.judged) // (2 * self.judged)
        if 0 < self.right < self.judged:
            nearest = min(99, max(1, nearest))
        return f"{nearest}%"


@dataclass(frozen=True, slots=True)
class VersionTally:
    """One version of a rule at one confidence."""

    version: Annotated[
        str | None, Field(description="Null where the verdict is older than the versions of single rules.")
    ]
    tally: FindingTally


@dataclass(frozen=True, slots=True)
class RuleTally:
    """One rule at one confidence: over all its versions, and by each."""

    rule: str
    confidence: str
    tally: FindingTally
    versions: Annotated[
        tuple[VersionTally, ...],
        Field(description="The same by version of the rule, in the order of their first verdicts."),
    ]


@dataclass(frozen=True, slots=True)
class Record:
    """How often we were right so far, one word a finding and period."""

    high: FindingTally
    medium: FindingTally
    low: FindingTally
    rules: tuple[RuleTally, ...]

    @property
    def overconfident(self) -> tuple[RuleTally, ...]:
        """The rules whose "high" has not kept what it promises, over at least twenty findings judged."""
        return tuple(
            one
            for one in self.rules
            if one.confidence == "high"
            and one.tally.judged >= JUDGED_LEAST
            and 1000 * one.tally.right < PROMISED_PERMILLE * one.tally.judged
        )


def record_of(judgements: Iterable[Judgement]) -> Record:
    """Return the record of these judgements; of each finding and period the last word counts."""
    words = last_words(judgements)
    by_rule: dict[tuple[str, str], list[Judgement]] = defaultdict(list)
    for word in words:
        by_rule[word.rule, word.confidence].append(word)

    def of(level: str) -> FindingTally:
        return _tally([word for word in words if word.confidence == level])

    return Record(
        of("high"),
        of("medium"),
        of("low"),
        tuple(RuleTally(rule, level, _tally(own), _by_version(own)) for (rule, level), own in sorted(by_rule.items())),
    )


def _by_version(words: list[Judgement]) -> tuple[VersionTally, ...]:
    """Return a tally of each version, in the order in which they were first judged."""
    versions = dict.fromkeys(word.rule_version for word in words)
    return tuple(
        VersionTally(version, _tally([word for word in words if word.rule_version == version])) for version in versions
    )


def _tally(words: list[Judgement]) -> FindingTally:
    planned = sum(word.verdict == "planned" for word in words)
    return FindingTally(len(words), planned + sum(word.verdict == "right" for word in words), planned)


RuleVersions = dict[str, dict[str, str]]  # by the version of all rules, then by the name of one


@dataclass(frozen=True, slots=True)
class FindingHistory:
    """What is kept of the findings of one period: lives as of its end, the last words, the mutes that hold.

    Lives and mutes are by finding id; `closed` counts the findings that were closed in the period.
    """

    lives: Mapping[str, Life] = field(default_factory=dict)
    judgements: Sequence[Judgement] = ()
    mutes: Mapping[str, Mute] = field(default_factory=dict)
    closed: int = 0

    @property
    def record(self) -> Record:
        """How often we were right, so far."""
        return record_of(self.judgements)

    def word(self, finding_id: str, period: Period) -> Judgement | None:
        """Return what was said last of a finding in this period."""
        return word_on(self.judgements, finding_id, period)


def read_case(session: "Session", period: Period, now_us: int) -> FindingHistory:
    """Return what is kept of a period's findings. `now_us` decides which mutes still hold, and nothing else."""
    return FindingHistory(
        lives(session, period.end), judgements(session), muted(mutes(session), now_us), _closed_within(session, period)
    )


def lives(session: "Session", moment_us: int) -> dict[str, Life]:
    """Return the lives of all findings as of a moment, by id."""
    spells: dict[str, list[Spell]] = defaultdict(list)
    for finding_id, *spell in session.rows(
        "SELECT finding_id, opened_at, updated_at, closed_at, hours, milliseconds, cost_micros, confidence "
        "FROM finding_book ORDER BY finding_id, spell"
    ):
        spells[finding_id].append(Spell(*spell))
    known = {finding_id: as_of(own, finding_id, moment_us) for finding_id, own in spells.items()}
    return {finding_id: life for finding_id, life in known.items() if life is not None}


def _closed_within(session: "Session", period: Period) -> int:
    """Return how many findings were closed in a period, and not opened again in it; suspicions are not counted."""
    (count,) = session.row(
        "SELECT count(*) FROM finding_book b WHERE closed_at > $start AND closed_at <= $end AND state <> 'unexplained' "
        "AND NOT EXISTS (FROM finding_book n WHERE n.finding_id = b.finding_id AND n.spell = b.spell + 1 "
        "AND n.opened_at < $end)",
        {"start": period.start, "end": period.end},
    )
    return int(count)


def judgements(session: "Session") -> list[Judgement]:
    """Return all that was ever said, in order."""
    versions = rule_versions(session)
    rows = session.rows(
        "SELECT rules_version, judgement_id, finding_id, verdict, because, period_start, period_end, period_label, "
        "recorded_at, confidence, milliseconds, state || '/' || cause "
        "FROM finding_judgements ORDER BY recorded_at, judgement_id"
    )
    return [Judgement(*[*row, versions.get(rules, {}).get(row[-1])]) for rules, *row in rows]


def mutes(session: "Session") -> list[Mute]:
    """Return all mutes that were ever said, in order; most of them have ended."""
    rows = session.rows(
        "SELECT mute_id, finding_id, until, because, recorded_at FROM finding_mutes ORDER BY recorded_at, mute_id"
    )
    return [Mute(*row) for row in rows]


def keep_rule_versions(session: "Session", rules_version: str, limits: Thresholds) -> None:
    """Write down once of what the rules consist by which a pass judges."""
    if not session.rows("SELECT 1 FROM rule_versions WHERE rules_version = ?", [rules_version]):
        row = (rules_version, json.dumps(limits.rule_versions(), sort_keys=True))
        session.load("rule_versions", ("rules_version", "versions"), [row])


def rule_versions(session: "Session") -> RuleVersions:
    """Return by what version of its own rule each was made: of each version of all rules what it consisted of."""
    return {whole: json.loads(versions) for whole, versions in session.rows("FROM rule_versions")}
